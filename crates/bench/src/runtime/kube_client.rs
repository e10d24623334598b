//! kube's watcher and reflector, and the consumer of their stream, in their own process.

use std::fmt::Debug;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use watchkeeper_bench_codec::written::{self, NAMESPACE, WRITERS};

use super::child::{PATIENCE, cpu_time, forget_peak, hear, peak_megabytes, report, resident_megabytes, say};
use super::latency;

pub(crate) async fn run(scenario: &str, kubeconfig: &Path, pods: usize, streaming: bool) -> Result<()> {
    let began = Instant::now();
    let client = connect(kubeconfig).await?;
    let config = match streaming {
        true => watcher::Config::default().streaming_lists(),
        false => watcher::Config::default(),
    };
    if scenario == latency::OF_A_CONFIG_MAP {
        let (_, mut events) = reflect::<ConfigMap>(client.clone(), config);
        listed(&mut events).await?;
        return writes(scenario, client, events).await;
    }
    let (store, mut events) = reflect::<Pod>(client.clone(), config);
    listed(&mut events).await?;
    ensure!(store.len() == pods + WRITERS, "{} objects", store.len());
    match scenario {
        "sync" => report(&[
            began.elapsed().as_secs_f64(),
            cpu_time().as_secs_f64(),
            peak_megabytes()?,
        ]),
        "events" => changes(&mut events, pods).await?,
        _ if scenario.starts_with("latency") => writes(scenario, client, events).await?,
        _ if scenario.starts_with("relist") => relist(&mut events).await?,
        _ => bail!("no such scenario: {scenario}"),
    }
    Ok(())
}

/// The kinds that kube watches: built-in ones.
trait Watched: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static> Watched for K {}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

fn reflect<K: Watched>(client: Client, config: watcher::Config) -> (reflector::Store<K>, Events<K>) {
    let (store, writer) = reflector::store();
    let events = watcher(Api::<K>::all(client), config).default_backoff();
    (store, reflector(writer, events).boxed())
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Waits for the end of a list. kube retries failures itself.
async fn listed<K>(events: &mut Events<K>) -> Result<()> {
    loop {
        if let Ok(Event::InitDone) = events.next().await.context("the stream has ended")? {
            return Ok(());
        }
    }
}

async fn changes(events: &mut Events<Pod>, expected: usize) -> Result<()> {
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

async fn writes<K>(scenario: &str, client: Client, events: Events<K>) -> Result<()>
where
    K: Watched + Resource<Scope = NamespaceResourceScope>,
{
    let objects = Api::<K>::namespaced(client, NAMESPACE);
    let write = |writer: usize, patch: Value| {
        let objects = objects.clone();
        async move {
            let (name, params) = (written::name(writer), PatchParams::default());
            objects.patch(&name, &params, &Patch::Merge(patch)).await?;
            Ok(())
        }
        .boxed()
    };
    let marks = events.map(|event| match event? {
        Event::Apply(mut object) => Ok(object.annotations_mut().remove(latency::MARK)),
        _ => Ok(None),
    });
    match scenario {
        latency::OF_MANY_PODS => latency::measure_many(write, marks).await,
        _ => latency::measure(|patch| write(0, patch), marks).await,
    }
}

async fn relist(events: &mut Events<Pod>) -> Result<()> {
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
