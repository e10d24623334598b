//! Nodes and controllers for an embedded cluster.
//!
//! An API server stores desired state; controllers act on it. This crate simulates the rest of a control plane: nodes
//! on which pods "run", and the usual controllers. All of it is written with the same informers, queues and
//! controllers that users have, and talks to the server like any client, so it works with a remote server as well.
//!
//! ```no_run
//! use watchkeeper_client::Client;
//! use watchkeeper_simulator::{Simulator, SimulatorOptions};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::from_environment()?;
//! let options = SimulatorOptions { nodes: 3, ..SimulatorOptions::default() };
//! let simulator = Simulator::start(client, options);
//! // A Deployment that somebody creates now gets its pods, and they become Running.
//! simulator.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! | part | function |
//! |---|---|
//! | nodes | registers nodes, keeps all nodes Ready and renews their leases |
//! | stages | takes objects through the stages of a file, in the format of KWOK, instead of the parts above and below |
//! | scheduler | binds pods to nodes by requests, taints, affinity and spreading, and reports why it cannot |
//! | kubelet | takes pods and their init containers from Pending to Running, and to their end |
//! | taint eviction | deletes pods from nodes whose `NoExecute` taints they do not tolerate |
//! | volumes | provisions a volume for every claim, and reclaims it |
//! | replica sets | keeps the desired number of pods; also for replication controllers |
//! | deployments | rolling updates |
//! | stateful sets | pods with stable names and claims, in order |
//! | daemon sets | a pod on every matching node |
//! | jobs | run pods to completion and count each once |
//! | cron jobs | create jobs on a schedule, in its time zone |
//! | metrics | simulated usage of pods and nodes, for `kubectl top`; optional |
//! | autoscalers | scale workloads by simulated usage |
//! | endpoints | EndpointSlices and Endpoints of services |
//! | quotas | usage of resource quotas |
//! | disruption budgets | the number of pods that may be evicted |
//! | namespaces | deletes the content of deleted namespaces |
//! | garbage | garbage collection: background, foreground and orphaning |
//! | accounts | creates the service account and root certificate of every namespace |
//! | certificates | approves the requests of kubelets, signs approved requests, deletes old ones |
//! | cluster roles | aggregates cluster roles |
//! | policies | type-checks the expressions of validating admission policies |
//!
//! Annotations on a pod, or in its template, control what it does:
//!
//! | annotation | effect |
//! |---|---|
//! | `simulator.watchkeeper/exit-code: "1"` | its containers end with this code, and are restarted according to its policy |
//! | `simulator.watchkeeper/run-seconds: "0.5"` | its run time |
//! | `simulator.watchkeeper/ready: "false"` | it runs but is not ready |
//! | `simulator.watchkeeper/cpu-usage: "250m"` | CPU usage of each container |
//! | `simulator.watchkeeper/memory-usage: "64Mi"` | memory usage of each container |
//!
//! Failures are described by a [`scenario`]: zone outages, flapping nodes, slow image pulls, crash loops, preemption.
//!
//! Without annotations, simple commands are simulated: `sleep 30`, `false`, `sh -c "sleep 5; exit 3"`.

mod accounts;
mod autoscalers;
mod certificates;
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
mod policies;
mod quotas;
mod replica_sets;
mod revisions;
mod rollout;
pub mod scenario;
mod scheduler;
mod stages;
mod stateful_sets;
mod taint_eviction;
mod time;
mod usage;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use watchkeeper_client::Client;

use crate::cluster::Cluster;
use crate::scenario::Scenario;

pub use crate::certificates::authority::{SigningAuthority, SigningAuthorityError};
pub use crate::stages::{Stage, StageError};

/// Options of the simulated cluster.
#[derive(Clone, Debug)]
pub struct SimulatorOptions {
    /// The number of nodes.
    pub nodes: usize,
    /// The time to create a pod's containers.
    pub container_creation: Duration,
    /// The run time of a pod that runs to completion.
    pub run_time: Duration,
    /// The time a deleted pod takes to stop, unless its grace period is shorter.
    pub stop_time: Duration,
    /// The delay before an ended container is restarted; it doubles each time.
    pub restart_backoff: Duration,
    /// The server's CA certificates, PEM, for `kube-root-ca.crt` in every namespace. Empty without.
    pub root_ca: Option<String>,
    /// The authority that signs approved requests for certificates. Without one they stay approved.
    pub signing_authority: Option<Arc<SigningAuthority>>,
    /// True to serve `metrics.k8s.io`, so that `kubectl top` works. It needs two custom resource definitions, and an
    /// object for each pod and node.
    pub metrics: bool,
    /// Stages in KWOK's format. The stages of a kind replace its built-in simulation; see
    /// [`scenario::Script::read`].
    pub stages: Vec<Stage>,
    /// The failures to inject, with their times.
    pub scenario: Scenario,
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
            signing_authority: None,
            metrics: false,
            stages: Vec::new(),
            scenario: Scenario::default(),
        }
    }
}

/// A running simulation. Dropping it stops it without waiting.
pub struct Simulator {
    tasks: JoinSet<()>,
    cluster: Cluster,
}

impl Simulator {
    /// Starts all controllers and nodes.
    pub fn start(client: Client, options: SimulatorOptions) -> Self {
        let cluster = Cluster::new(client);
        let (root_ca, has_metrics) = (options.root_ca.clone(), options.metrics);
        let authority = options.signing_authority.clone();
        let staged = stages::staged(&options.stages);
        let tasks = [
            nodes::run(&cluster, &options),
            scheduler::run(&cluster),
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
            certificates::run(&cluster, authority),
            cluster_roles::run(&cluster),
            policies::run(&cluster),
            namespaces::run(&cluster),
            garbage::run(&cluster),
        ];
        let mut tasks: JoinSet<()> = tasks.into_iter().collect();
        for stage in stages::run(&cluster, &options.stages) {
            tasks.spawn(stage);
        }
        if !staged.contains(&kinds::pods()) {
            tasks.spawn(kubelet::run(&cluster, options));
        }
        if has_metrics {
            tasks.spawn(metrics::run(&cluster));
        }
        Self { tasks, cluster }
    }

    /// Stops everything and waits until it has ended.
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
