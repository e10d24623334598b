//! An operator: websites whose pages are published as a ConfigMap that belongs to them, whose status says so, and which
//! are cleaned up before they go.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watchkeeper::custom::install_crds;
use watchkeeper::meta;
use watchkeeper::prelude::*;
use watchkeeper::runtime::controller::OnError;
use watchkeeper::runtime::wait::{self, wait_for};
use watchkeeper_testing::Sandbox;

const MANAGER: &str = "website-operator";

/// Pages that are served under a domain.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "operator.example", version = "v1", namespaced, status = WebsiteStatus)]
struct WebsiteSpec {
    domain: String,
    pages: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct WebsiteStatus {
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Vec<Condition>,
}

async fn reconcile(_: Arc<Website>, context: Context<Website>) -> Result<Action, BoxError> {
    let step = context.finalizer("operator.example/unpublish", async |phase| match phase {
        Phase::Apply(site) => publish(&site, &context).await,
        Phase::Cleanup(site) => {
            // Whatever the cluster does not know of: the ConfigMap goes by itself.
            println!("{} is taken down", site.spec.domain);
            Ok(Action::Done)
        }
    });
    Ok(step.await?)
}

async fn publish(site: &Website, context: &Context<Website>) -> Result<Action, BoxError> {
    let maps = context.store_of::<ConfigMap>()?;
    let published = maps.get(context.key());
    if published.and_then(|map| map.data.clone()).as_ref() != Some(&site.spec.pages) {
        let pages = ConfigMap {
            metadata: ObjectMeta {
                name: Some(context.key().name().to_owned()),
                owner_references: Some(vec![site.owner_reference().into()]),
                ..Default::default()
            },
            data: Some(site.spec.pages.clone()),
            ..Default::default()
        };
        let applied = context.api().apply(&pages, MANAGER).force().await?;
        // Until the store shows it, another reconcile would publish once more.
        let version = applied.identity().resource_version;
        maps.wait_for(&version, Duration::from_secs(10)).await?;
        println!(
            "{} pages of {} are published",
            site.spec.pages.len(),
            site.spec.domain
        );
    }
    let mut site = site.clone();
    let ready = Condition::new("Ready", true, "Published").observed(site.metadata.generation);
    if set_condition(&mut site.status.get_or_insert_default().conditions, ready) {
        context.api().status().update(&site).await?;
    }
    Ok(Action::Done)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let (client, within) = (sandbox.client(), Duration::from_secs(20));
    install_crds(client, &[Website::crd()], &Default::default()).await?;
    let factory = Factory::new(client.clone(), Default::default());
    let controller = Controller::<Website>::of(&factory)
        .owns::<ConfigMap>()
        .with(ControllerOptions {
            reconcile_timeout: Some(Duration::from_secs(30)),
            error_policy: Some(Arc::new(|_| OnError::Retry)),
            ..Default::default()
        });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(controller.run(reconcile, async {
        let _ = stopped.await;
    }));

    // What a user does.
    let websites = client.api::<Website>().namespace(sandbox.namespace());
    let spec = WebsiteSpec {
        domain: "example.com".into(),
        pages: [("index".into(), "Welcome".into())].into(),
    };
    let mut home = websites.create(&Website::new("home", spec)).await?;
    let sites = factory.informer(Selection::of::<Website>());
    let ready = wait::Condition::status_condition("Ready", "True");
    let key = home.key();
    wait_for(&sites, &key, &ready, within).await?;
    println!("{} is ready", home.spec.domain);

    // What somebody deletes comes back.
    let maps = client.api::<ConfigMap>().namespace(sandbox.namespace());
    let first = maps.get("home").await?;
    maps.delete("home").await?;
    let another = wait::Condition::exists().and(wait::Condition::deleted(first.identity().uid));
    wait_for(
        &factory.informer(Selection::of::<ConfigMap>()),
        &key,
        &another,
        within,
    )
    .await?;

    home = websites.get("home").await?;
    websites.delete("home").await?;
    let gone = wait::Condition::deleted(home.identity().uid);
    wait_for(&sites, &key, &gone, within).await?;
    println!("{} is gone", home.spec.domain);

    let _ = stop.send(());
    running.await?;
    let definitions = client.dynamic(meta::Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ));
    definitions.delete("websites.operator.example").await?;
    sandbox.close().await?;
    Ok(())
}
