//! Fills the server with pods and namespaces through the API.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use watchkeeper_client::{Client, ClientOptions, Config, LoadOptions};
use watchkeeper_meta::{Resource, UpdateOptions};
use watchkeeper_wire::schema::resources;

use watchkeeper_bench_codec::pods;

/// Concurrent writes.
const WRITERS: usize = 32;

/// Creates that many pods and as many namespaces, and prints how long it took.
#[tokio::main]
pub(super) async fn write(objects: usize, kubeconfig: &Path) -> Result<()> {
    let begun = Instant::now();
    fill(&client(kubeconfig)?, objects).await?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{objects} pods and {objects} namespaces were written in {seconds:.1} s");
    Ok(())
}

/// Our client with its defaults, except for the rate limit, which kube does not have.
pub(crate) fn client(kubeconfig: &Path) -> Result<Client> {
    let config = Config::load(&LoadOptions {
        path: Some(kubeconfig.to_owned()),
        ..Default::default()
    })?;
    let options = ClientOptions {
        rate_limit: None,
        ..Default::default()
    };
    Ok(Client::new(&config, options)?)
}

/// A resource of the core group.
pub(crate) fn core(plural: &str) -> Result<Resource> {
    let found = resources::by_plural("", "v1", plural);
    let found = found.ok_or_else(|| anyhow::anyhow!("no resource {plural}"))?;
    Ok(found.resource.clone())
}

async fn fill(client: &Client, objects: usize) -> Result<()> {
    let teams = (0..objects).filter_map(pods::namespace_begun_by);
    let teams: Vec<String> = teams.collect();
    // The four default namespaces count, too.
    let rest = objects.saturating_sub(teams.len() + 4);
    let names = teams
        .into_iter()
        .chain((0..rest).map(|number| format!("tenant-{number:05}")));
    let namespaces = client.dynamic(core("namespaces")?);
    let created = stream::iter(names).map(async |name| {
        let labels = json!({"team": name, "environment": "production", "cost-center": "4711"});
        let annotations = json!({"contact": format!("{name}@example.com"), "purpose": "measurements"});
        let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
        namespaces.create(&json!({"metadata": metadata})).await
    });
    created
        .buffer_unordered(WRITERS)
        .try_for_each(async |_| Ok(()))
        .await?;
    // The object that watches see first.
    let settings = json!({"metadata": {"name": "settings"}});
    let config_maps = client.dynamic(core("configmaps")?).namespace("default");
    config_maps.create(&settings).await?;
    let numbers = stream::iter(0..objects).map(Ok::<_, anyhow::Error>);
    numbers
        .try_for_each_concurrent(WRITERS, async |number| write_pod(client, number).await)
        .await
}

/// Creates a pod and reports its status, as a kubelet does.
async fn write_pod(client: &Client, number: usize) -> Result<()> {
    let mut pod: Value = serde_json::from_str(&pods::one(number))?;
    let status = pod["status"].take();
    let metadata = pod["metadata"].as_object_mut().expect("a pod has metadata");
    for set_by_servers in [
        "uid",
        "resourceVersion",
        "managedFields",
        "creationTimestamp",
        "generation",
    ] {
        metadata.remove(set_by_servers);
    }
    let namespace = pod["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let api = client.dynamic(core("pods")?).namespace(namespace);
    let created = api.create(&pod).await?;
    let mut reported = created.to_value()?;
    reported["status"] = status;
    let options = UpdateOptions {
        field_manager: Some("kubelet".to_owned()),
        ..Default::default()
    };
    api.subresource("status")
        .update(created.name(), &reported)
        .with(&options)
        .await?;
    Ok(())
}
