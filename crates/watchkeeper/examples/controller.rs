//! A small controller: every ConfigMap labelled `copy=yes` gets a copy that it owns, and a copy that somebody deletes
//! comes back.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::json;
use watchkeeper::client::{Api, Error, ResourceType};
use watchkeeper::meta::{CreateOptions, DeleteOptions, GetOptions, ObjectKey};
use watchkeeper::runtime::controller::{Action, Controller, ControllerOptions, Reconciler, Request};
use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper::runtime::wait::{Condition, wait_for};
use watchkeeper::wire::{Object, WireError};
use watchkeeper_testing::Sandbox;

struct Copier {
    maps: Api<ConfigMap>,
}

/// Why a copy may fail; the controller tries again later.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error("cannot read the original: {0}")]
    Original(#[from] WireError),
    #[error(transparent)]
    Server(#[from] Error),
}

impl Reconciler for Copier {
    type Error = CopyError;

    async fn reconcile(&self, request: Request) -> Result<Action, CopyError> {
        let wanted = |map: &Object| map.label("copy").as_deref() == Some("yes");
        let Some(original) = request.object.filter(wanted) else {
            return Ok(Action::Done);
        };
        let copy = copy_of(original.decode()?);
        let name = copy.metadata.name.as_deref().unwrap_or_default();
        match self.maps.get(name, &GetOptions::default()).await {
            Err(error) if error.is_not_found() => {}
            found => return Ok(found.map(|_| Action::Done)?),
        }
        self.maps.create(&copy, &CreateOptions::default()).await?;
        println!("copied {} to {name}", original.key());
        Ok(Action::Done)
    }
}

/// The same data under another name, owned by the original.
fn copy_of(original: ConfigMap) -> ConfigMap {
    let name = original.metadata.name.unwrap_or_default();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{name}-copy")),
            namespace: original.metadata.namespace,
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                name,
                uid: original.metadata.uid.unwrap_or_default(),
                controller: Some(true),
                ..Default::default()
            }]),
            ..Default::default()
        },
        data: original.data,
        ..Default::default()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let maps = sandbox.client().api::<ConfigMap>().default_namespace();

    let factory = Factory::new(
        sandbox.client().clone(),
        FactoryOptions {
            namespaces: vec![sandbox.namespace().to_owned()],
            ..Default::default()
        },
    );
    let informer = factory.informer(Selection::of::<ConfigMap>()).untyped();
    let controller = Controller::new("copier", informer.clone(), ControllerOptions::default())
        .owns(informer.clone(), &ConfigMap::resource());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let running = tokio::spawn(controller.run(Copier { maps: maps.clone() }, shutdown));

    let settings =
        json!({"metadata": {"name": "settings", "labels": {"copy": "yes"}}, "data": {"colour": "blue"}});
    maps.objects()
        .create(&settings, &CreateOptions::default())
        .await?;
    let (copy, within) = (
        ObjectKey::new(sandbox.namespace(), "settings-copy"),
        Duration::from_secs(10),
    );
    let first = wait_for(&informer, &copy, &Condition::exists(), within).await?;
    let uid = first.map(|copy| copy.uid().to_owned()).unwrap_or_default();
    maps.delete("settings-copy", &DeleteOptions::default()).await?;
    let another = Condition::exists().and(Condition::deleted(uid));
    wait_for(&informer, &copy, &another, within).await?;
    println!("the copy is back");

    let _ = stop.send(());
    running.await?;
    sandbox.close().await?;
    Ok(())
}
