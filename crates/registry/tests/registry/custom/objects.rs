//! Custom objects: pruning, defaulting, validation, and older objects under a newer schema.

use proptest::prelude::*;
use serde_json::{Value, json};
use watchkeeper_meta::{DeleteOptions, GroupVersionResource, ListOptions, Status};
use watchkeeper_registry::{Body, Format, WriteContext};

use super::cluster::{Cluster, context, definition, free, next_event, widget};

fn spec(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[tokio::test]
async fn objects_are_defaulted_and_validated() {
    let cluster = Cluster::with_widgets(spec(json!({
        "size": {"type": "integer", "default": 3, "maximum": 5},
        "color": {"type": "string"},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    })))
    .await;
    let nothing = json!({"color": null, "tags": {"a": null, "b": "c"}});
    let created = cluster.create(widget("a", nothing)).await.unwrap();
    assert_eq!(created["spec"], json!({"size": 3, "tags": {"b": "c"}}));
    let refused = cluster.create(widget("b", json!({"size": 9, "color": 1}))).await;
    assert_eq!(
        refused.unwrap_err().message,
        "Widget.example.com \"b\" is invalid: [spec.color: Invalid value: \"integer\": spec.color in body must be of \
         type string: \"integer\", spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5]"
    );
}

#[tokio::test]
async fn an_older_object_is_served_under_the_newer_schema() {
    let cluster = Cluster::with_widgets(spec(
        json!({"old": {"type": "string"}, "kept": {"type": "integer"}}),
    ))
    .await;
    cluster
        .create(widget("a", json!({"old": "x", "kept": 1})))
        .await
        .unwrap();
    let mut watch = cluster.watch().await;
    let newer = spec(json!({
        "kept": {"type": "integer", "maximum": 0},
        "new": {"type": "string", "default": "d"},
        "free": {"type": "string"},
    }));
    cluster.redefine(newer).await;
    // A watch opened under the older schema ends.
    assert_eq!(next_event(&mut watch).await, None);
    let widgets = cluster.widgets();
    let shown = cluster.get_in(&widgets, "default", "a").await.unwrap();
    assert_eq!(shown["spec"], json!({"kept": 1, "new": "d"}));
    // A value that violates a newer rule may stay, but cannot be changed to another invalid value.
    let patch = |value: Value| cluster.patch(&widgets, "default", "a", json!({"spec": value}));
    let patched = patch(json!({"free": "y"})).await.unwrap();
    assert_eq!(patched["spec"], json!({"kept": 1, "new": "d", "free": "y"}));
    assert!(patch(json!({"kept": 2})).await.unwrap_err().is_invalid());
}

/// A request is routed with the schema of its arrival and may finish under another.
#[tokio::test]
async fn a_write_uses_the_schema_that_is_current_when_it_is_stored() {
    let cluster = Cluster::with_widgets(spec(json!({"old": {"type": "string"}}))).await;
    cluster.create(widget("a", json!({"old": "x"}))).await.unwrap();
    let understood = cluster.widgets();
    cluster
        .redefine(spec(json!({"new": {"type": "string", "default": "d"}})))
        .await;
    let check = |refused: Result<Value, Status>| {
        let refused = refused.unwrap_err().message;
        assert!(refused.contains(r#"unknown field "spec.old""#), "{refused}");
    };
    let old = json!({"old": "y"});
    check(
        cluster
            .create_in(&understood, "default", widget("b", old.clone()))
            .await,
    );
    check(
        cluster
            .patch(&understood, "default", "a", json!({"spec": old}))
            .await,
    );
    let labels = json!({"metadata": {"labels": {"seen": "1"}}});
    cluster.patch(&understood, "default", "a", labels).await.unwrap();
    let shown = cluster.get_in(&cluster.widgets(), "default", "a").await.unwrap();
    assert_eq!(shown["spec"], json!({"new": "d"}));
}

/// Concurrent writes and schema changes: every object is served under the newest schema.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_never_served_under_an_older_schema() {
    const OBJECTS: usize = 300;
    let of = |field: &str| spec(json!({field: {"type": "string"}}));
    let cluster = Cluster::with_widgets(of("a")).await;
    let (registry, understood) = (cluster.registry.clone(), cluster.widgets());
    let writing = tokio::spawn(async move {
        let context = WriteContext::default();
        for number in 0..OBJECTS {
            let object = widget(&format!("w{number}"), json!({"a": "x", "b": "y"})).to_string();
            let (format, bytes) = (Format::Json, object.as_bytes());
            let created = registry.create(&understood, "default", Body { format, bytes }, &context);
            created.await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    for (field, other) in [("b", "a"), ("a", "b")].iter().cycle() {
        let is_last = writing.is_finished();
        cluster.redefine(of(field)).await;
        let (widgets, options) = (cluster.widgets(), ListOptions::default());
        let list = cluster.registry.list(&widgets, "", &options).await.unwrap();
        for item in list.objects() {
            let spec = item.to_value(&widgets).unwrap()["spec"].clone();
            assert!(spec.get(other).is_none(), "{spec}");
        }
        if is_last {
            assert_eq!(list.items.len(), OBJECTS);
            break;
        }
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn a_client_without_a_name_is_the_manager_unknown() {
    let cluster = Cluster::with_widgets(free()).await;
    let (widgets, object) = (cluster.widgets(), widget("a", json!({"x": 1})).to_string());
    let (format, bytes) = (Format::Json, object.as_bytes());
    let context = WriteContext::default();
    let body = Body { format, bytes };
    let created = cluster.registry.create(&widgets, "default", body, &context).await;
    let created = created.unwrap().to_value(&widgets).unwrap();
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "unknown");
}

#[tokio::test]
async fn a_no_op_write_changes_nothing() {
    let cluster = Cluster::with_widgets(free()).await;
    let created = cluster
        .create(widget("a", json!({"x": 1.0, "y": [null]})))
        .await
        .unwrap();
    let widgets = cluster.widgets();
    let same = cluster
        .patch(&widgets, "default", "a", json!({"spec": {"x": 1}}))
        .await
        .unwrap();
    assert_eq!(same, created);
    let other = cluster
        .patch(&widgets, "default", "a", json!({"spec": {"x": 2}}))
        .await
        .unwrap();
    assert_eq!(other["metadata"]["generation"], 2);
    cluster.delete("a").await.unwrap();
}

/// A value that is valid in most fields.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..12).prop_map(Value::from),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let names = prop::sample::select(vec!["a", "b", "size", "tags", "more"]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn an_accepted_object_can_be_written_back(value in any_value()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result: Result<(), Status> = runtime.block_on(async {
            let cluster = Cluster::with_widgets(spec(json!({
                "a": {"type": "string", "maxLength": 2},
                "size": {"type": "integer", "minimum": 0, "default": 1},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "more": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }))).await;
            let mut sent = widget("x", value.clone());
            let context = WriteContext::default();
            let body = sent.to_string();
            let body = Body {
                format: Format::Json,
                bytes: body.as_bytes(),
            };
            let widgets = cluster.widgets();
            let Ok(created) = cluster.registry.create(&widgets, "default", body, &context).await else {
                return Ok(());
            };
            let created = created.to_value(&widgets)?;
            sent["metadata"]["name"] = json!("y");
            match created.get("spec") {
                Some(spec) => sent["spec"] = spec.clone(),
                None => drop(sent.as_object_mut().unwrap().remove("spec")),
            }
            // Strict now: no unknown field remains.
            let again = cluster.create(sent).await?;
            assert_eq!(again.get("spec"), created.get("spec"));
            Ok(())
        });
        prop_assert!(result.is_ok(), "{:?}", result);
    }
}

/// Kubernetes' rules for namespaces and jobs do not apply to custom kinds of that name.
#[tokio::test]
async fn a_custom_kind_may_have_the_name_of_a_built_in_one() {
    for (plural, kind) in [("namespaces", "Namespace"), ("jobs", "Job")] {
        let cluster = Cluster::start().await;
        let mut called = definition(free());
        called["metadata"]["name"] = json!(format!("{plural}.example.com"));
        called["spec"]["names"] = json!({"plural": plural, "kind": kind});
        cluster.define(called).await.unwrap();
        let resource = GroupVersionResource::new("example.com", "v1", plural);
        let resource = cluster.registry.definition(&resource).unwrap();
        let mut object = widget("default", json!({}));
        object["kind"] = json!(kind);
        cluster.create_in(&resource, "default", object).await.unwrap();
        let (options, context) = (DeleteOptions::default(), context());
        let deleted = cluster
            .registry
            .delete(&resource, "default", "default", &options, &context);
        deleted.await.unwrap();
        assert_eq!(context.warnings.take(), [""; 0], "{plural}");
    }
}

/// A node sets its status with its create. A custom kind of that name does not.
#[tokio::test]
async fn the_status_in_a_create_of_a_custom_node_is_dropped() {
    let cluster = Cluster::start().await;
    let mut called = definition(free());
    called["metadata"]["name"] = json!("nodes.example.com");
    called["spec"]["names"] = json!({"plural": "nodes", "kind": "Node"});
    let version = &mut called["spec"]["versions"][0];
    version["subresources"] = json!({"status": {}});
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = free();
    cluster.define(called).await.unwrap();
    let resource = GroupVersionResource::new("example.com", "v1", "nodes");
    let resource = cluster.registry.definition(&resource).unwrap();
    let mut object = widget("a", json!({}));
    object["kind"] = json!("Node");
    object["status"] = json!({"phase": "Running"});
    let created = cluster.create_in(&resource, "default", object).await.unwrap();
    assert_eq!(created["status"], json!(null));
}
