//! Controllers under simulated time, faults and crashes: thousands of runs, each of them repeatable.
//!
//! A [`Simulation`] is given controllers (any async code with a client), a workload and what must hold. Each seed is a
//! run on a cluster of its own: the workload is done, faults are drawn and happen (answers are lost, watches break or
//! come late, processes crash between two writes and meet a server that is behind), and after every write the
//! invariants are checked. When the faults are over, the cluster must come to rest and be as it should.
//!
//! A run that fails is shrunk to the faults it needs, and told as a trace with the line that repeats it.
//!
//! ```
//! use serde_json::json;
//! use watchkeeper_meta::{Resource, Scope};
//! use watchkeeper_testing::simulation::{Process, Simulation};
//!
//! let secrets = || Resource {
//!     group: "".into(),
//!     version: "v1".into(),
//!     kind: "Secret".into(),
//!     plural: "secrets".into(),
//!     scope: Scope::Namespaced,
//! };
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
//! In a test, [`Simulation::check`] says it in one line and panics with that report.
//!
//! # What is repeatable
//!
//! The same plan gives the same trace, byte for byte, if the controllers take time and chance from where a run
//! provides them: tokio's clock, and `fastrand` or nothing for chance. Code that asks the machine (`std::time`,
//! the order of a `HashMap`, threads, sockets, kube's jitter) still runs, but its runs may differ.
//!
//! Virtual time passes only when every task waits. A controller that tries again at once and for ever, without a pause,
//! lets none pass: if it writes, the run fails as a [`Failure::Runaway`]; if it only reads, the run does not end.

mod description;
pub mod invariants;
mod plan;
mod process;
mod report;
mod search;
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

/// One seed to run, in place of those that a test asks for.
const SEED: &str = "WATCHKEEPER_SEED";

/// How many seeds to run, in place of as many as a test asks for.
const SEEDS: &str = "WATCHKEEPER_SEEDS";

/// Controllers, a workload, and what must hold whatever goes wrong.
#[derive(Clone, Default)]
pub struct Simulation {
    parts: Parts,
    beginning: Arc<OnceLock<Result<Beginning, Failure>>>,
}

impl Simulation {
    /// A cluster without anybody.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the cluster holds when a run begins: YAML documents, definitions of custom kinds before their objects.
    pub fn manifest(mut self, manifest: &str) -> Self {
        manifest.clone_into(&mut self.parts.manifest);
        self.beginning = Arc::default();
        self
    }

    /// Nodes and the controllers of a control plane, which are spared from faults.
    pub fn control_plane(mut self, options: SimulatorOptions) -> Self {
        self.parts.control_plane = Some(options);
        self
    }

    /// A process. `start` is called for each of its lives; what it returns is run until it ends or crashes.
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

    /// Several processes of the same code, `name-0` and so on: for leader election and its failover.
    pub fn replicas<F, Fut>(self, name: &str, count: usize, start: F) -> Self
    where
        F: Fn(Process) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let replica =
            |simulation: Self, index| simulation.controller(&format!("{name}-{index}"), start.clone());
        (0..count).fold(self, replica)
    }

    /// What users do meanwhile, with choices of the seed. Users are spared from faults; a panic fails the run.
    pub fn workload<F, Fut>(mut self, work: F) -> Self
    where
        F: Fn(Process, Rng) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.parts.workload = Some(Arc::new(move |process, rng| Box::pin(work(process, rng))));
        self
    }

    /// Must hold after every write.
    pub fn always<F>(mut self, name: &str, holds: F) -> Self
    where
        F: Fn(&State<'_>) -> Result<(), String> + Send + Sync + 'static,
    {
        self.parts.always.push(invariant(name, holds));
        self
    }

    /// Must hold in the end: when the workload is done, the faults are over and nobody has written for a minute, or at
    /// the latest half an hour after.
    pub fn eventually<F>(mut self, name: &str, holds: F) -> Self
    where
        F: Fn(&State<'_>) -> Result<(), String> + Send + Sync + 'static,
    {
        self.parts.eventually.push(invariant(name, holds));
        self
    }

    /// A kind that is written for ever by design, as leases are: such writes are not steps, and who only writes them is
    /// at rest.
    pub fn heartbeat(mut self, kind: &str) -> Self {
        self.parts.heartbeats.push(kind.to_owned());
        self
    }

    /// How much goes wrong.
    pub fn faults(mut self, faults: FaultOptions) -> Self {
        self.parts.faults = faults;
        self
    }

    /// What goes wrong with a seed.
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

    /// Runs seeds, on all processors, until one fails; returns the smallest that does, with the fewest faults.
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

    /// Runs so many seeds, or those that `WATCHKEEPER_SEED=17` or `WATCHKEEPER_SEEDS=5000` ask for.
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

    /// Runs one plan, as a report prints it.
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
