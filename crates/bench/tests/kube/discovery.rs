//! Discovery: the server serves what it announces.

use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::{GroupVersion, GroupVersionKind};
use kube::discovery::{self, Discovery, Scope, verbs};

use crate::start;

/// Group, version, kind and plural of everything a discovery found, in order.
fn served(discovery: &Discovery) -> Vec<String> {
    let mut served = Vec::new();
    for group in discovery.groups_alphabetical() {
        for version in group.versions() {
            for (resource, capabilities) in group.versioned_resources(version) {
                let (api_version, kind) = (&resource.api_version, &resource.kind);
                let (plural, scope) = (&resource.plural, &capabilities.scope);
                served.push(format!("{api_version} {kind} {plural} {scope:?}"));
            }
        }
    }
    served.sort();
    served
}

#[tokio::test]
async fn both_forms_of_discovery_agree() {
    let (server, client) = start().await;
    let legacy = Discovery::new(client.clone()).run().await.unwrap();
    let aggregated = Discovery::new(client.clone()).run_aggregated().await.unwrap();
    assert_eq!(served(&legacy), served(&aggregated));
    assert!(served(&legacy).contains(&"apps/v1 Deployment deployments Namespaced".to_owned()));
    assert!(served(&legacy).contains(&"v1 Node nodes Cluster".to_owned()));
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");
    server.shutdown().await;
}

#[tokio::test]
async fn every_listable_resource_can_be_listed() {
    let (server, client) = start().await;
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let mut lists = 0;
    for (resource, capabilities) in discovery
        .groups()
        .flat_map(|group| group.resources_by_stability())
    {
        if capabilities.supports_operation(verbs::LIST) {
            let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
            let list = api.list(&ListParams::default()).await;
            let list = list.unwrap_or_else(|error| panic!("{}: {error}", resource.plural));
            assert_eq!(list.types.kind, format!("{}List", resource.kind));
            lists += 1;
        }
    }
    assert!(lists >= 50, "only {lists} resources can be listed");
    server.shutdown().await;
}

#[tokio::test]
async fn one_group_or_kind_is_found_alone() {
    let (server, client) = start().await;
    let apps = discovery::group(&client, "apps").await.unwrap();
    assert_eq!(apps.preferred_version(), Some("v1"));
    assert!(apps.recommended_kind("StatefulSet").is_some());

    let autoscaling = discovery::pinned_group(&client, &GroupVersion::gv("autoscaling", "v1"))
        .await
        .unwrap();
    assert_eq!(autoscaling.versions().collect::<Vec<_>>(), ["v1"]);

    let lease = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
    let (resource, capabilities) = discovery::pinned_kind(&client, &lease).await.unwrap();
    assert_eq!(
        (&*resource.plural, &capabilities.scope),
        ("leases", &Scope::Namespaced)
    );

    let widget = GroupVersionKind::gvk("apps", "v1", "Widget");
    assert!(discovery::pinned_kind(&client, &widget).await.is_err());
    server.shutdown().await;
}

#[tokio::test]
async fn an_object_of_any_kind_finds_its_resource() {
    let (server, client) = start().await;
    let discovery = Discovery::new(client.clone()).filter(&[""]).run().await.unwrap();
    let kind = GroupVersionKind::gvk("", "v1", "Namespace");
    let (resource, _) = discovery.resolve_gvk(&kind).unwrap();
    let default = Api::<DynamicObject>::all_with(client, &resource)
        .get("default")
        .await
        .unwrap();
    assert_eq!(default.data["status"]["phase"], "Active");
    assert_eq!(discovery.resolve_object(&default).unwrap().0, resource);
    server.shutdown().await;
}
