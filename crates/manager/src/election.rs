//! Leader election of the manager: its identity, its lease, and whether it holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Client;
use watchkeeper_meta::{Collect, MetricKind, MetricsText, Resource};
use watchkeeper_runtime::leader::{LeaderElector, LeaderOptions, LeaderOptionsError, Led};

/// client-go's name of the metric.
const METRIC: &str = "leader_election_master_status";

/// The options of an election.
pub(crate) struct Election {
    pub(crate) options: LeaderOptions,
    pub(crate) leads: Arc<LeadsMetric>,
}

/// The metric of whether this process leads.
pub(crate) struct LeadsMetric {
    lease: String,
    leads: AtomicBool,
}

/// A running candidate and its stop signals.
pub(crate) struct Candidate {
    elector: LeaderElector,
    lease: String,
    leads: Arc<LeadsMetric>,
}

impl Election {
    pub(crate) fn new(options: LeaderOptions) -> Self {
        let leads = Arc::new(LeadsMetric {
            lease: options.lease.clone(),
            leads: AtomicBool::new(false),
        });
        Self { options, leads }
    }

    pub(crate) fn candidate(self, client: &Client) -> Result<Candidate, LeaderOptionsError> {
        let leases = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
        let leases = client.dynamic(leases).default_namespace();
        Ok(Candidate {
            lease: self.options.lease.clone(),
            elector: LeaderElector::new(leases, self.options)?,
            leads: self.leads,
        })
    }
}

impl Candidate {
    /// Waits for the lease until `stop`, then holds it until `release`; `won` is sent in between. Returns the name of
    /// a lease that was lost.
    pub(crate) async fn run(
        mut self,
        won: oneshot::Sender<()>,
        stop: CancellationToken,
        release: CancellationToken,
    ) -> Result<(), String> {
        let leads = &self.leads.leads;
        let work = async || {
            tracing::info!(lease = self.lease, "leads");
            leads.store(true, Ordering::Relaxed);
            let _ = won.send(());
            release.cancelled().await;
        };
        let led = self.elector.lead(work, stop.cancelled()).await;
        leads.store(false, Ordering::Relaxed);
        match led {
            Led::Finished(()) | Led::Left => Ok(()),
            Led::Lost => Err(self.lease),
        }
    }
}

impl Collect for LeadsMetric {
    fn collect(&self, text: &mut MetricsText) {
        text.family(
            METRIC,
            "1 while this process holds the lease, 0 while it waits for it",
            MetricKind::Gauge,
        );
        let leads = u8::from(self.leads.load(Ordering::Relaxed));
        text.sample(METRIC, &[("name", &self.lease)], leads);
    }
}

/// Unique per process: the host name, which is the pod's, and a random suffix.
pub(crate) fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok();
    let host = host.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host = host.as_deref().map_or("", str::trim);
    let host = if host.is_empty() { "unknown" } else { host };
    format!("{host}_{:032x}", fastrand::u128(..))
}
