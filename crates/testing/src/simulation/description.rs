//! The parts of a simulation, and the initial cluster of every run.

use std::sync::Arc;

use fastrand::Rng;
use futures_util::future::BoxFuture;
use watchkeeper_meta::Time;
use watchkeeper_simulator::SimulatorOptions;

use super::plan::FaultOptions;
use super::process::Process;
use super::state::State;
use crate::{Snapshot, TestCluster, TestClusterError, TestOptions};

/// The start time of every run: 2030-01-01T00:00:00Z.
const START: Time = Time {
    seconds: 1_893_456_000,
    nanos: 0,
};

pub(super) type Start = Arc<dyn Fn(Process) -> BoxFuture<'static, ()> + Send + Sync>;
pub(super) type Workload = Arc<dyn Fn(Process, Rng) -> BoxFuture<'static, ()> + Send + Sync>;
type Holds = Arc<dyn Fn(&State<'_>) -> Result<(), String> + Send + Sync>;

/// The parts of a simulation. Clones share the code.
#[derive(Clone)]
pub(super) struct Parts {
    pub manifest: String,
    pub control_plane: Option<SimulatorOptions>,
    pub controllers: Vec<Controller>,
    pub workload: Option<Workload>,
    pub always: Vec<Invariant>,
    pub eventually: Vec<Invariant>,
    /// Kinds that are written forever by design.
    pub heartbeats: Vec<String>,
    pub faults: FaultOptions,
}

/// A process and its start function.
#[derive(Clone)]
pub(super) struct Controller {
    pub name: Arc<str>,
    pub start: Start,
}

/// An invariant.
#[derive(Clone)]
pub(super) struct Invariant {
    pub name: String,
    pub holds: Holds,
}

/// The initial cluster of every run: the manifest is loaded once.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    snapshot: Snapshot,
    bare: Snapshot,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            manifest: String::new(),
            control_plane: None,
            controllers: Vec::new(),
            workload: None,
            always: Vec::new(),
            eventually: Vec::new(),
            heartbeats: ["Lease", "Event"].map(str::to_owned).into(),
            faults: FaultOptions::default(),
        }
    }
}

impl Beginning {
    /// Loads a manifest into a separate cluster, on its own runtime.
    pub(super) fn of(manifest: &str) -> Result<Self, TestClusterError> {
        // Equal uids in every process.
        fastrand::seed(0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(TestClusterError::Runtime)?;
        runtime.block_on(async {
            let options = TestOptions {
                start_time: Some(START),
                paused: true,
                ..TestOptions::default()
            };
            let cluster = TestCluster::start_with(options).await?;
            cluster.load(manifest).await?;
            Ok(Self {
                snapshot: cluster.snapshot(),
                bare: cluster.bare.clone(),
            })
        })
    }

    /// A cluster with this initial state, on the clock of the current runtime.
    pub(super) fn cluster(&self) -> BoxFuture<'static, Result<TestCluster, TestClusterError>> {
        TestCluster::begin(&self.snapshot, &self.bare, START)
    }
}
