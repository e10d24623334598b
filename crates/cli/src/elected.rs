//! The simulator of a cluster with several servers: one of them runs it, and another one when that is gone.
//!
//! Two simulators would schedule every pod twice. The lease `watchkeeper-simulator` in `kube-system` decides, as for
//! Kubernetes' controllers.

use tokio::sync::watch;
use tokio::task::JoinHandle;
use watchkeeper_client::Client;
use watchkeeper_meta::Resource;
use watchkeeper_runtime::leader::{LeaderElector, LeaderOptions, Led};
use watchkeeper_simulator::{Simulator, SimulatorOptions};

const LEASE: &str = "watchkeeper-simulator";
const NAMESPACE: &str = "kube-system";

/// A candidate in the election until it is stopped.
pub(crate) struct Elected {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Elected {
    /// Starts a candidate; `identity` must be unique among the servers.
    pub(crate) fn start(client: Client, options: SimulatorOptions, identity: String) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(run(client, options, identity, stopped));
        Self { stop, task }
    }

    /// Stops and waits until it has ended; another server may then start at once.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        // A panic has ended it as well.
        let _ = self.task.await;
    }
}

async fn run(
    client: Client,
    options: SimulatorOptions,
    identity: String,
    mut stopped: watch::Receiver<bool>,
) {
    let leases = client
        .dynamic(Resource::namespaced(
            "coordination.k8s.io",
            "v1",
            "Lease",
            "leases",
        ))
        .namespace(NAMESPACE);
    let Ok(mut elector) = LeaderElector::new(leases, LeaderOptions::new(LEASE, identity)) else {
        return;
    };
    loop {
        let mut stopping = stopped.clone();
        let work = async || {
            tracing::info!("this server runs the simulator");
            let simulator = Simulator::start(client.clone(), options.clone());
            let _ = stopping.wait_for(|stop| *stop).await;
            simulator.stop().await;
        };
        let shutdown = async { drop(stopped.wait_for(|stop| *stop).await) };
        match elector.lead(work, shutdown).await {
            Led::Finished(()) | Led::Left => return,
            Led::Lost => tracing::warn!("another server runs the simulator now"),
        }
    }
}
