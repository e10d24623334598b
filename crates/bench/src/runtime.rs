//! Compares the runtime with its peers: informers over TLS on a server in its own process.
//!
//! ```text
//!   this process ──"change 300"──▶ server ◀──TLS── client: ours or a peer's, a fresh process each time
//!        └────────── "until 4711" ──────────────────▶ └─▶ seconds, CPU seconds, megabytes
//! ```
//!
//! Clients take turns. CPU time and peak memory are those of the client alone; wall time also depends on the server and
//! the rest of the machine.

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

use crate::client_go::ClientGo;
use crate::process::Process;

/// The clients that take turns.
const CLIENTS: [&str; 5] = [BARE_MINIMUM, OURS, CLIENT_GO, "kube, streaming list", KUBE];

/// The client that shows the lower bound.
const BARE_MINIMUM: &str = "the bare minimum";
const OURS: &str = "ours";
const CLIENT_GO: &str = "client-go";
const KUBE: &str = "kube";

/// The peers that ours is compared with.
const PEERS: [&str; 2] = [CLIENT_GO, KUBE];

/// One line of the result: name and unit.
type Measure = (&'static str, &'static str);

/// A row of measures for each client.
struct Scenario {
    name: &'static str,
    /// The command to the server once the client has synced.
    then: Option<fn(usize) -> String>,
    measures: &'static [Measure],
}

/// The measures of write latency.
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

/// The numbers of pods in the growth scenario.
const GROWTH: [usize; 3] = [1_000, 10_000, 100_000];

/// Runs every scenario whose name contains this text, and the local ones.
pub(crate) fn compare(pods: usize, rounds: usize, only: &str, client_go: Option<&ClientGo>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let stage = Stage {
        kubeconfig: directory.path().join("kubeconfig"),
        rounds,
        client_go,
    };
    let scenarios = SCENARIOS.iter().filter(|scenario| scenario.name.contains(only));
    let mut scenarios = scenarios.peekable();
    if scenarios.peek().is_some() {
        let mut server = stage.serve(pods)?;
        for scenario in scenarios {
            stage.play(scenario, &mut server, pods)?;
        }
    }
    // It takes a while and a gigabyte, so only on request.
    if only == "growth" {
        stage.growth()?;
    }
    local::compare(pods, rounds, only, client_go)
}

/// The setup of a scenario.
struct Stage<'c> {
    kubeconfig: PathBuf,
    rounds: usize,
    client_go: Option<&'c ClientGo>,
}

impl Stage<'_> {
    fn serve(&self, pods: usize) -> Result<Process> {
        let mut server = Process::serving(&self.kubeconfig)?;
        server.tell(&format!("load {pods}"))?;
        server.hear()?;
        Ok(server)
    }

    fn play(&self, scenario: &Scenario, server: &mut Process, pods: usize) -> Result<()> {
        let clients = self.clients(scenario);
        let mut results = vec![vec![Vec::new(); scenario.measures.len()]; clients.len()];
        let mut curl = match scenario.name {
            "sync" => Curl::find(&self.kubeconfig)?,
            _ => None,
        };
        // The first round warms up the server and is not counted.
        for round in 0..=self.rounds {
            if let Some(curl) = &mut curl {
                curl.turn(round > 0)?;
            }
            for (client, results) in clients.iter().zip(&mut results) {
                let numbers = self.turn(scenario, client, server, pods)?;
                ensure!(numbers.len() == results.len(), "{client}: {numbers:?}");
                if round > 0 {
                    results
                        .iter_mut()
                        .zip(numbers)
                        .for_each(|(all, number)| all.push(number));
                }
            }
        }
        let medians = |all: &mut Vec<Vec<f64>>| all.iter_mut().map(|all| median(all)).collect();
        let medians: Vec<Vec<f64>> = results.iter_mut().map(medians).collect();
        scenario.print(&clients, &medians);
        if let Some(curl) = curl {
            curl.print(medians[0][0]);
        }
        Ok(())
    }

    fn clients(&self, scenario: &Scenario) -> Vec<&'static str> {
        let limited = [latency::OF_A_POD, latency::OF_A_CONFIG_MAP].contains(&scenario.name);
        let plays = |client: &&str| match *client {
            BARE_MINIMUM => limited,
            CLIENT_GO => self.client_go.is_some(),
            _ => true,
        };
        CLIENTS.into_iter().filter(plays).collect()
    }

    /// Runs one client; returns its measurements.
    fn turn(&self, scenario: &Scenario, client: &str, server: &mut Process, pods: usize) -> Result<Vec<f64>> {
        let pod_count = pods.to_string();
        let arguments = [scenario.name, path_text(&self.kubeconfig)?, &pod_count];
        let mut client = match self.client_go {
            Some(client_go) if client == CLIENT_GO => client_go.informer(&arguments)?,
            _ => Process::client(&[&[client][..], &arguments].concat())?,
        };
        if let Some(then) = scenario.then {
            ensure!(client.hear()? == "synced", "{} did not sync", scenario.name);
            server.tell(&then(pods))?;
            let revision = server.hear()?;
            client.tell(&revision)?;
        }
        client.hear_numbers()
    }

    /// Our initial sync of growing numbers of pods.
    fn growth(&self) -> Result<()> {
        let [sync, ..] = &SCENARIOS;
        for pods in GROWTH {
            let mut server = self.serve(pods)?;
            let mut results = vec![Vec::new(); sync.measures.len()];
            for _ in 0..self.rounds {
                let numbers = self.turn(sync, OURS, &mut server, pods)?;
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
}

/// Runs the part that a child was started for.
pub(crate) fn run_child(arguments: &[String]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments {
        [who, scenario, kubeconfig, _] if who == BARE_MINIMUM => {
            bare_client::run(scenario, kubeconfig.as_ref())
        }
        [who, scenario, kubeconfig, pods] => {
            let (scenario, kubeconfig, pods) = (scenario.clone(), PathBuf::from(kubeconfig), pods.parse()?);
            let streaming = who.contains("streaming");
            // On its own task, as in a program: the thread in `block_on` is not a worker, and would have to be woken
            // for each event.
            let client = match &**who {
                OURS => runtime.spawn(async move { our_client::run(&scenario, &kubeconfig, pods).await }),
                _ => runtime
                    .spawn(async move { kube_client::run(&scenario, &kubeconfig, pods, streaming).await }),
            };
            runtime.block_on(client)?
        }
        _ => bail!("no such part: {arguments:?}"),
    }
}

impl Scenario {
    /// Prints a column for each client, and the ratio of ours to each peer.
    fn print(&self, clients: &[&str], medians: &[Vec<f64>]) {
        let column = |name: &str| clients.iter().position(|client| *client == name);
        let peers: Vec<(&str, usize)> = PEERS
            .into_iter()
            .filter_map(|peer| Some((peer, column(peer)?)))
            .collect();
        let names = clients.iter().map(|client| format!("{client:>22}"));
        let ratios = peers
            .iter()
            .map(|(peer, _)| format!("{:>18}", format!("ours ÷ {peer}")));
        println!("\n{}", self.name);
        println!("{:<28}{}", "", names.chain(ratios).collect::<String>());
        for (at, (measure, unit)) in self.measures.iter().enumerate() {
            let ours = column(OURS).map_or(f64::NAN, |ours| medians[ours][at]);
            let numbers = medians.iter().map(|client| format!("{:>22.3}", client[at]));
            let ratios = peers
                .iter()
                .map(|(_, peer)| format!("{:>18.3}", ours / medians[*peer][at]));
            let cells: String = numbers.chain(ratios).collect();
            println!("{:<28}{cells}", format!("{measure}, {unit}"));
        }
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
