//! A simulated cluster with many nodes: the time until it is settled, its costs at rest, and a rollout of many
//! deployments.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::Failure;
use crate::load::{self, Client, JSON, PROTOBUF};
use crate::program::{Process, Program};
use crate::report::line;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICAS: usize = 2;
const WRITERS: usize = 16;
/// The time between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// The time for which a settled cluster is measured.
const REST: Duration = Duration::from_secs(30);
/// The longest time for nodes to register, or for a rollout.
const PATIENCE: Duration = Duration::from_secs(1800);

pub(crate) async fn measure(program: &Program, arguments: &[String]) -> Result<(), Failure> {
    let [nodes, deployments] = arguments else {
        return Err("nodes needs two numbers: nodes 10000 5000".into());
    };
    let (nodes, deployments): (usize, usize) = (nodes.parse()?, deployments.parse()?);
    let began = Instant::now();
    let process = program.start_with(&["--nodes", &nodes.to_string()])?;
    let mut client = Client::connect(&process).await?;
    until(&mut client, "/api/v1/nodes", "KubeletReady", nodes).await?;
    report(&process, &format!("{nodes} nodes are ready"), began.elapsed())?;
    at_rest(&process).await?;

    let (began, worked) = (Instant::now(), process.cpu()?);
    load::create_all(&process, WRITERS, DEPLOYMENTS, 0..deployments, deployment).await?;
    report(
        &process,
        &format!("{deployments} deployments are created"),
        began.elapsed(),
    )?;
    until(&mut client, DEPLOYMENTS, "MinimumReplicasAvailable", deployments).await?;
    let took = began.elapsed();
    let pods = deployments * REPLICAS;
    report(
        &process,
        &format!("{pods} pods of {deployments} deployments are available"),
        took,
    )?;
    let work = (process.cpu()? - worked).as_secs_f64() * 1e3 / pods as f64;
    line(&format!(
        "  per pod: {:.2} ms, CPU {work:.2} ms",
        took.as_secs_f64() * 1e3 / pods as f64
    ))?;
    at_rest(&process).await
}

fn report(process: &Process, what: &str, took: Duration) -> Result<(), Failure> {
    let (cpu, memory) = (process.cpu()?.as_secs_f64(), process.memory("VmRSS")?);
    let took = took.as_secs_f64();
    Ok(line(&format!(
        "{what:<60}{took:>8.1} s   CPU so far {cpu:>7.1} s   {memory:>6.0} MB"
    ))?)
}

/// The costs while nothing changes but heartbeats.
async fn at_rest(process: &Process) -> Result<(), Failure> {
    let before = process.cpu()?;
    tokio::time::sleep(REST).await;
    let cores = (process.cpu()? - before).as_secs_f64() / REST.as_secs_f64();
    let (memory, most) = (process.memory("VmRSS")?, process.memory("VmHWM")?);
    Ok(line(&format!(
        "  at rest: {cores:.2} cores, {memory:.0} MB, at most {most:.0} MB"
    ))?)
}

/// Waits until so many objects of a list contain a word.
async fn until(client: &mut Client, path: &str, word: &str, count: usize) -> Result<(), Failure> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if client.occurrences(path, PROTOBUF, word).await? >= count {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    let there = client.occurrences(path, JSON, word).await?;
    Err(format!("{path}: {there} of {count} have {word} after {PATIENCE:?}").into())
}

fn deployment(index: usize) -> String {
    let labels = json!({"app": format!("app-{index:06}")});
    let container = json!({
        "name": "main", "image": "registry.example.com/team/app:1.2.3",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("app-{index:06}")},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
    .to_string()
}
