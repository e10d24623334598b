//! Runs controllers under simulated time, faults and crashes: thousands of reproducible runs.
//!
//! A [`Simulation`] has controllers (any async code with a client), a workload and invariants. Each seed is a run on
//! its own cluster: the workload runs, faults are drawn and injected (answers are lost, watches break or are delayed,
//! processes crash between two writes and meet a stale server), and the invariants are checked after every write.
//! When the faults are over, the cluster must come to rest in the desired state.
//!
//! A failing run is shrunk to the fewest faults at the earliest points, and reported as a trace with the line that
//! reproduces it.
//!
//! ```
//! use serde_json::json;
//! use watchkeeper_meta::Resource;
//! use watchkeeper_testing::simulation::{Process, Simulation};
//!
//! let secrets = || Resource::namespaced("", "v1", "Secret", "secrets");
//! // Wants one secret in the cluster. An error means that nothing happened, it thinks.
//! let careless = move |process: Process| async move {
//!     let secrets = process.client().dynamic(secrets()).namespace("default");
//!     let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "token-"}});
//!     if secrets.list().await.is_ok_and(|list| list.items.is_empty()) {
//!         while secrets.create(&secret).await.is_err() {
//!             tokio::time::sleep(std::time::Duration::from_secs(1)).await;
//!         }
//!     }
//!     std::future::pending().await
//! };
//! let simulation = Simulation::new()
//!     .controller("careless", careless)
//!     .always("never two secrets", |state| match state.all("Secret").len() {
//!         0 | 1 => Ok(()),
//!         count => Err(format!("there are {count}")),
//!     });
//!
//! let found = simulation.search(0..1000).expect("a seed that loses an answer");
//! let told = found.to_string();
//! assert!(told.contains("lose-answer careless at write 1"), "{told}");
//! ```
//!
//! In a test, [`Simulation::check`] does this in one line and panics with the report.
//!
//! # Reproducibility
//!
//! The same plan gives the same trace, byte for byte, if the controllers use only tokio's clock and, for randomness,
//! `fastrand`. Code that uses other sources (`std::time`, the order of a `HashMap`, threads, sockets, kube's jitter)
//! still runs, but its runs may differ.
//!
//! Virtual time passes only when every task is idle. A controller that retries forever without a pause lets none pass: the
//! run fails as a [`Failure::HotLoop`], which names the process and its last request. A loop that sends no requests and
//! never waits cannot be interrupted: such a run does not end.

mod description;
pub mod invariants;
mod plan;
mod process;
mod report;
mod search;
mod shrink;
mod state;
mod trace;
mod world;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use fastrand::Rng;
use watchkeeper_simulator::SimulatorOptions;

pub use self::plan::{Fault, FaultOptions, Plan, PlanError, Trouble};
pub use self::process::Process;
pub use self::report::{Failure, Finding, Run};
pub use self::state::State;
pub use self::trace::Trace;

use self::description::{Beginning, Controller, Invariant, Parts};

/// A single seed to run, instead of those of the test.
const SEED: &str = "WATCHKEEPER_SEED";

/// The number of seeds to run, instead of that of the test.
const SEEDS: &str = "WATCHKEEPER_SEEDS";

/// Controllers, a workload, and invariants.
#[derive(Clone, Default)]
pub struct Simulation {
    parts: Parts,
    beginning: Arc<OnceLock<Result<Beginning, Failure>>>,
}

impl Simulation {
    /// A simulation without controllers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The initial objects: YAML documents, custom resource definitions before their objects.
    pub fn manifest(mut self, manifest: &str) -> Self {
        manifest.clone_into(&mut self.parts.manifest);
        self.beginning = Arc::default();
        self
    }

    /// Adds simulated nodes and control plane controllers, which are exempt from faults.
    pub fn control_plane(mut self, options: SimulatorOptions) -> Self {
        self.parts.control_plane = Some(options);
        self
    }

    /// Adds a process. `start` is called for each of its lives; the future runs until it ends or crashes.
    pub fn controller<F, Fut>(mut self, name: &str, start: F) -> Self
    where
        F: Fn(Process) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.parts.controllers.push(Controller {
            name: name.into(),
            start: Arc::new(move |process| Box::pin(start(process))),
        });
        self
    }

    /// Adds several processes of the same code, `name-0` and so on, for leader election and failover.
    pub fn replicas<F, Fut>(self, name: &str, count: usize, start: F) -> Self
    where
        F: Fn(Process) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let replica =
            |simulation: Self, index| simulation.controller(&format!("{name}-{index}"), start.clone());
        (0..count).fold(self, replica)
    }

    /// Sets the users' actions, with random choices of the seed. Users are exempt from faults; a panic fails the run.
    pub fn workload<F, Fut>(mut self, work: F) -> Self
    where
        F: Fn(Process, Rng) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.parts.workload = Some(Arc::new(move |process, rng| Box::pin(work(process, rng))));
        self
    }

    /// Adds an invariant that must hold after every write.
    pub fn always<F>(mut self, name: &str, holds: F) -> Self
    where
        F: Fn(&State<'_>) -> Result<(), String> + Send + Sync + 'static,
    {
        self.parts.always.push(invariant(name, holds));
        self
    }

    /// Adds an invariant that must hold in the end: when the workload is done, the faults are over and nobody has
    /// written for a minute, or at the latest half an hour after.
    pub fn eventually<F>(mut self, name: &str, holds: F) -> Self
    where
        F: Fn(&State<'_>) -> Result<(), String> + Send + Sync + 'static,
    {
        self.parts.eventually.push(invariant(name, holds));
        self
    }

    /// Marks a kind that is written forever by design, such as leases: its writes are not steps, and do not count as
    /// activity.
    pub fn heartbeat(mut self, kind: &str) -> Self {
        self.parts.heartbeats.push(kind.to_owned());
        self
    }

    /// Sets the fault options.
    pub fn faults(mut self, faults: FaultOptions) -> Self {
        self.parts.faults = faults;
        self
    }

    /// The faults of a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        let processes: Vec<&str> = self.parts.controllers.iter().map(|it| &*it.name).collect();
        Plan::draw(seed, &processes, self.parts.faults)
    }

    /// Runs a plan.
    pub fn run(&self, plan: &Plan) -> Run {
        let parts = Arc::new(self.parts.clone());
        // The caller may be within a runtime.
        search::alone(|| match self.beginning() {
            Ok(beginning) => world::run(&parts, beginning, plan),
            Err(failure) => Run {
                plan: plan.clone(),
                trace: Trace::default(),
                failure: Some(failure.clone()),
            },
        })
    }

    /// Runs seeds on all CPUs until one fails; returns the smallest failing one with the fewest and simplest faults.
    pub fn search(&self, seeds: Range<u64>) -> Option<Finding> {
        let parts = Arc::new(self.parts.clone());
        match search::alone(|| self.beginning()) {
            Ok(beginning) => search::search(&parts, beginning, seeds),
            Err(_) => Some(Finding {
                run: self.run(&Plan::default()),
                planned: 0,
            }),
        }
    }

    /// Runs this many seeds, or those of `WATCHKEEPER_SEED=17` or `WATCHKEEPER_SEEDS=5000`.
    ///
    /// # Panics
    ///
    /// With the report of the first one that fails.
    #[track_caller]
    pub fn check(&self, seeds: u64) {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seeds = match number(SEED) {
            Some(seed) => seed..seed + 1,
            None => 0..number(SEEDS).unwrap_or(seeds),
        };
        if let Some(found) = self.search(seeds) {
            panic!("{found}");
        }
    }

    /// Runs one plan, as printed in a report.
    ///
    /// # Panics
    ///
    /// With the report if it fails, and if the text is no plan.
    #[track_caller]
    pub fn replay(&self, plan: &str) {
        let plan: Plan = plan.parse().unwrap_or_else(|error| panic!("{error}"));
        let run = self.run(&plan);
        if run.failure.is_some() {
            let planned = plan.faults.len();
            panic!("{}", Finding { run, planned });
        }
    }

    fn beginning(&self) -> Result<&Beginning, &Failure> {
        let beginning = || Beginning::of(&self.parts.manifest).map_err(|error| Failure::setup(&error));
        self.beginning.get_or_init(beginning).as_ref()
    }
}

fn invariant(
    name: &str,
    holds: impl Fn(&State<'_>) -> Result<(), String> + Send + Sync + 'static,
) -> Invariant {
    Invariant {
        name: name.to_owned(),
        holds: Arc::new(holds),
    }
}
