//! The life cycle of a website.

use expect_test::expect;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use watchkeeper::meta::PatchKind;
use watchkeeper::prelude::*;

use crate::world::{OPERATOR, World};

#[tokio::test]
async fn a_website_is_published_with_its_children() {
    let world = World::paused().await;
    let operator = world.operator();
    let home = world.create("home", "example.org").await;
    world.settle().await;
    assert_eq!(world.ready("home").await, "True Serving");
    assert_eq!(world.events("home").await, ["Normal Serving", "Normal Starting"]);
    assert_eq!(
        world.domains().await,
        [("example.org".into(), "default/home".into())]
    );
    let client = world.cluster.client();
    let pages = client
        .api::<ConfigMap>()
        .namespace("default")
        .get("home")
        .await
        .unwrap();
    assert_eq!(pages.data, Some(home.spec.pages.clone()));
    assert_eq!(
        pages.metadata.owner_references,
        Some(vec![home.owner_reference().into()])
    );
    let service = client
        .api::<Service>()
        .namespace("default")
        .get("home")
        .await
        .unwrap();
    let pods = client
        .api::<Deployment>()
        .namespace("default")
        .get("home")
        .await
        .unwrap();
    let labels = pods.spec.template.metadata.unwrap().labels;
    assert_eq!(service.spec.unwrap().selector, labels);
    operator.stop().await;
    world.cluster.stop().await;
}

#[tokio::test]
async fn a_restarted_operator_writes_nothing() {
    let world = World::paused().await;
    let first = world.operator();
    world.create("home", "example.org").await;
    world.settle().await;
    first.stop().await;
    world.cluster.take_writes();
    let second = world.operator();
    world.settle().await;
    let writes = world.cluster.take_writes().by(OPERATOR);
    let writes = writes.except_kind("Lease");
    assert!(!writes.is_empty(), "it has looked at the website");
    expect![""].assert_eq(&writes.effective().to_string());
    second.stop().await;
    world.cluster.stop().await;
}

#[tokio::test]
async fn deleted_or_changed_children_are_restored() {
    let world = World::paused().await;
    let operator = world.operator();
    world.create("home", "example.org").await;
    world.settle().await;
    let client = world.cluster.client();
    let (maps, services) = (
        client.api::<ConfigMap>().namespace("default"),
        client.api::<Service>().namespace("default"),
    );
    let graffiti = serde_json::json!({"data": {"index.html": "graffiti"}});
    maps.patch("home", PatchKind::Merge, &graffiti).await.unwrap();
    services.delete("home").await.unwrap();
    world.settle().await;
    let pages = maps.get("home").await.unwrap().data.unwrap();
    assert_eq!(pages["index.html"], "<h1>Welcome</h1>");
    assert!(services.find("home").await.unwrap().is_some());
    operator.stop().await;
    world.cluster.stop().await;
}

#[tokio::test]
async fn a_deleted_website_releases_its_domain_and_children() {
    let world = World::paused().await;
    let operator = world.operator();
    world.create("home", "example.org").await;
    world.settle().await;
    world.websites.delete("home").await.unwrap();
    world.settle().await;
    assert_eq!(world.domains().await, []);
    assert!(world.websites.find("home").await.unwrap().is_none());
    let client = world.cluster.client();
    assert!(
        client
            .api::<Deployment>()
            .namespace("default")
            .find("home")
            .await
            .unwrap()
            .is_none()
    );
    operator.stop().await;
    world.cluster.stop().await;
}
