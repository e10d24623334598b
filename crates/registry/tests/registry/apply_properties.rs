//! Properties of server-side apply, tested with random objects of several kinds, sent as kubectl sends them.
//!
//! An object has the required fields of its kind and any of its optional parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use watchkeeper_meta::{GroupVersionResource, Status};
use watchkeeper_patch::three_way;
use watchkeeper_registry::{Body, Definition, Format, Part, PatchKind, Registry, WriteContext};
use watchkeeper_storage::{Store, StoreOptions};

/// A kind with the required and optional parts of its objects.
struct Kind {
    resource: GroupVersionResource,
    base: Value,
    parts: Vec<Value>,
}

fn kinds() -> Vec<Kind> {
    vec![
        deployments(),
        stateful_sets(),
        services(),
        config_maps(),
        ingresses(),
        policies(),
    ]
}

/// Optional metadata of any object.
fn metadata_parts() -> Vec<Value> {
    vec![
        json!({"metadata": {"labels": {"team": "a"}}}),
        json!({"metadata": {"labels": {"team": "b", "tier": "front"}}}),
        json!({"metadata": {"annotations": {"example.com/note": "so"}}}),
        json!({"metadata": {"finalizers": ["example.com/first"]}}),
        json!({"metadata": {"finalizers": ["example.com/second"]}}),
    ]
}

fn kind(group: &'static str, resource: &'static str, base: Value, parts: Vec<Value>) -> Kind {
    Kind {
        resource: GroupVersionResource::new(group, "v1", resource),
        base,
        parts: metadata_parts().into_iter().chain(parts).collect(),
    }
}

/// Parts of a pod spec, at any path.
fn pod_parts(at: fn(Value) -> Value) -> Vec<Value> {
    let of_main = |fields: Value| {
        let mut container = json!({"name": "main"});
        merge(&mut container, &fields);
        at(json!({"containers": [container]}))
    };
    vec![
        of_main(json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})),
        of_main(json!({"env": [{"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]})),
        of_main(json!({"env": [{"name": "A", "value": "3"}]})),
        of_main(json!({"ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]})),
        of_main(json!({"ports": [{"containerPort": 53, "protocol": "UDP"}]})),
        of_main(json!({"resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}})),
        of_main(json!({"readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 3}})),
        of_main(json!({"args": ["-v", "2"]})),
        at(json!({"containers": [{"name": "beside", "image": "log:2"}]})),
        at(json!({"initContainers": [{"name": "before", "image": "set:1", "command": ["true"]}]})),
        at(json!({"volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}]})),
        at(json!({"volumes": [{"name": "secret", "secret": {"secretName": "s"}}]})),
        at(json!({"nodeSelector": {"disk": "ssd"}})),
        at(json!({"tolerations": [{"key": "a", "operator": "Exists"}]})),
        at(json!({"terminationGracePeriodSeconds": 5})),
        at(json!({"hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a.example"]}]})),
        at(json!({"imagePullSecrets": [{"name": "one"}]})),
        at(json!({"imagePullSecrets": [{"name": "two"}]})),
        at(json!({"securityContext": {"runAsUser": 7}})),
    ]
}

fn in_template(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

fn workload(fields: Value) -> Value {
    let mut object = json!({"spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        },
    }});
    merge(&mut object, &fields);
    object
}

fn deployments() -> Kind {
    let own = [
        json!({"spec": {"replicas": 3}}),
        json!({"spec": {"paused": true, "minReadySeconds": 4}}),
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}}}),
        json!({"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}),
    ];
    let parts = pod_parts(in_template).into_iter().chain(own).collect();
    kind("apps", "deployments", workload(json!({})), parts)
}

fn stateful_sets() -> Kind {
    let own = [
        json!({"spec": {"replicas": 2}}),
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}}),
        json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}}),
    ];
    let parts = pod_parts(in_template).into_iter().chain(own).collect();
    let base = workload(json!({"spec": {
        "serviceName": "x",
        "volumeClaimTemplates": [{
            "metadata": {"name": "disk"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }],
    }}));
    kind("apps", "statefulsets", base, parts)
}

fn services() -> Kind {
    let parts = vec![
        json!({"spec": {"ports": [{"name": "more", "port": 81, "protocol": "TCP", "targetPort": "web"}]}}),
        json!({"spec": {"ports": [{"name": "names", "port": 53, "protocol": "UDP"}]}}),
        json!({"spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}]}}),
        json!({"spec": {"selector": {"app": "x"}}}),
        json!({"spec": {"selector": {"tier": "front"}}}),
        json!({"spec": {"sessionAffinity": "ClientIP"}}),
        json!({"spec": {"externalIPs": ["198.51.100.7"]}}),
        json!({"spec": {"publishNotReadyAddresses": true}}),
    ];
    let base = json!({"spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}});
    kind("", "services", base, parts)
}

fn config_maps() -> Kind {
    let parts = vec![
        json!({"data": {"a": "1"}}),
        json!({"data": {"a": "2", "b": ""}}),
        json!({"data": {"c": "line\nline"}}),
        json!({"binaryData": {"d": "AAEC"}}),
    ];
    kind("", "configmaps", json!({}), parts)
}

fn ingresses() -> Kind {
    let rule = |host: &str, path: &str| {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        json!({"host": host, "http": {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}})
    };
    let parts = vec![
        json!({"spec": {"rules": [rule("a.example", "/")]}}),
        json!({"spec": {"rules": [rule("a.example", "/a"), rule("b.example", "/")]}}),
        json!({"spec": {"tls": [{"hosts": ["a.example"], "secretName": "cert"}]}}),
        json!({"spec": {"ingressClassName": "nginx"}}),
    ];
    let base = json!({"spec": {"defaultBackend": {"service": {"name": "web", "port": {"name": "http"}}}}});
    kind("networking.k8s.io", "ingresses", base, parts)
}

fn policies() -> Kind {
    let parts = vec![
        json!({"spec": {"ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "y"}}}]}]}}),
        json!({"spec": {"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}}),
    ];
    let base =
        json!({"spec": {"podSelector": {"matchLabels": {"app": "x"}}, "policyTypes": ["Ingress", "Egress"]}});
    kind("networking.k8s.io", "networkpolicies", base, parts)
}

/// Adds a part to an object; items with the same name or port are merged.
fn merge(object: &mut Value, part: &Value) {
    match (object, part) {
        (Value::Object(object), Value::Object(part)) => {
            for (name, value) in part {
                merge(object.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(items), Value::Array(more)) => {
            for item in more {
                match items
                    .iter()
                    .position(|known| known == item || is_same(known, item))
                {
                    Some(known) => merge(&mut items[known], item),
                    None => items.push(item.clone()),
                }
            }
        }
        (place, value) => place.clone_from(value),
    }
}

/// True if two list items have the same key.
fn is_same(one: &Value, other: &Value) -> bool {
    let keys = ["containerPort", "port", "name"];
    let key = keys.into_iter().find(|key| !one[key].is_null());
    key.is_some_and(|key| one[key] == other[key] && one["protocol"] == other["protocol"])
}

/// Objects of one kind as a user writes them: required parts, and some of the optional ones.
#[derive(Debug)]
struct Case {
    resource: GroupVersionResource,
    base: Value,
    choices: Vec<Vec<Value>>,
}

impl Case {
    /// An object with its required parts.
    fn object(&self, choice: usize) -> Value {
        self.merged(self.base.clone(), choice)
    }

    /// Only the optional parts.
    fn parts(&self, choice: usize) -> Value {
        self.merged(json!({}), choice)
    }

    fn merged(&self, mut object: Value, choice: usize) -> Value {
        for part in &self.choices[choice] {
            merge(&mut object, part);
        }
        object
    }
}

/// A kind, and `objects` selections of its parts.
fn case(objects: usize) -> impl Strategy<Value = Case> {
    any::<Index>().prop_flat_map(move |which| {
        let mut kinds = kinds();
        let Kind {
            resource,
            base,
            parts,
        } = kinds.swap_remove(which.index(kinds.len()));
        let most = parts.len();
        let choice = subsequence(parts, 0..=most.min(8));
        proptest::collection::vec(choice, objects).prop_map(move |choices| Case {
            resource: resource.clone(),
            base: base.clone(),
            choices,
        })
    })
}

/// A registry, and a supply of free names.
struct Server {
    runtime: Runtime,
    registry: Registry,
    names: AtomicUsize,
}

impl Server {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let open = async { Registry::open(Store::memory(StoreOptions::default())).await };
        let registry = runtime.block_on(open).unwrap();
        Self {
            runtime,
            registry,
            names: AtomicUsize::new(0),
        }
    }

    fn object<'a>(&'a self, case: &Case) -> Remote<'a> {
        Remote {
            server: self,
            definition: self.registry.definition(&case.resource).unwrap(),
            name: format!("x{}", self.names.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// One object of a server.
struct Remote<'a> {
    server: &'a Server,
    definition: Arc<Definition>,
    name: String,
}

impl Remote<'_> {
    fn named(&self, object: &Value) -> Value {
        let mut named = object.clone();
        let head = json!({
            "apiVersion": self.definition.api_version,
            "kind": self.definition.resource.kind,
            "metadata": {"name": self.name},
        });
        merge(&mut named, &head);
        named
    }

    fn create(&self, object: &Value) -> Value {
        let bytes = self.named(object).to_string();
        let body = Body {
            format: Format::Json,
            bytes: bytes.as_bytes(),
        };
        let context = by("kubectl-client-side-apply");
        let Server {
            runtime, registry, ..
        } = self.server;
        let created = runtime.block_on(registry.create(&self.definition, "default", body, &context));
        created
            .and_then(|object| object.to_value(&self.definition))
            .unwrap()
    }

    fn apply(&self, manager: &str, object: &Value) -> Result<Value, Status> {
        self.patch(manager, PatchKind::Apply, &self.named(object))
    }

    /// The patch of `kubectl apply` for the last applied manifest, the new one and the live object.
    fn apply_from_client(&self, original: &Value, modified: &Value, live: &Value) -> Value {
        let (schema, type_id) = (&self.definition.schema, &self.definition.type_id);
        let (original, modified) = (self.named(original), self.named(modified));
        let patch = three_way::strategic_patch(schema, *type_id, &original, &modified, live).unwrap();
        self.patch("kubectl-client-side-apply", PatchKind::Strategic, &patch)
            .unwrap()
    }

    fn patch(&self, manager: &str, kind: PatchKind, patch: &Value) -> Result<Value, Status> {
        let Server {
            runtime, registry, ..
        } = self.server;
        let (bytes, context) = (patch.to_string(), by(manager));
        let (definition, name) = (&self.definition, self.name.as_str());
        let patched = async {
            // Managed fields are ordered by time.
            tokio::time::advance(Duration::from_secs(1)).await;
            registry
                .patch(
                    definition,
                    "default",
                    name,
                    Part::Object,
                    (kind, bytes.as_bytes()),
                    &context,
                )
                .await
        };
        runtime.block_on(patched)?.object.to_value(definition)
    }
}

fn by(manager: &str) -> WriteContext {
    WriteContext {
        manager: manager.to_owned(),
        ..WriteContext::default()
    }
}

/// An object without its identity and history.
fn meaning(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    let histories = [
        "name",
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "generation",
        "managedFields",
    ];
    metadata.retain(|name, _| !histories.contains(&name.as_str()));
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    object
}

/// An object whose lists are sorted.
fn unordered(mut value: Value) -> Value {
    fn sort(value: &mut Value) {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(sort),
            Value::Array(items) => {
                items.iter_mut().for_each(sort);
                items.sort_by_key(Value::to_string);
            }
            _ => {}
        }
    }
    sort(&mut value);
    value
}

thread_local! {
    static SERVER: Server = Server::start();
}

proptest! {
    /// Nothing is written, so watches see no event.
    #[test]
    fn the_same_manifest_twice_changes_nothing(case in case(2)) {
        SERVER.with(|server| {
            let remote = server.object(&case);
            remote.apply("other", &case.object(0)).unwrap();
            let Ok(first) = remote.apply("mine", &case.object(1)) else {
                return Ok(());
            };
            prop_assert_eq!(remote.apply("mine", &case.object(1)).unwrap(), first);
            Ok(())
        })?;
    }

    /// Earlier manifests leave no trace.
    #[test]
    fn the_last_manifest_determines_the_object(case in case(2)) {
        SERVER.with(|server| {
            let remote = server.object(&case);
            remote.apply("mine", &case.object(0)).unwrap();
            let last = remote.apply("mine", &case.object(1)).unwrap();
            let alone = server.object(&case).apply("mine", &case.object(1)).unwrap();
            prop_assert_eq!(unordered(meaning(last)), unordered(meaning(alone)));
            Ok(())
        })?;
    }

    /// A manager that applies an empty configuration removes only the fields it owned alone.
    #[test]
    fn fields_of_other_managers_survive_a_removal(case in case(2)) {
        SERVER.with(|server| {
            let remote = server.object(&case);
            let alone = remote.apply("other", &case.object(0)).unwrap();
            if remote.apply("mine", &case.parts(1)).is_err() {
                return Ok(());
            }
            let left = remote.apply("mine", &json!({})).unwrap();
            prop_assert_eq!(unordered(meaning(left)), unordered(meaning(alone)));
            Ok(())
        })?;
    }

    /// Client-side apply without other writers: nothing of the first manifest remains.
    #[test]
    fn a_three_way_patch_turns_one_manifest_into_another(case in case(2)) {
        SERVER.with(|server| {
            let (before, after) = (case.object(0), case.object(1));
            let remote = server.object(&case);
            let live = remote.create(&before);
            let patched = remote.apply_from_client(&before, &after, &live);
            let fresh = server.object(&case).create(&after);
            prop_assert_eq!(unordered(meaning(patched)), unordered(meaning(fresh)));
            Ok(())
        })?;
    }

    /// Client-side apply with concurrent changes: everything in the manifest is in the object.
    #[test]
    fn a_three_way_patch_sets_every_field_of_the_manifest(case in case(3)) {
        SERVER.with(|server| {
            let (before, after, theirs) = (case.object(0), case.object(1), case.parts(2));
            let remote = server.object(&case);
            remote.create(&before);
            let live = remote.patch("other", PatchKind::Strategic, &theirs).unwrap();
            let patched = remote.apply_from_client(&before, &after, &live);
            prop_assert!(contains(&patched, &remote.named(&after)), "{} makes {}", live, patched);
            prop_assert_eq!(remote.apply_from_client(&after, &after, &patched), patched);
            Ok(())
        })?;
    }
}

/// True if `live` has everything in `wanted`; the order of list items is ignored.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, value)| live.get(name).is_some_and(|live| contains(live, value))),
        (Value::Array(live), Value::Array(wanted)) => wanted
            .iter()
            .all(|item| live.iter().any(|live| contains(live, item))),
        (live, wanted) => live == wanted,
    }
}
