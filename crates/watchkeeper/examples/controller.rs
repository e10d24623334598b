//! A small controller: every ConfigMap labelled `copy=yes` gets a copy that it owns, and a copy that somebody deletes
//! comes back.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use serde_json::json;
use watchkeeper::client::{DynamicApi, Error};
use watchkeeper::meta::{CreateOptions, DeleteOptions, GetOptions, ObjectKey};
use watchkeeper::runtime::controller::{Action, Controller, ControllerOptions, Reconciler, Request};
use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper::runtime::wait::{Condition, wait_for};
use watchkeeper::wire::schema::resources;
use watchkeeper_testing::TestCluster;

struct Copier {
    maps: DynamicApi,
}

impl Reconciler for Copier {
    type Error = Error;

    async fn reconcile(&self, request: Request) -> Result<Action, Error> {
        let Some(original) = request
            .object
            .filter(|map| map.label("copy").as_deref() == Some("yes"))
        else {
            return Ok(Action::Done);
        };
        let name = format!("{}-copy", original.name());
        let found = self.maps.get(&name, &GetOptions::default()).await;
        if !matches!(found, Err(ref error) if error.is_not_found()) {
            return found.map(|_| Action::Done);
        }
        let copy = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": original.namespace(),
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "ConfigMap", "name": original.name(), "uid": original.uid(),
                    "controller": true,
                }],
            },
        });
        self.maps.create(&copy, &CreateOptions::default()).await?;
        println!("copied {} to {name}", original.name());
        Ok(Action::Done)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = TestCluster::start().await?;
    let config_maps = resources::by_plural("", "v1", "configmaps")
        .ok_or("no such resource")?
        .resource
        .clone();
    let maps = cluster.client().dynamic(config_maps.clone()).namespace("default");

    let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::all(config_maps.clone()));
    let controller = Controller::new("copier", informer.clone(), ControllerOptions::default())
        .owns(informer.clone(), &config_maps);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let running = tokio::spawn(controller.run(Copier { maps: maps.clone() }, shutdown));

    let original = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default", "labels": {"copy": "yes"}},
    });
    maps.create(&original, &CreateOptions::default()).await?;
    let (copy, within) = (
        ObjectKey::new("default", "settings-copy"),
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
    cluster.stop().await;
    Ok(())
}
