//! Recomputes the managed fields of every recorded create from the created object.

use std::path::Path;

use serde_json::Value;
use watchkeeper_patch::endpoint::Endpoint;
use watchkeeper_patch::managed_fields::{Managers, Writer, empty_object};
use watchkeeper_wire::difference::Difference;
use watchkeeper_wire::schema::Schema;

/// Fields the server sets after it recorded the manager's fields: nobody owns them.
const FILLED_IN_BY_THE_SERVER: &[(&str, &[&str])] = &[
    ("CustomResourceDefinition", &[".status"]),
    ("Namespace", &[".spec.finalizers", ".status"]),
    ("Node", &[".spec.taints"]),
    ("PersistentVolume", &[".metadata.finalizers", ".status"]),
    (
        "PersistentVolumeClaim",
        &[".metadata.finalizers", ".spec.storageClassName", ".status"],
    ),
    (
        "Pod",
        &[
            ".metadata.annotations",
            ".spec.containers[name=\"c\"].resources",
            ".spec.containers[name=\"c\"].securityContext",
            ".spec.preemptionPolicy",
            ".spec.priority",
            ".spec.tolerations",
            ".status",
        ],
    ),
    (
        "Service",
        &[
            ".spec.clusterIP",
            ".spec.ipFamil",
            ".spec.healthCheckNodePort",
            ".spec.ports[",
        ],
    ),
];

/// The steps of every recorded case.
fn recorded_steps() -> Vec<(String, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/wire");
    let mut steps = Vec::new();
    for area in std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_dir())
    {
        for file in std::fs::read_dir(area.path()).unwrap().flatten() {
            let case: Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
            for part in ["setup", "steps"] {
                for step in case[part].as_array().into_iter().flatten() {
                    let name = format!("{}/{}/{}", case["area"], case["name"], step["id"]).replace('"', "");
                    steps.push((name, step.clone()));
                }
            }
        }
    }
    steps.sort_by(|a, b| a.0.cmp(&b.0));
    steps
}

#[test]
fn creates_are_laid_to_their_manager() {
    let schema = Schema::builtin();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for (name, step) in recorded_steps() {
        let created = &step["response"]["body"];
        let text = |pointer: &str| {
            created
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let sent = &step["request"]["body"];
        // Reviews and token requests answer with 201 too, but are not stored and have no version.
        let is_create = step["request"]["method"] == "POST"
            && step["response"]["status"] == 201
            && !text("/metadata/resourceVersion").is_empty();
        let recorded = Managers::of(created).unwrap();
        let ([manager], Some(root), true, None) = (
            recorded.entries(),
            schema.kind(text("/apiVersion"), text("/kind")),
            is_create,
            sent.pointer("/metadata/managedFields"),
        ) else {
            continue;
        };
        let mut found = Managers::new();
        let writer = Writer {
            manager: &manager.name,
            api_version: &manager.api_version,
            subresource: "",
            time: None,
        };
        let empty = empty_object(schema, root);
        let states = (&empty, created, &Difference::between(&empty, created));
        found.record_update(schema, root, states, &Endpoint::default(), &writer);
        let fields = found
            .entries()
            .first()
            .map(|entry| entry.fields.to_set().into_owned())
            .unwrap_or_default();
        let missing = manager.fields.to_set().difference(&fields).paths();
        let mut extra = fields.difference(&manager.fields.to_set()).paths();
        extra.retain(|path| !is_filled_in(text("/kind"), path));
        checked += 1;
        if !missing.is_empty() || !extra.is_empty() {
            wrong.push(format!(
                "{name} {}: missing {missing:?} extra {extra:?}",
                text("/kind")
            ));
        }
    }
    assert!(checked > 300, "only {checked} recorded creates were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn is_filled_in(kind: &str, path: &str) -> bool {
    let known = FILLED_IN_BY_THE_SERVER.iter().find(|(name, _)| *name == kind);
    known.is_some_and(|(_, prefixes)| prefixes.iter().any(|prefix| path.starts_with(prefix)))
}
