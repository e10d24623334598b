//! Custom kinds: kube waits for a definition, then uses its objects with dynamic types.

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use serde_json::json;

use crate::{object, refusal, soon, start};

const NAME: &str = "widgets.example.com";

async fn define(client: &Client) -> Api<DynamicObject> {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 1, "maximum": 9},
    }}}});
    let definition: CustomResourceDefinition = object(json!({
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }));
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
    let established = await_condition(definitions, NAME, conditions::is_crd_established());
    soon(established).await.unwrap();
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    Api::default_namespaced_with(client.clone(), &ApiResource::from_gvk(&kind))
}

fn widget(name: &str, size: u32) -> DynamicObject {
    object(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size},
    }))
}

#[tokio::test]
async fn custom_objects_are_written_applied_and_watched() {
    let (server, client) = start().await;
    let widgets = define(&client).await;
    let created = widgets
        .create(&PostParams::default(), &widget("a", 2))
        .await
        .unwrap();
    let version = created.metadata.resource_version.unwrap();
    let mut events = widgets
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap()
        .boxed();
    let refused = widgets.create(&PostParams::default(), &widget("b", 10)).await;
    assert!(
        refusal(refused)
            .message
            .contains("should be less than or equal to 9")
    );
    let params = PatchParams::apply("test");
    let applied = widgets
        .patch("b", &params, &Patch::Apply(&widget("b", 3)))
        .await
        .unwrap();
    assert_eq!(applied.data["spec"]["size"], 3);
    widgets.delete("a", &DeleteParams::default()).await.unwrap();
    let mut told = Vec::new();
    while told.len() < 2 {
        match soon(events.try_next()).await.unwrap().unwrap() {
            WatchEvent::Added(object) => told.push(format!("+{}", object.metadata.name.unwrap())),
            WatchEvent::Deleted(object) => told.push(format!("-{}", object.metadata.name.unwrap())),
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert_eq!(told, ["+b", "-a"]);
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    definitions.delete(NAME, &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(widgets.list(&Default::default()).await).code, 404);
    server.shutdown().await;
}
