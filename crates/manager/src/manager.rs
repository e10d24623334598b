//! The builder of a manager.

use std::fmt;
use std::time::Duration;

use futures_core::Stream;
use futures_util::future::BoxFuture;
use watchkeeper_client::Client;
use watchkeeper_runtime::controller::{BoundController, BoxError};
use watchkeeper_runtime::leader::LeaderOptions;
use watchkeeper_runtime::metrics::Metrics;
use watchkeeper_runtime::recorder::{Recorder, Writer};
use watchkeeper_runtime::sharding::ShardedController;

use crate::election::{Election, identity};
use crate::error::ManagerError;
use crate::listen::Listen;
use crate::probes::Probes;
use crate::run;
use crate::runnable::{Runnable, Stop, Work};
use crate::webhook::Webhooks;

/// The time limit of a shutdown, as in controller-runtime and as Kubernetes gives a pod.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(30);

/// The manager of a process; see the [crate].
pub struct Manager {
    pub(crate) client: Client,
    pub(crate) election: Option<Election>,
    pub(crate) metrics_at: Option<Listen>,
    pub(crate) probes_at: Option<Listen>,
    pub(crate) always: Vec<Box<dyn Runnable>>,
    pub(crate) while_leading: Vec<Box<dyn Runnable>>,
    pub(crate) webhooks: Option<Webhooks>,
    pub(crate) writers: Vec<Writer>,
    pub(crate) metrics: Metrics,
    pub(crate) probes: Probes,
    pub(crate) shutdown_deadline: Duration,
}

/// Settings.
impl Manager {
    /// A manager without runnables.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            election: None,
            metrics_at: None,
            probes_at: None,
            always: Vec::new(),
            while_leading: Vec::new(),
            webhooks: None,
            writers: Vec::new(),
            metrics: Metrics::new(),
            probes: Probes::default(),
            shutdown_deadline: SHUTDOWN_DEADLINE,
        }
    }

    /// Runs controllers only while it holds the lease of this name in the client's namespace. By default no lease is
    /// needed.
    ///
    /// Requires permission to `get`, `create` and `update` leases there.
    pub fn leader(self, lease: impl Into<String>) -> Self {
        self.leader_with(LeaderOptions::new(lease, identity()))
    }

    /// Like [`leader`](Self::leader), with custom options.
    pub fn leader_with(mut self, options: LeaderOptions) -> Self {
        self.election = Some(Election::new(options));
        self
    }

    /// Serves `/metrics` for Prometheus, over plain HTTP.
    pub fn metrics(mut self, listen: impl Into<Listen>) -> Self {
        self.metrics_at = Some(listen.into());
        self
    }

    /// Serves `/healthz`, `/livez` and `/readyz` for the kubelet, over plain HTTP.
    pub fn probes(mut self, listen: impl Into<Listen>) -> Self {
        self.probes_at = Some(listen.into());
        self
    }

    /// The metrics, to add your own. Those of another library go through [`MetricsText::append`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # use watchkeeper_manager::Manager;
    /// use watchkeeper_meta::{Collect, MetricKind, MetricsText};
    ///
    /// #[derive(Default)]
    /// struct Backups(AtomicU64);
    ///
    /// impl Collect for Backups {
    ///     fn collect(&self, text: &mut MetricsText) {
    ///         text.family("database_backups_total", "Number of backups", MetricKind::Counter);
    ///         text.sample("database_backups_total", &[], self.0.load(Ordering::Relaxed));
    ///     }
    /// }
    ///
    /// # fn example(manager: &Manager) {
    /// let backups = Arc::new(Backups::default());
    /// manager.registry().add(backups.clone());
    /// # }
    /// ```
    ///
    /// [`MetricsText::append`]: watchkeeper_meta::MetricsText::append
    pub fn registry(&self) -> &Metrics {
        &self.metrics
    }

    /// Adds a check to `/healthz` and `/livez`: while it fails, the process should be restarted.
    pub fn health_check(
        mut self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.probes.add_health(name, Box::new(check));
        self
    }

    /// Adds a check to `/readyz`: while it fails, the process gets no requests.
    pub fn ready_check(
        mut self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.probes.add_ready(name, Box::new(check));
        self
    }

    /// Starts recording Events as `component`. Recorded events are written before the manager ends.
    pub fn recorder(&mut self, component: impl Into<String>) -> Recorder {
        let (recorder, writer) = Recorder::start(&self.client, component, None);
        self.writers.push(writer);
        recorder
    }

    /// Sets the time limit of a shutdown; then what still runs is dropped.
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }
}

/// Runnables.
impl Manager {
    /// Runs a controller while leading: `Controller::<Website>::of(&factory).reconcile(…)`. Its informers count for
    /// readiness, and its queue and reconciles are measured.
    pub fn controller(self, controller: BoundController) -> Self {
        self.run_while_leading(controller)
    }

    /// Runs a [sharded controller](watchkeeper_runtime::sharding) in every process, leading or not: the Leases of its
    /// shards say which process does what. A shutdown hands its shards over. The process is ready without them; the
    /// metric `sharded_controller_shards_held` tells how many it has. The queues and reconciles of its shards are
    /// measured together, under its name.
    pub fn sharded(self, controller: ShardedController) -> Self {
        self.run_always(controller)
    }

    /// Runs work while leading, for work that only one process may do.
    ///
    /// ```no_run
    /// # async fn example(manager: watchkeeper_manager::Manager) {
    /// manager.while_leading("tidy", |stop| async move {
    ///     stop.requested().await;
    ///     Ok::<_, std::io::Error>(())
    /// });
    /// # }
    /// ```
    pub fn while_leading<F, W, E>(self, name: impl Into<String>, work: F) -> Self
    where
        F: FnOnce(Stop) -> W + Send + 'static,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let name = name.into();
        self.run_while_leading(Work { name, work })
    }

    /// Runs work in every process, leading or not.
    pub fn always<F, W, E>(self, name: impl Into<String>, work: F) -> Self
    where
        F: FnOnce(Stop) -> W + Send + 'static,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let name = name.into();
        self.run_always(Work { name, work })
    }

    /// Like [`while_leading`](Self::while_leading), for a [`Runnable`] with informers and metrics.
    pub fn run_while_leading(mut self, mut runnable: impl Runnable) -> Self {
        self.take_note_of(&mut runnable);
        self.while_leading.push(Box::new(runnable));
        self
    }

    /// Like [`always`](Self::always), for a [`Runnable`] with informers and metrics.
    pub fn run_always(mut self, mut runnable: impl Runnable) -> Self {
        self.take_note_of(&mut runnable);
        self.always.push(Box::new(runnable));
        self
    }

    /// Serves webhooks, leading or not.
    pub fn webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    fn take_note_of(&mut self, runnable: &mut impl Runnable) {
        for (name, health) in runnable.informers() {
            self.probes.add_informer(&name, health);
        }
        runnable.measure(&self.metrics);
    }

    /// Runs everything. The first item of `signals` starts a shutdown, the second ends it at once; [`signals()`]
    /// returns those of the system, [`when`](crate::when()) makes one of a future.
    ///
    /// [`signals()`]: crate::signals()
    pub fn run_until(
        self,
        signals: impl Stream<Item = ()> + Send + 'static,
    ) -> BoxFuture<'static, Result<(), ManagerError>> {
        Box::pin(run::run(self, Box::pin(signals)))
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("always", &self.always)
            .field("while_leading", &self.while_leading)
            .finish_non_exhaustive()
    }
}
