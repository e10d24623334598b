//! Custom kinds that are created and deleted while they are watched.

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{ApplyOptions, Resource, Scope};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::informer::Informer;
use watchkeeper_runtime::watcher::Config;

use crate::runtime::support::{Cluster, SOON, told_about};

const DEFINITION: &str = "widgets.example.com";

fn resource(group: &'static str, kind: &'static str, plural: &'static str, scope: Scope) -> Resource {
    Resource {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        scope,
    }
}

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 1},
    }}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {}})
}

impl Cluster {
    fn definitions(&self) -> DynamicApi {
        let resource = resource(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            Scope::Cluster,
        );
        self.client.dynamic(resource)
    }

    fn widgets(&self) -> DynamicApi {
        let resource = resource("example.com", "Widget", "widgets", Scope::Namespaced);
        self.client.dynamic(resource).namespace("default")
    }

    async fn define(&self) {
        let defined = self.definitions().create(&definition()).await;
        defined.expect("defined");
    }

    async fn add(&self, name: &str) {
        let created = self.widgets().create(&widget(name)).await;
        created.expect("created");
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_is_discovered_and_used_like_any_other() {
    let cluster = Cluster::start().await;
    cluster.define().await;
    let served = cluster.client.discover().await.expect("discovery");
    let found = served.resource("wi").expect("a short name");
    assert_eq!(found.resource.plural, "widgets");
    let options = ApplyOptions {
        field_manager: "test".to_owned(),
        ..Default::default()
    };
    let applied = cluster
        .widgets()
        .apply("a", &widget("a"), &options.field_manager)
        .with(&options)
        .await;
    assert_eq!(applied.expect("applied").to_value().unwrap()["spec"]["size"], 1);
    let got = cluster.widgets().get("a").await;
    assert_eq!(got.expect("there").name(), "a");
    cluster.server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_survives_the_deletion_of_its_kind() {
    let cluster = Cluster::start().await;
    cluster.define().await;
    cluster.add("a").await;
    let source = Arc::new(ApiSource::new(cluster.widgets()));
    let informer = Informer::start(source, Config::default().into());
    let mut changes = informer.subscribe(Default::default());
    assert_eq!(told_about(&mut changes, 2).await, ["+a Initial", "synced"]);

    let gone = cluster.definitions().delete(DEFINITION).await;
    gone.expect("deleted");
    assert_eq!(told_about(&mut changes, 1).await, ["-a Watch"]);
    // Its health reports the failure meanwhile.
    let mut health = informer.watch_health();
    let failing = tokio::time::timeout(SOON, health.wait_for(|health| health.failing.is_some())).await;
    let said = failing.expect("soon").expect("running").to_string();
    assert!(said.contains("could not find the requested resource"), "{said}");
    assert!(informer.store().snapshot().iter().next().is_none());

    cluster.define().await;
    cluster.add("b").await;
    assert_eq!(told_about(&mut changes, 1).await, ["+b Relist"]);
    let healed = tokio::time::timeout(SOON, health.wait_for(|health| health.failing.is_none())).await;
    assert!(healed.expect("soon").expect("running").is_synced());
    cluster.add("c").await;
    assert_eq!(told_about(&mut changes, 1).await, ["+c Watch"]);
    cluster.server.shutdown().await;
}
