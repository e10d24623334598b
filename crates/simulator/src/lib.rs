//! What makes an embedded cluster live.
//!
//! An API server stores wishes; others fulfil them. This crate is those others, in small: nodes on which pods
//! "run", and the controllers people expect. All of it is written with the same informers, queues and controllers
//! that users write theirs with, and talks to the server as any client does, so it serves a remote server as well.
//!
//! | part | what it does |
//! |---|---|
//! | nodes | registers nodes, keeps them Ready and renews their leases |
//! | scheduler | binds pods to the node with the fewest |
//! | kubelet | takes pods from Pending to Running, and to their end |
//! | replica sets | keeps as many pods as asked for |
//! | deployments | rolls out new templates, a few pods at a time |
//! | namespaces | empties and removes those that are deleted |
//! | garbage | removes what nobody owns any longer, in the background, in the foreground or not at all |
//! | accounts | gives every namespace its service account and certificate |

mod accounts;
mod cluster;
mod deployments;
mod garbage;
mod kubelet;
mod namespaces;
mod nodes;
mod replica_sets;
mod scheduler;

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Client;

use crate::cluster::Cluster;

/// How the simulated cluster behaves.
#[derive(Clone, Debug)]
pub struct SimulatorOptions {
    /// How many nodes there are.
    pub nodes: usize,
    /// How long a pod's containers take to be created.
    pub container_creation: Duration,
    /// How long a pod that is meant to end runs.
    pub run_time: Duration,
    /// How long a deleted pod takes to stop, if its grace period is not shorter.
    pub stop_time: Duration,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            container_creation: Duration::from_millis(300),
            run_time: Duration::from_secs(2),
            stop_time: Duration::from_millis(300),
        }
    }
}

/// A running simulation. Dropping it stops it without waiting.
pub struct Simulator {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    cluster: Cluster,
}

impl Simulator {
    /// Starts all controllers and nodes on a server.
    pub fn start(client: Client, options: SimulatorOptions) -> Self {
        let stop = CancellationToken::new();
        let cluster = Cluster::new(client);
        let mut tasks = JoinSet::new();
        let mut start = |task: futures::Task| drop(tasks.spawn(task));
        start(nodes::run(cluster.clone(), options.nodes, stop.clone()));
        start(scheduler::run(cluster.clone(), stop.clone()));
        start(kubelet::run(cluster.clone(), options, stop.clone()));
        start(replica_sets::run(cluster.clone(), stop.clone()));
        start(deployments::run(cluster.clone(), stop.clone()));
        start(accounts::run(cluster.clone(), stop.clone()));
        start(namespaces::run(cluster.clone(), stop.clone()));
        start(garbage::run(cluster.clone(), stop.clone()));
        Self { stop, tasks, cluster }
    }

    /// Stops everything and waits for it.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.cluster.stop().await;
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

mod futures {
    use std::pin::Pin;

    /// Something that runs until it is stopped.
    pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
}
