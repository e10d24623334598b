//! Our informer and one subscriber, in a process of their own.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{PatchKind, PatchOptions, ResourceVersion};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::informer::{Informer, Notice, Subscription};

use super::child::{
    cpu_time, forget_peak, hear, peak_megabytes, percentiles, report, resident_megabytes, say,
};
use super::kube_client::{LATENCY_WRITES, PATIENCE};
use super::server::LATENCY_POD;
use crate::client::{connect, core};

pub(crate) async fn run(scenario: &str, kubeconfig: &Path, pods: usize) -> Result<()> {
    let began = Instant::now();
    let api = connect(kubeconfig)?.dynamic(core("pods")?);
    let informer = Informer::start(Arc::new(ApiSource::new(api.clone())), Default::default());
    let mut changes = informer.subscribe(Default::default());
    let mut told = 0;
    while changes.next().await.context("the informer has ended")? != Notice::Synced {
        told += 1;
    }
    ensure!(told > pods, "{told} objects");
    match scenario {
        "sync" => report(&[
            began.elapsed().as_secs_f64(),
            cpu_time().as_secs_f64(),
            peak_megabytes()?,
        ]),
        "events" => events(&mut changes, pods).await?,
        "latency" => latency(&api, changes).await?,
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

async fn latency(api: &DynamicApi, mut changes: Subscription) -> Result<()> {
    let (namespace, name) = LATENCY_POD;
    let pod = api.clone().namespace(namespace);
    let (mut answers, mut times) = (Vec::new(), Vec::new());
    for write in 0..LATENCY_WRITES {
        let value = format!("{}-{write}", std::process::id());
        let patch = json!({"metadata": {"annotations": {"write": value}}});
        let began = Instant::now();
        let options = PatchOptions::default();
        let patching = async {
            let patched = pod.patch(name, PatchKind::Merge, &patch, &options).await;
            patched.map(|_| began.elapsed())
        };
        let seeing = async {
            while let Some(notice) = changes.next().await {
                if let Notice::Change(delta) = notice
                    && delta.object().annotation("write").as_deref() == Some(&value)
                {
                    return Ok(began.elapsed());
                }
            }
            bail!("the informer has ended")
        };
        let (patched, seen) = tokio::join!(patching, seeing);
        answers.push(patched?);
        times.push(seen?);
    }
    let ([p50, p99], [answered, _]) = (percentiles(&mut times), percentiles(&mut answers));
    report(&[p50, p99, answered]);
    Ok(())
}

async fn relist(informer: &Informer, changes: Subscription) -> Result<()> {
    drop(changes);
    // What the first list has left behind is given back before memory is looked at.
    tokio::time::sleep(Duration::from_millis(100)).await;
    forget_peak()?;
    let (before, cpu) = (resident_megabytes()?, cpu_time());
    say("synced");
    let version = ResourceVersion::new(hear().await?);
    let relisted = informer.store().wait_for(&version);
    tokio::time::timeout(PATIENCE, relisted)
        .await
        .context("no relist")?;
    report(&[
        (cpu_time() - cpu).as_secs_f64(),
        peak_megabytes()? - before,
        before,
    ]);
    Ok(())
}
