//! The life cycle of a CustomResourceDefinition.

use futures_util::FutureExt as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::cluster::{Cluster, definition, free, next_event, widget};

fn conditions(definition: &Value) -> Vec<String> {
    let list = definition["status"]["conditions"].as_array().unwrap().iter();
    list.map(|it| format!("{} {} {}", it["type"], it["status"], it["reason"]).replace('"', ""))
        .collect()
}

#[tokio::test]
async fn a_kind_is_usable_as_soon_as_its_definition_was_created() {
    let cluster = Cluster::start().await;
    assert!(cluster.resource("v1").is_none());
    cluster.define(definition(free())).await.unwrap();
    cluster.create(widget("a", json!({"x": 1}))).await.unwrap();
    let defined = cluster.definition().await.unwrap();
    assert_eq!(
        conditions(&defined),
        [
            "NamesAccepted True NoConflicts",
            "Established True InitialNamesAccepted"
        ]
    );
    assert_eq!(defined["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(defined["status"]["acceptedNames"]["singular"], "widget");
}

#[tokio::test]
async fn a_schema_may_nest_as_deep_as_its_json() {
    let mut schema = json!({"type": "string"});
    for _ in 0..100 {
        schema = json!({"type": "array", "items": schema});
    }
    let cluster = Cluster::with_widgets(json!({"type": "object", "properties": {"deep": schema}})).await;
    cluster
        .create(widget("a", json!({"deep": [[[]]]})))
        .await
        .unwrap();
    assert_eq!(cluster.names().await, ["a"]);
}

#[tokio::test]
async fn kinds_are_served_after_a_restart() {
    let cluster = Cluster::with_widgets(free()).await;
    cluster.create(widget("a", json!({}))).await.unwrap();
    let again = Cluster::over(cluster.store.clone()).await;
    assert_eq!(again.names().await, ["a"]);
}

#[tokio::test]
async fn objects_are_deleted_before_their_definition_and_watches_end_after_them() {
    let cluster = Cluster::with_widgets(free()).await;
    for name in ["a", "b"] {
        cluster.create(widget(name, json!({}))).await.unwrap();
    }
    let mut watch = cluster.watch().await;
    cluster.undefine().await.unwrap();
    assert!(cluster.definition().await.unwrap_err().is_not_found());
    assert!(cluster.resource("v1").is_none());
    assert_eq!(next_event(&mut watch).await.as_deref(), Some("DELETED a"));
    assert_eq!(next_event(&mut watch).await.as_deref(), Some("DELETED b"));
    assert_eq!(next_event(&mut watch).await, None);
    // A new kind of the same name starts without objects and without their history.
    cluster.define(definition(free())).await.unwrap();
    assert!(cluster.names().await.is_empty());
}

#[tokio::test]
async fn a_kind_stays_until_the_last_finalizer_is_removed() {
    let cluster = Cluster::with_widgets(free()).await;
    let mut kept = widget("a", json!({}));
    kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
    cluster.create(kept).await.unwrap();
    cluster.undefine().await.unwrap();
    let defined = cluster.definition().await.unwrap();
    assert_eq!(
        conditions(&defined)[2],
        "Terminating True InstanceDeletionInProgress"
    );
    let refused = cluster.create(widget("b", json!({}))).await.unwrap_err();
    assert!(refused.is_forbidden());
    assert_eq!(
        refused.message,
        "widgets.example.com \"b\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    let widgets = cluster.widgets();
    let released = json!({"metadata": {"finalizers": []}});
    cluster.patch(&widgets, "default", "a", released).await.unwrap();
    assert!(cluster.resource("v1").is_none());
    assert!(cluster.definition().await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_watch_resumes_after_a_restart() {
    let cluster = Cluster::with_widgets(free()).await;
    let first = cluster.store.current_revision();
    cluster.create(widget("a", json!({}))).await.unwrap();
    let restarted = Cluster::over(cluster.store.clone()).await;
    let mut watch = restarted.watch_after(first).await;
    assert_eq!(next_event(&mut watch).await.as_deref(), Some("ADDED a"));
    // Events of an earlier kind of that name are not delivered.
    cluster.undefine().await.unwrap();
    cluster.define(definition(free())).await.unwrap();
    let restarted = Cluster::over(cluster.store.clone()).await;
    let told = next_event(&mut restarted.watch_after(first).await).await;
    assert!(
        told.unwrap().starts_with("too old resource version: "),
        "it was delivered"
    );
}

#[tokio::test]
async fn objects_of_an_unserved_kind_are_deleted_too() {
    let cluster = Cluster::with_widgets(free()).await;
    cluster.create(widget("a", json!({}))).await.unwrap();
    let mut versions = definition(free())["spec"]["versions"].clone();
    versions[0]["served"] = json!(false);
    let patch = json!({"spec": {"versions": versions}});
    let crds = cluster.definitions();
    cluster
        .patch(&crds, "", "widgets.example.com", patch)
        .await
        .unwrap();
    assert!(cluster.resource("v1").is_none());
    cluster.undefine().await.unwrap();
    cluster.define(definition(free())).await.unwrap();
    assert!(cluster.names().await.is_empty());
}

#[tokio::test]
async fn names_are_accepted_when_the_kind_that_held_them_is_gone() {
    let cluster = Cluster::with_widgets(free()).await;
    let mut second = definition(free());
    second["metadata"]["name"] = json!("gadgets.example.com");
    second["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget", "listKind": "Gadgets"});
    cluster.define(second).await.unwrap();
    let gadgets = || cluster.get_in_definitions("gadgets.example.com");
    assert_eq!(
        conditions(&gadgets().await),
        [
            "NamesAccepted False KindConflict",
            "Established False NotAccepted"
        ]
    );
    cluster.undefine().await.unwrap();
    assert_eq!(
        conditions(&gadgets().await),
        [
            "NamesAccepted True NoConflicts",
            "Established True InitialNamesAccepted"
        ]
    );
}

#[tokio::test]
async fn a_kind_in_a_kubernetes_group_has_the_approval_condition() {
    let cluster = Cluster::start().await;
    let name = "widgets.example.k8s.io";
    let mut protected = definition(free());
    protected["metadata"] = json!({
        "name": name,
        "annotations": {"api-approved.kubernetes.io": "https://example.com/1"},
    });
    protected["spec"]["group"] = json!("example.k8s.io");
    cluster.define(protected).await.unwrap();
    let approval = async || conditions(&cluster.get_in_definitions(name).await)[0].clone();
    assert_eq!(
        approval().await,
        "KubernetesAPIApprovalPolicyConformant True ApprovedAnnotation"
    );
    let patch = json!({"metadata": {"annotations": {"api-approved.kubernetes.io": "unapproved, a test"}}});
    let crds = cluster.definitions();
    cluster.patch(&crds, "", name, patch).await.unwrap();
    assert_eq!(
        approval().await,
        "KubernetesAPIApprovalPolicyConformant False UnapprovedAnnotation"
    );
}

impl Cluster {
    async fn get_in_definitions(&self, name: &str) -> Value {
        self.get_in(&self.definitions(), "", name).await.unwrap()
    }
}

#[tokio::test]
async fn an_invalid_conversion_webhook_is_rejected() {
    let cluster = Cluster::start().await;
    let check = async |webhook: Value, expected: &str| {
        let mut refused = definition(json!({"type": "object"}));
        refused["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
        let status = cluster.define(refused).await.unwrap_err();
        assert!(status.message.ends_with(expected), "{}", status.message);
    };
    let at = |url: &str, versions: Value| json!({"clientConfig": {"url": url}, "conversionReviewVersions": versions});
    check(
        at("http://example.com", json!(["v1"])),
        "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; \
         desired format: https://host[/path]",
    )
    .await;
    check(
        at("https://example.com", json!(["v9"])),
        "spec.conversion.conversionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
    )
    .await;
    check(
        json!({"clientConfig": {}, "conversionReviewVersions": ["v1"]}),
        "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
    )
    .await;
}

/// A schema, or a similar value.
fn any_schema() -> impl Strategy<Value = Value> {
    let words = [
        "object", "array", "string", "integer", "number", "boolean", "null", "a", "(",
    ];
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-2i64..5).prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let words = [
            "type",
            "properties",
            "additionalProperties",
            "items",
            "default",
            "enum",
            "pattern",
            "minimum",
            "multipleOf",
            "maxLength",
            "oneOf",
            "not",
            "required",
            "nullable",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "a",
        ];
        let names = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_definition_is_served_or_rejected(schema in any_schema(), spec in any_schema()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let cluster = Cluster::start().await;
            match cluster.define(definition(schema)).await {
                Ok(_) => drop(cluster.create(widget("x", spec)).await),
                Err(status) => assert!(status.is_invalid() || status.is_bad_request(), "{status}"),
            }
        });
    }
}

#[tokio::test]
async fn watches_of_a_deleted_kind_see_the_deletion_of_its_objects() {
    let cluster = Cluster::with_widgets(free()).await;
    let mut kept = widget("a", json!({}));
    kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
    cluster.create(kept).await.unwrap();
    let mut watch = cluster.watch().await;
    cluster.undefine().await.unwrap();
    assert_eq!(next_event(&mut watch).await.unwrap(), "MODIFIED a");
    let mut next = Box::pin(next_event(&mut watch));
    assert!(next.as_mut().now_or_never().is_none(), "the watch continues");
    let (widgets, released) = (cluster.widgets(), json!({"metadata": {"finalizers": []}}));
    cluster.patch(&widgets, "default", "a", released).await.unwrap();
    assert_eq!(next.await.unwrap(), "DELETED a");
    assert_eq!(next_event(&mut watch).await, None);
}
