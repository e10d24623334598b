//! CSI drivers: what a storage driver can do.

use serde_json::{Value, json};

use crate::kind::{BY_SCHEMA, Generation, Hooks, Kind};
use crate::rules::defaulting::fill_empty;
use crate::table::Column;
use crate::table::cells::{NONE, joined, list_of, or, text_at};

/// What is particular to `csidrivers`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "CSIDriver",
    plural: "csidrivers",
    generation: Generation::Spec,
    generation_begins_with_change: true,
    updates_unconditionally: false,
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::boolean("AttachRequired", |row| json!(row.at("/spec/attachRequired").as_bool().unwrap_or(true))),
    Column::boolean("PodInfoOnMount", |row| row.is("/spec/podInfoOnMount")),
    Column::boolean("StorageCapacity", |row| row.is("/spec/storageCapacity")),
    Column::text("TokenRequests", |row| json!(audiences(row.object))),
    Column::boolean("RequiresRepublish", |row| row.is("/spec/requiresRepublish")),
    Column::text("Modes", |row| json!(or(joined(row.at("/spec/volumeLifecycleModes"), ","), NONE))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |driver| fill_driver(&mut driver["spec"]),
    warn: |driver, _, warnings| {
        let spec = &driver["spec"];
        let wants_tokens = spec["tokenRequests"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        if wants_tokens && spec["serviceAccountTokenInSecrets"].is_null() {
            warnings.add(
                "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                 possible logging of tokens in volume attributes",
            );
        }
    },
    ..BY_SCHEMA
};

/// What a driver does not say it does not do, except for attaching.
fn fill_driver(spec: &mut Value) {
    fill_empty(spec, "attachRequired", true);
    for name in [
        "podInfoOnMount",
        "preventPodSchedulingIfMissing",
        "requiresRepublish",
        "seLinuxMount",
        "storageCapacity",
    ] {
        fill_empty(spec, name, false);
    }
    fill_empty(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}

fn audiences(driver: &Value) -> String {
    let audiences = list_of(&driver["spec"]["tokenRequests"], |request| text_at(request, "/audience"));
    or(audiences.join(","), "<unset>")
}
