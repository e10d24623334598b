//! A small controller: every ConfigMap labelled `copy=yes` gets a copy that it owns. A deleted copy is recreated.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use watchkeeper::client::{Error, ResourceType};
use watchkeeper::meta::ObjectKey;
use watchkeeper::runtime::controller::{Action, BoxError, Context, Controller};
use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper::runtime::wait::{Condition, wait_for};
use watchkeeper_testing::Sandbox;

async fn reconcile(original: Arc<ConfigMap>, context: Context<ConfigMap>) -> Result<Action, Error> {
    let labels = original.metadata.labels.as_ref();
    let copy = copy_of(&original);
    let wanted = labels.is_some_and(|labels| labels.get("copy").is_some_and(|copy| copy == "yes"));
    if wanted && context.store().get(&copy.key()).is_none() {
        match context.api().create(&copy).await {
            // The store does not have it yet; another reconcile follows when it does.
            Err(error) if error.is_already_exists() => {}
            created => println!("copied {} to {}", context.key(), created?.key().name()),
        }
    }
    Ok(Action::Done)
}

/// The same data under another name, owned by the original.
fn copy_of(original: &ConfigMap) -> ConfigMap {
    let key = original.key();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{}-copy", key.name())),
            namespace: Some(key.namespace().to_owned()),
            owner_references: Some(vec![original.owner_reference().into()]),
            ..Default::default()
        },
        data: original.data.clone(),
        ..Default::default()
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let maps = sandbox.client().api::<ConfigMap>().default_namespace();

    let factory = Factory::new(
        sandbox.client().clone(),
        FactoryOptions {
            namespaces: vec![sandbox.namespace().to_owned()],
            ..Default::default()
        },
    );
    let informer = factory.informer(Selection::of::<ConfigMap>());
    let controller = Controller::<ConfigMap>::of(&factory)
        .named("copier")
        .owns::<ConfigMap>();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let running = tokio::spawn(controller.run(reconcile, shutdown));

    let settings =
        json!({"metadata": {"name": "settings", "labels": {"copy": "yes"}}, "data": {"colour": "blue"}});
    maps.objects().create(&settings).await?;
    let (copy, within) = (
        ObjectKey::new(sandbox.namespace(), "settings-copy"),
        Duration::from_secs(10),
    );
    let first = wait_for(&informer, &copy, &Condition::exists(), within).await?;
    let uid = first.map(|copy| copy.uid().to_owned()).unwrap_or_default();
    maps.delete("settings-copy").await?;
    let another = Condition::exists().and(Condition::deleted(uid));
    wait_for(&informer, &copy, &another, within).await?;
    println!("the copy is back");

    let _ = stop.send(());
    running.await?;
    sandbox.close().await?;
    Ok(())
}
