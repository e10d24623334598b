//! Our informer and one subscriber, in their own process.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::Value;
use watchkeeper_bench_codec::written::{self, NAMESPACE, WRITERS};
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{PatchKind, ResourceVersion};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::informer::{Informer, Notice, Subscription};

use super::child::{PATIENCE, cpu_time, forget_peak, hear, peak_megabytes, report, resident_megabytes, say};
use super::latency;
use crate::client::{connect, core};

pub(crate) async fn run(scenario: &str, kubeconfig: &Path, pods: usize) -> Result<()> {
    let began = Instant::now();
    let (plural, expected) = match scenario {
        // Besides the config maps of every cluster.
        latency::OF_A_CONFIG_MAP => ("configmaps", None),
        _ => ("pods", Some(pods + WRITERS)),
    };
    let api = connect(kubeconfig)?.dynamic(core(plural)?);
    let informer = Informer::start(Arc::new(ApiSource::new(api.clone())), Default::default());
    let mut changes = informer.subscribe(Default::default());
    let mut told = 0;
    while changes.next().await.context("the informer has ended")? != Notice::Synced {
        told += 1;
    }
    ensure!(expected.is_none_or(|expected| told == expected), "{told} objects");
    match scenario {
        "sync" => report(&[
            began.elapsed().as_secs_f64(),
            cpu_time().as_secs_f64(),
            peak_megabytes()?,
        ]),
        "events" => events(&mut changes, pods).await?,
        _ if scenario.starts_with("latency") => writes(scenario, api, changes).await?,
        _ if scenario.starts_with("relist") => relist(&informer, changes).await?,
        _ => bail!("no such scenario: {scenario}"),
    }
    Ok(())
}

async fn events(changes: &mut Subscription, expected: usize) -> Result<()> {
    let (began, cpu) = (Instant::now(), cpu_time());
    say("synced");
    for _ in 0..expected {
        changes.next().await.context("the informer has ended")?;
    }
    let cpu = cpu_time() - cpu;
    hear().await?;
    report(&[
        expected as f64 / cpu.as_secs_f64() / 1e3,
        began.elapsed().as_secs_f64(),
    ]);
    Ok(())
}

/// The informer's connection is used for the writes as well, as in a program.
async fn writes(scenario: &str, api: DynamicApi, changes: Subscription) -> Result<()> {
    let objects = api.namespace(NAMESPACE);
    let write = |writer: usize, patch: Value| {
        let objects = objects.clone();
        async move {
            let name = written::name(writer);
            objects.patch(&name, PatchKind::Merge, &patch).await?;
            Ok(())
        }
        .boxed()
    };
    let marks = stream::unfold(changes, |mut changes| async {
        let mark = match changes.next().await? {
            Notice::Change(delta) => delta.object().annotation(latency::MARK).map(Cow::into_owned),
            Notice::Synced => None,
        };
        Some((Ok(mark), changes))
    });
    match scenario {
        latency::OF_MANY_PODS => latency::measure_many(write, marks.boxed()).await,
        _ => latency::measure(|patch| write(0, patch), marks.boxed()).await,
    }
}

async fn relist(informer: &Informer, changes: Subscription) -> Result<()> {
    drop(changes);
    // Memory of the first list is returned to the system before it is measured.
    tokio::time::sleep(Duration::from_millis(100)).await;
    forget_peak()?;
    let (before, cpu) = (resident_megabytes()?, cpu_time());
    say("synced");
    let version = ResourceVersion::new(hear().await?);
    let relisted = informer.store().wait_for(&version, PATIENCE).await;
    relisted.context("no relist")?;
    report(&[
        (cpu_time() - cpu).as_secs_f64(),
        peak_megabytes()? - before,
        before,
    ]);
    Ok(())
}
