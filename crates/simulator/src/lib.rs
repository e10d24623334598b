//! What makes an embedded cluster live.
//!
//! An API server stores wishes; others fulfil them. This crate is those others, in small: nodes on which pods
//! "run", and the controllers people expect. All of it is written with the same informers, queues and controllers
//! that users write theirs with, and talks to the server as any client does, so it serves a remote server as well.
//!
//! | part | what it does |
//! |---|---|
//! | nodes | registers nodes, keeps all there are Ready and renews their leases |
//! | scheduler | binds pods to nodes by requests, taints, affinity and spreading, and says why it cannot |
//! | kubelet | takes pods and their init containers from Pending to Running, and to their end |
//! | taint eviction | deletes pods from nodes whose `NoExecute` taints they do not tolerate |
//! | volumes | makes up a volume for every claim, and reclaims it |
//! | replica sets | keeps as many pods as asked for; replication controllers likewise |
//! | deployments | rolls out new templates, a few pods at a time |
//! | stateful sets | pods with names and claims of their own, in order |
//! | daemon sets | a pod on every node that is meant |
//! | jobs | pods that run to their end, so many times, and are counted once |
//! | cron jobs | a job whenever the schedule says, in its time zone |
//! | metrics | what pods and nodes are said to use, for `kubectl top`; if asked for |
//! | autoscalers | as many pods as what they are said to use calls for |
//! | endpoints | where the pods of a service are, as slices and in the older form |
//! | quotas | what a namespace has taken of what it is given |
//! | disruption budgets | how many pods can be spared, so that evictions are let through or not |
//! | namespaces | empties and removes those that are deleted |
//! | garbage | removes what nobody owns any longer, in the background, in the foreground or not at all |
//! | accounts | gives every namespace its service account and certificate |
//! | cluster roles | puts roles together from those that their aggregation rules select |
//!
//! Annotations say what a pod does, on itself or in the template it comes from:
//!
//! | annotation | effect |
//! |---|---|
//! | `simulator.watchkeeper/exit-code: "1"` | its containers end with this code, and are restarted as its policy says |
//! | `simulator.watchkeeper/run-seconds: "0.5"` | how long it runs before it ends |
//! | `simulator.watchkeeper/ready: "false"` | it runs and is not ready |
//! | `simulator.watchkeeper/cpu-usage: "250m"` | how much CPU each of its containers uses, for autoscalers |
//! | `simulator.watchkeeper/memory-usage: "64Mi"` | how much memory |
//!
//! Without them, a container whose command says plainly what it does (`sleep 30`, `false`, `sh -c "sleep 5; exit 3"`) does
//! that.

mod accounts;
mod autoscalers;
mod cluster;
mod cluster_roles;
mod conditions;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod disruption_budgets;
mod endpoints;
mod events;
mod garbage;
mod item;
mod jobs;
mod kinds;
mod kubelet;
mod metrics;
mod namespaces;
mod nodes;
mod placement;
mod pod_control;
mod pods;
mod quotas;
mod replica_sets;
mod revisions;
mod rollout;
mod scheduler;
mod stateful_sets;
mod taint_eviction;
mod time;
mod usage;
mod volumes;

use std::time::Duration;

use tokio::task::JoinSet;
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
    /// How long a container that has ended waits before it is started again; twice as long each time.
    pub restart_backoff: Duration,
    /// The certificates, PEM, that pods know the server by: `kube-root-ca.crt` in every namespace. Empty without.
    pub root_ca: Option<String>,
    /// Whether `metrics.k8s.io` is served, so that `kubectl top` works. It takes two custom resource definitions, and an
    /// object for each pod and node.
    pub metrics: bool,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            container_creation: Duration::from_millis(300),
            run_time: Duration::from_secs(2),
            stop_time: Duration::from_millis(300),
            restart_backoff: Duration::from_secs(10),
            root_ca: None,
            metrics: false,
        }
    }
}

/// A running simulation. Dropping it stops it without waiting.
pub struct Simulator {
    tasks: JoinSet<()>,
    cluster: Cluster,
}

impl Simulator {
    /// Starts all controllers and nodes on a server.
    pub fn start(client: Client, options: SimulatorOptions) -> Self {
        let cluster = Cluster::new(client);
        let (root_ca, has_metrics) = (options.root_ca.clone(), options.metrics);
        let tasks = [
            nodes::run(&cluster, options.nodes),
            scheduler::run(&cluster),
            kubelet::run(&cluster, options),
            taint_eviction::run(&cluster),
            volumes::run_claims(&cluster),
            volumes::run_volumes(&cluster),
            replica_sets::run(&cluster, kinds::replica_sets()),
            replica_sets::run(&cluster, kinds::replication_controllers()),
            deployments::run(&cluster),
            stateful_sets::run(&cluster),
            daemon_sets::run(&cluster),
            jobs::run(&cluster),
            cron_jobs::run(&cluster),
            autoscalers::run(&cluster),
            endpoints::run(&cluster),
            endpoints::run_cleanup(&cluster),
            endpoints::mirror::run(&cluster),
            disruption_budgets::run(&cluster),
            quotas::run(&cluster),
            accounts::run(&cluster, root_ca),
            cluster_roles::run(&cluster),
            namespaces::run(&cluster),
            garbage::run(&cluster),
        ];
        let mut tasks: JoinSet<()> = tasks.into_iter().collect();
        if has_metrics {
            tasks.spawn(metrics::run(&cluster));
        }
        Self { tasks, cluster }
    }

    /// Stops everything and waits for it.
    pub async fn stop(mut self) {
        self.cluster.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.cluster.finish().await;
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.cluster.stop.cancel();
    }
}
