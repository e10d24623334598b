//! kube's watcher and reflector, and whoever consumes their stream, in a process of their own.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::Value;

use super::child::{PATIENCE, cpu_time, forget_peak, hear, peak_megabytes, report, resident_megabytes, say};
use super::latency::{self, LATENCY_POD};

pub(crate) async fn run(scenario: &str, kubeconfig: &Path, pods: usize, streaming: bool) -> Result<()> {
    let began = Instant::now();
    let client = connect(kubeconfig).await?;
    let config = match streaming {
        true => watcher::Config::default().streaming_lists(),
        false => watcher::Config::default(),
    };
    let (store, writer) = reflector::store();
    let events = watcher(Api::<Pod>::all(client.clone()), config).default_backoff();
    let mut events = std::pin::pin!(reflector(writer, events));
    listed(&mut events).await?;
    ensure!(store.len() > pods, "{} objects", store.len());
    match scenario {
        "sync" => report(&[
            began.elapsed().as_secs_f64(),
            cpu_time().as_secs_f64(),
            peak_megabytes()?,
        ]),
        "events" => changes(&mut events, pods).await?,
        "latency" => writes(client, events).await?,
        _ if scenario.starts_with("relist") => relist(&mut events).await?,
        _ => bail!("no such scenario: {scenario}"),
    }
    Ok(())
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Waits for the end of a list. Failures on the way are kube's to deal with.
async fn listed(events: &mut (impl Stream<Item = watcher::Result<Event<Pod>>> + Unpin)) -> Result<()> {
    loop {
        if let Ok(Event::InitDone) = events.next().await.context("the stream has ended")? {
            return Ok(());
        }
    }
}

async fn changes(
    events: &mut (impl Stream<Item = watcher::Result<Event<Pod>>> + Unpin),
    expected: usize,
) -> Result<()> {
    let (began, cpu) = (Instant::now(), cpu_time());
    say("synced");
    let mut seen = 0;
    while seen < expected {
        let event = events.next().await.context("the stream has ended")?;
        seen += usize::from(matches!(event?, Event::Apply(_)));
    }
    let cpu = cpu_time() - cpu;
    hear().await?;
    report(&[
        expected as f64 / cpu.as_secs_f64() / 1e3,
        began.elapsed().as_secs_f64(),
    ]);
    Ok(())
}

async fn writes(
    client: Client,
    events: impl Stream<Item = watcher::Result<Event<Pod>>> + Send + Unpin,
) -> Result<()> {
    let (namespace, name) = LATENCY_POD;
    let pod = Api::<Pod>::namespaced(client, namespace);
    let write = |patch: Value| {
        let pod = pod.clone();
        async move {
            pod.patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
            Ok(())
        }
        .boxed()
    };
    let marks = events.map(|event| match event? {
        Event::Apply(mut pod) => Ok(pod.annotations_mut().remove(latency::MARK)),
        _ => Ok(None),
    });
    latency::measure(write, marks).await
}

async fn relist(events: &mut (impl Stream<Item = watcher::Result<Event<Pod>>> + Unpin)) -> Result<()> {
    forget_peak()?;
    let (before, cpu) = (resident_megabytes()?, cpu_time());
    say("synced");
    hear().await?;
    tokio::time::timeout(PATIENCE, listed(events))
        .await
        .context("no relist")??;
    report(&[
        (cpu_time() - cpu).as_secs_f64(),
        peak_megabytes()? - before,
        before,
    ]);
    Ok(())
}
