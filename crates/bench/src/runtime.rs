//! The runtime beside kube's: informers on one server in a process of its own, over TLS.
//!
//! ```text
//!   this process ──"change 300"──▶ server ◀──TLS── client: ours, or kube's, a fresh process each time
//!        └────────── "until 4711" ──────────────────▶ └─▶ seconds, CPU seconds, megabytes
//! ```
//!
//! Clients take turns. What a client needs is its own CPU time and its own peak memory; wall time is shown, too, but
//! the server and everything else on the machine have their part in it.

mod bare_client;
mod child;
mod curl;
mod kube_client;
mod latency;
mod local;
mod our_client;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use child::{CHILD, peak_megabytes};
use curl::Curl;

use crate::process::Process;

/// Who takes turns; the last one is who the others are compared with.
const CLIENTS: &[&str] = &["ours", "kube, streaming list", "kube"];

/// With one who shows what nobody can do better.
const CLIENTS_AND_LIMIT: &[&str] = &["the bare minimum", "ours", "kube, streaming list", "kube"];

/// One line of the result: what is measured, in which unit.
type Measure = (&'static str, &'static str);

/// A row of measures for each client.
struct Scenario {
    name: &'static str,
    /// What the server is told once the client has synced.
    then: Option<fn(usize) -> String>,
    measures: &'static [Measure],
}

/// What is said about the way of a write.
const LATENCY: &[Measure] = &[("p50", "ms"), ("p99", "ms"), ("write answered, p50", "ms")];

const SCENARIOS: [Scenario; 7] = [
    Scenario {
        name: "sync",
        then: None,
        measures: &[("wall", "s"), ("CPU", "s"), ("peak memory", "MB")],
    },
    Scenario {
        name: "events",
        then: Some(|pods| format!("change {pods}")),
        measures: &[("events/s of CPU", "k"), ("wall", "s")],
    },
    Scenario {
        name: latency::OF_A_POD,
        then: None,
        measures: LATENCY,
    },
    Scenario {
        name: latency::OF_A_CONFIG_MAP,
        then: None,
        measures: LATENCY,
    },
    Scenario {
        name: latency::OF_MANY_PODS,
        then: None,
        measures: LATENCY,
    },
    Scenario {
        name: "relist, 0 % changed",
        then: Some(|_| "relist 0".into()),
        measures: &[("CPU", "s"), ("extra peak memory", "MB"), ("memory before", "MB")],
    },
    Scenario {
        name: "relist, 1 % changed",
        then: Some(|pods| format!("relist {}", pods / 100)),
        measures: &[("CPU", "s"), ("extra peak memory", "MB"), ("memory before", "MB")],
    },
];

/// How many pods there are where the cost of one more is looked at.
const GROWTH: [usize; 3] = [1_000, 10_000, 100_000];

/// Runs every scenario whose name has this text, and the local ones.
pub(crate) fn compare(pods: usize, rounds: usize, only: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let scenarios = SCENARIOS.iter().filter(|scenario| scenario.name.contains(only));
    let mut scenarios = scenarios.peekable();
    if scenarios.peek().is_some() {
        let mut server = serve(&kubeconfig, pods)?;
        for scenario in scenarios {
            scenario.run(&mut server, &kubeconfig, pods, rounds)?;
        }
    }
    // It takes a while and a gigabyte: only for those who ask.
    if only == "growth" {
        growth(&kubeconfig, rounds)?;
    }
    local::compare(pods, rounds, only)
}

fn serve(kubeconfig: &Path, pods: usize) -> Result<Process> {
    let mut server = Process::serving(kubeconfig)?;
    server.tell(&format!("load {pods}"))?;
    server.hear()?;
    Ok(server)
}

/// Our first sync of ever more pods.
fn growth(kubeconfig: &Path, rounds: usize) -> Result<()> {
    let [sync, ..] = &SCENARIOS;
    for pods in GROWTH {
        let mut server = serve(kubeconfig, pods)?;
        let mut results = vec![Vec::new(); sync.measures.len()];
        for _ in 0..rounds {
            let numbers = sync.turn("ours", &mut server, kubeconfig, pods)?;
            results
                .iter_mut()
                .zip(numbers)
                .for_each(|(all, number)| all.push(number));
        }
        println!("\nsync of {pods} pods");
        for ((measure, unit), all) in sync.measures.iter().zip(&mut results) {
            println!("{:<28}{:>14.3}", format!("{measure}, {unit}"), median(all));
        }
    }
    Ok(())
}

/// Plays the part a child was started for.
pub(crate) fn run_child(arguments: &[String]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments {
        [who, scenario, kubeconfig, _] if who == CLIENTS_AND_LIMIT[0] => {
            bare_client::run(scenario, kubeconfig.as_ref())
        }
        [who, scenario, kubeconfig, pods] => {
            let (scenario, kubeconfig, pods) = (scenario.clone(), PathBuf::from(kubeconfig), pods.parse()?);
            let streaming = who.contains("streaming");
            // On a task of its own, where programs do their work: the thread that waits for it is no worker, and
            // would have to be woken for each event.
            let client = match &**who {
                "ours" => runtime.spawn(async move { our_client::run(&scenario, &kubeconfig, pods).await }),
                _ => runtime
                    .spawn(async move { kube_client::run(&scenario, &kubeconfig, pods, streaming).await }),
            };
            runtime.block_on(client)?
        }
        _ => bail!("no such part: {arguments:?}"),
    }
}

impl Scenario {
    fn run(&self, server: &mut Process, kubeconfig: &Path, pods: usize, rounds: usize) -> Result<()> {
        let clients = match self.name {
            latency::OF_A_POD | latency::OF_A_CONFIG_MAP => CLIENTS_AND_LIMIT,
            _ => CLIENTS,
        };
        let mut results = vec![vec![Vec::new(); self.measures.len()]; clients.len()];
        let mut curl = match self.name {
            "sync" => Curl::find(kubeconfig)?,
            _ => None,
        };
        // The first round warms the server up and does not count.
        for round in 0..=rounds {
            if let Some(curl) = &mut curl {
                curl.turn(round > 0)?;
            }
            for (client, results) in clients.iter().zip(&mut results) {
                let numbers = self.turn(client, server, kubeconfig, pods)?;
                ensure!(numbers.len() == results.len(), "{client}: {numbers:?}");
                if round > 0 {
                    results
                        .iter_mut()
                        .zip(numbers)
                        .for_each(|(all, number)| all.push(number));
                }
            }
        }
        println!("\n{}", self.name);
        let names = clients.iter().map(|client| format!("{client:>24}"));
        println!("{:<28}{}", "", names.collect::<String>());
        for (at, (measure, unit)) in self.measures.iter().enumerate() {
            let medians: Vec<f64> = results.iter_mut().map(|all| median(&mut all[at])).collect();
            let peer = medians[clients.len() - 1];
            let cells = medians
                .iter()
                .map(|number| format!("{number:>14.3} ({:>6.3})", number / peer));
            println!(
                "{:<28}{}",
                format!("{measure}, {unit}"),
                cells.collect::<String>()
            );
        }
        if let Some(curl) = curl {
            curl.print(median(&mut results[0][0]));
        }
        Ok(())
    }

    /// One client from beginning to end; what it has measured.
    fn turn(&self, client: &str, server: &mut Process, kubeconfig: &Path, pods: usize) -> Result<Vec<f64>> {
        let mut client = Process::client(&[client, self.name, path_text(kubeconfig)?, &pods.to_string()])?;
        if let Some(then) = self.then {
            ensure!(client.hear()? == "synced", "{} did not sync", self.name);
            server.tell(&then(pods))?;
            let revision = server.hear()?;
            client.tell(&revision)?;
        }
        let numbers = client.hear()?;
        let numbers = numbers.split(' ').map(|number| Ok(number.parse::<f64>()?));
        numbers.collect()
    }
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not text", PathBuf::from(path).display()))
}
