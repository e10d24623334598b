//! Single objects: create, read, replace, four patch types, subresources, deletion, errors.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::{
    DeleteParams, EvictParams, ListParams, LogParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::PartialObjectMetaExt;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{object, refusal, start};

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"colour": "blue"}})
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    })
}

fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod(name)["spec"]},
        },
    })
}

/// Creates, reads, updates, patches and deletes one object.
async fn full_lifecycle<K>(client: Client, blueprint: Value)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let api = Api::<K>::default_namespaced(client);
    let (wanted, post) = (object::<K>(blueprint), PostParams::default());
    let born = api.create(&post, &wanted).await.unwrap();
    let name = born.name_any();
    assert_eq!(born.namespace().as_deref(), Some("default"));
    assert!(born.uid().is_some() && born.creation_timestamp().is_some());
    let again = refusal(api.create(&post, &wanted).await);
    assert!(again.is_already_exists(), "{again}");
    assert_eq!(again.code, 409);

    let read = api.get(&name).await.unwrap();
    assert_eq!(json!(read), json!(born));
    let mut changed = read.clone();
    changed.labels_mut().insert("tier".into(), "front".into());
    let changed = api.replace(&name, &post, &changed).await.unwrap();
    assert_ne!(changed.resource_version(), born.resource_version());
    let late = refusal(api.replace(&name, &post, &read).await);
    assert!(late.is_conflict(), "{late}");

    let found = api
        .list(&ListParams::default().labels("tier=front"))
        .await
        .unwrap();
    assert_eq!(json!(found.items), json!([changed]));
    let none = api
        .list(&ListParams::default().labels("tier=back"))
        .await
        .unwrap();
    assert!(none.items.is_empty() && none.metadata.resource_version.is_some());

    let uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    let other = DeleteParams::default().preconditions(Preconditions {
        uid,
        resource_version: None,
    });
    assert!(refusal(api.delete(&name, &other).await).is_conflict());
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    let gone = refusal(api.get(&name).await);
    assert!(gone.is_not_found(), "{gone}");
    assert_eq!(gone.details.unwrap().name, name);
    assert!(api.get_opt(&name).await.unwrap().is_none());
}

#[tokio::test]
async fn objects_are_created_updated_and_deleted() {
    let (server, client) = start().await;
    full_lifecycle::<ConfigMap>(client.clone(), config_map("settings")).await;
    full_lifecycle::<Pod>(client.clone(), pod("web-0")).await;
    full_lifecycle::<Deployment>(client, deployment("web")).await;
    server.shutdown().await;
}

#[tokio::test]
async fn an_invalid_object_is_rejected_with_its_fields() {
    let (server, client) = start().await;
    let api = Api::<Pod>::default_namespaced(client.clone());
    let bad = object::<Pod>(json!({"metadata": {"name": "Web"}, "spec": {"containers": []}}));
    let refused = refusal(api.create(&PostParams::default(), &bad).await);
    assert!(refused.is_invalid(), "{refused}");
    let fields: Vec<String> = refused
        .details
        .unwrap()
        .causes
        .into_iter()
        .map(|cause| cause.field)
        .collect();
    assert_eq!(fields, ["metadata.name", "spec.containers"]);

    let nowhere = Api::<ConfigMap>::namespaced(client, "nowhere");
    let refused = refusal(
        nowhere
            .create(&PostParams::default(), &object(config_map("a")))
            .await,
    );
    assert!(refused.is_not_found(), "{refused}");
    server.shutdown().await;
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let (server, client) = start().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let dry = PostParams {
        dry_run: true,
        ..Default::default()
    };
    let tried = api.create(&dry, &object(config_map("settings"))).await.unwrap();
    assert!(tried.uid().is_some());
    assert!(api.get_opt("settings").await.unwrap().is_none());
    server.shutdown().await;
}

#[tokio::test]
async fn all_four_patch_types_work() {
    let (server, client) = start().await;
    let api = Api::<Deployment>::default_namespaced(client);
    api.create(&PostParams::default(), &object(deployment("web")))
        .await
        .unwrap();
    let containers = |deployment: &Deployment| -> Vec<String> {
        let spec = deployment.spec.template.spec.as_ref().unwrap();
        spec.containers
            .iter()
            .map(|container| container.name.clone())
            .collect()
    };

    let merge = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let merged = api.patch("web", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(merged.spec.replicas, Some(3));

    let sidecar =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "log", "image": "log:1"}]}}}});
    let strategic = Patch::Strategic(sidecar);
    let joined = api
        .patch("web", &PatchParams::default(), &strategic)
        .await
        .unwrap();
    assert_eq!(containers(&joined), ["log", "web"]);

    let operations = json!([
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "remove", "path": "/spec/template/spec/containers/0"},
    ]);
    let operations = Patch::Json::<()>(object(operations));
    let removed = api
        .patch("web", &PatchParams::default(), &operations)
        .await
        .unwrap();
    assert_eq!(containers(&removed), ["web"]);
    let failed = refusal(
        api.patch(
            "web",
            &PatchParams::default(),
            &Patch::Json::<()>(object(json!([
                {"op": "test", "path": "/spec/replicas", "value": 4},
            ]))),
        )
        .await,
    );
    assert!(failed.is_invalid(), "{failed}");

    let mut wish = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    wish["metadata"] = json!({"labels": {"owner": "kube"}});
    wish["spec"] = json!({"replicas": 5});
    let mut params = PatchParams::apply("autoscaler");
    let taken = refusal(api.patch("web", &params, &Patch::Apply(&wish)).await);
    assert!(taken.is_conflict(), "{taken}");
    params = params.force();
    let applied = api.patch("web", &params, &Patch::Apply(&wish)).await.unwrap();
    assert_eq!(applied.labels()["owner"], "kube");
    assert_eq!(applied.spec.replicas, Some(5));
    let managers = applied
        .managed_fields()
        .iter()
        .filter_map(|entry| entry.manager.as_deref());
    assert!(managers.collect::<Vec<_>>().contains(&"autoscaler"));
    server.shutdown().await;
}

#[tokio::test]
async fn a_deployment_is_scaled() {
    let (server, client) = start().await;
    let api = Api::<Deployment>::default_namespaced(client);
    api.create(&PostParams::default(), &object(deployment("web")))
        .await
        .unwrap();
    let mut scale = api.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
    scale.spec.as_mut().unwrap().replicas = Some(4);
    let scale = api
        .replace_scale("web", &PostParams::default(), &scale)
        .await
        .unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(4));
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    api.patch_scale("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(api.get("web").await.unwrap().spec.replicas, Some(0));
    server.shutdown().await;
}

#[tokio::test]
async fn status_and_spec_are_written_separately() {
    let (server, client) = start().await;
    let api = Api::<Deployment>::default_namespaced(client);
    api.create(&PostParams::default(), &object(deployment("web")))
        .await
        .unwrap();
    let both =
        Patch::Merge(json!({"spec": {"replicas": 9}, "status": {"replicas": 1, "observedGeneration": 1}}));
    let written = api
        .patch_status("web", &PatchParams::default(), &both)
        .await
        .unwrap();
    assert_eq!(written.status.as_ref().unwrap().replicas, Some(1));
    assert_eq!(written.spec.replicas, Some(2));

    let mut more = written.clone();
    more.status.as_mut().unwrap().ready_replicas = Some(1);
    let more = api
        .replace_status("web", &PostParams::default(), &more)
        .await
        .unwrap();
    assert_eq!(api.get_status("web").await.unwrap().status, more.status);
    let whole = api.patch("web", &PatchParams::default(), &both).await.unwrap();
    assert_eq!(whole.spec.replicas, Some(9));
    assert_eq!(whole.status.unwrap().ready_replicas, Some(1));
    server.shutdown().await;
}

#[tokio::test]
async fn a_pod_is_evicted() {
    let (server, client) = start().await;
    let api = Api::<Pod>::default_namespaced(client);
    api.create(&PostParams::default(), &object(pod("web-0")))
        .await
        .unwrap();
    let done = api.evict("web-0", &EvictParams::default()).await.unwrap();
    assert!(done.is_success(), "{done:?}");
    assert!(api.get_opt("web-0").await.unwrap().is_none());
    assert!(refusal(api.evict("web-0", &EvictParams::default()).await).is_not_found());
    server.shutdown().await;
}

#[tokio::test]
async fn an_unscheduled_pod_has_an_empty_log() {
    let (server, client) = start().await;
    let api = Api::<Pod>::default_namespaced(client);
    api.create(&PostParams::default(), &object(pod("web-0")))
        .await
        .unwrap();
    assert_eq!(api.logs("web-0", &LogParams::default()).await.unwrap(), "");
    server.shutdown().await;
}

#[tokio::test]
async fn a_service_account_gets_a_token() {
    let (server, client) = start().await;
    let api = Api::<ServiceAccount>::default_namespaced(client);
    api.create(
        &PostParams::default(),
        &object(json!({"metadata": {"name": "robot"}})),
    )
    .await
    .unwrap();
    let wish: TokenRequest = object(json!({"spec": {"audiences": ["api"], "expirationSeconds": 600}}));
    let token = api
        .create_token_request("robot", &PostParams::default(), &wish)
        .await
        .unwrap();
    assert_eq!(token.status.unwrap().token.unwrap().split('.').count(), 3);
    server.shutdown().await;
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let (server, client) = start().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &object(config_map(name)))
            .await
            .unwrap();
    }
    let which = ListParams::default().labels("app in (a, b)");
    api.delete_collection(&DeleteParams::default(), &which)
        .await
        .unwrap();
    let left = api.list(&ListParams::default().labels("app")).await.unwrap();
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);
    server.shutdown().await;
}

#[tokio::test]
async fn pages_add_up_to_the_list() {
    let (server, client) = start().await;
    let api = Api::<Namespace>::all(client);
    let whole = api.list(&ListParams::default()).await.unwrap();
    let mut names = Vec::new();
    let mut page = ListParams::default().limit(1);
    loop {
        let list = api.list(&page).await.unwrap();
        names.extend(list.iter().map(ResourceExt::name_any));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, whole.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
    server.shutdown().await;
}

#[tokio::test]
async fn metadata_is_read_and_patched_alone() {
    let (server, client) = start().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let whole = api
        .create(&PostParams::default(), &object(config_map("settings")))
        .await
        .unwrap();
    let head = api.get_metadata("settings").await.unwrap();
    assert_eq!(head.metadata, whole.metadata);
    assert_eq!(head.types.unwrap().kind, "PartialObjectMetadata");
    let list = api
        .list_metadata(&ListParams::default().labels("app=settings"))
        .await
        .unwrap();
    assert_eq!(list.items[0].metadata, whole.metadata);

    let label = whole.metadata.clone();
    let mut label = kube::api::ObjectMeta {
        managed_fields: None,
        resource_version: None,
        ..label
    };
    label.labels = Some([("tier".to_owned(), "front".to_owned())].into());
    let patch = Patch::Merge(label.into_request_partial::<ConfigMap>());
    let patched = api
        .patch_metadata("settings", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.labels()["tier"], "front");
    assert_eq!(api.get("settings").await.unwrap().data, whole.data);
    server.shutdown().await;
}
