//! Controllers, finalizers and waits of kube on our server.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{object, soon, start};

fn deployment(name: &str) -> Deployment {
    let labels = json!({"app": name});
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))
}

/// Creates a config map for each deployment with its number of replicas.
async fn describe(deployment: Arc<Deployment>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let name = deployment.name_any();
    let wish = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [deployment.controller_owner_ref(&())]},
        "data": {"replicas": deployment.spec.replicas.unwrap_or(1).to_string()},
    });
    let maps = Api::<ConfigMap>::default_namespaced(Client::clone(&client));
    maps.patch(
        &name,
        &PatchParams::apply("describer").force(),
        &Patch::Apply(wish),
    )
    .await?;
    Ok(Action::await_change())
}

/// Waits until a config map has this value.
async fn says(client: &Client, name: &str, replicas: &'static str) -> ConfigMap {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let condition = move |map: Option<&ConfigMap>| {
        let data = map.and_then(|map| map.data.as_ref());
        data.and_then(|data| data.get("replicas"))
            .is_some_and(|found| found == replicas)
    };
    soon(await_condition(maps, name, condition))
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn a_controller_restores_the_objects_it_owns() {
    let (server, client) = start().await;
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = Controller::new(deployments.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .graceful_shutdown_on(async { drop(stopped.await) })
        .run(
            describe,
            |_, error, _| panic!("{error}"),
            Arc::new(client.clone()),
        );
    let running = tokio::spawn(controller.for_each(|result| async { drop(result.unwrap()) }));

    deployments
        .create(&PostParams::default(), &deployment("web"))
        .await
        .unwrap();
    let owned = says(&client, "web", "1").await;
    assert_eq!(owned.owner_references()[0].name, "web");

    let more = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments
        .patch("web", &PatchParams::default(), &more)
        .await
        .unwrap();
    says(&client, "web", "3").await;

    let lie = Patch::Merge(json!({"data": {"replicas": "9"}}));
    maps.patch("web", &PatchParams::default(), &lie).await.unwrap();
    says(&client, "web", "3").await;

    maps.delete("web", &DeleteParams::default()).await.unwrap();
    assert_ne!(says(&client, "web", "3").await.uid(), owned.uid());

    drop(stop);
    soon(running).await.unwrap();
    server.shutdown().await;
}

const FINALIZER: &str = "kube.example/tidy";

#[tokio::test]
async fn a_finalizer_delays_deletion_until_its_cleanup_is_done() {
    let (server, client) = start().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    api.create(
        &PostParams::default(),
        &object(json!({"metadata": {"name": "a"}})),
    )
    .await
    .unwrap();
    let mut steps = Vec::new();
    let mut deleted = false;
    while let Some(found) = api.get_opt("a").await.unwrap() {
        let mut step = "marked";
        let work = |event| {
            step = match event {
                finalizer::Event::Apply(_) => "applied",
                finalizer::Event::Cleanup(_) => "cleaned up",
            };
            std::future::ready(Ok::<_, Infallible>(Action::await_change()))
        };
        finalizer(&api, FINALIZER, Arc::new(found), work).await.unwrap();
        steps.push(step);
        if step == "applied" && !std::mem::replace(&mut deleted, true) {
            let left = api
                .delete("a", &DeleteParams::default())
                .await
                .unwrap()
                .left()
                .unwrap();
            assert_eq!(left.finalizers(), [FINALIZER]);
            assert!(left.meta().deletion_timestamp.is_some());
        }
    }
    assert_eq!(steps, ["marked", "applied", "cleaned up"]);
    server.shutdown().await;
}

async fn write_status(api: &Api<Pod>, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status("web-0", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn conditions_are_waited_for() {
    let (server, client) = start().await;
    let api = Api::<Pod>::default_namespaced(client);
    let created = await_condition(api.clone(), "web-0", conditions::is_created());
    let running = await_condition(api.clone(), "web-0", conditions::is_pod_running());
    let mut running = pin!(running);
    let spec = json!({"containers": [{"name": "web", "image": "web:1"}]});
    let born = async {
        let pod = object(json!({"metadata": {"name": "web-0"}, "spec": spec}));
        api.create(&PostParams::default(), &pod).await.unwrap()
    };
    let (seen, born) = soon(async { tokio::join!(created, born) }).await;
    assert_eq!(seen.unwrap().unwrap().uid(), born.uid());

    write_status(&api, json!({"phase": "Pending", "message": "not yet"})).await;
    write_status(&api, json!({"phase": "Running"})).await;
    assert_eq!(soon(&mut running).await.unwrap().unwrap().uid(), born.uid());

    let uid = born.uid().unwrap();
    let deleted = await_condition(api.clone(), "web-0", conditions::is_deleted(&uid));
    let at_once = DeleteParams::default().grace_period(0);
    let end = api.delete("web-0", &at_once);
    let (gone, ended) = soon(async { tokio::join!(deleted, end) }).await;
    assert!(gone.is_ok() && ended.is_ok());
    server.shutdown().await;
}
