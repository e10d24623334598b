//! The state shared by all requests of one server. Nothing is global: two servers in one process are independent.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use watchkeeper_registry::Registry;

use crate::activity::Counts;
use crate::aggregation::Aggregator;
use crate::audit::Audit;
use crate::catalog::Catalog;
use crate::faults::Faults;
use crate::flow_control::FlowControl;
#[cfg(feature = "testing")]
use crate::handlers::testing::Testing;
use crate::health::Health;
use crate::impersonate::LastModes;
use crate::metrics::Metrics;
use crate::service_account_keys::ServiceAccountKeys;
use crate::tokens::Tokens;
use crate::unwritten::Unwritten;
use crate::write_log::WriteLog;
use watchkeeper_registry::User;

/// The key read by health checks, as in kube-apiserver.
const HEALTH_KEY: &str = "/registry/health";
/// The time limit of a storage check: 2 s, as in kube-apiserver.
const HEALTH_PATIENCE: Duration = Duration::from_secs(2);

/// The parts of one server.
pub(crate) struct Shared {
    /// The registry.
    pub registry: Registry,
    /// The served resources; replaced as a whole when they change.
    pub catalog: RwLock<Arc<Catalog>>,
    /// The aggregated APIs.
    pub aggregator: Aggregator,
    pub tokens: Tokens,
    /// Generated on first use: collecting randomness takes a while.
    pub service_account_keys: OnceLock<ServiceAccountKeys>,
    /// The issuers of service account tokens: the first issues, all are accepted. Never empty.
    pub issuers: Vec<String>,
    /// The host names of the server.
    pub hosts: Vec<String>,
    /// The address announced to clients: `127.0.0.1:6443`.
    pub address: String,
    /// True if faults can be injected over HTTP.
    pub debug_endpoints: bool,
    /// The start of the server.
    pub started: Instant,
    pub flow_control: FlowControl,
    pub impersonation_modes: LastModes,
    pub unwritten: Unwritten,
    pub audit: Option<Arc<Audit>>,
    pub counts: Arc<Counts>,
    pub faults: Arc<Faults>,
    pub write_log: WriteLog,
    /// The state of the testing API.
    #[cfg(feature = "testing")]
    pub testing: Option<Testing>,
    pub metrics: Metrics,
    /// Cancelled when the server begins to shut down: new connections are refused. See [`Shared::drain`].
    pub draining: CancellationToken,
    /// All tasks of connections; the listener waits for them.
    pub tasks: TaskTracker,
}

impl Shared {
    /// Begins to shut down.
    pub(crate) fn drain(&self) {
        self.draining.cancel();
        self.faults.end_streams();
    }

    /// The user of a token that this server issued for one of these audiences.
    pub(crate) async fn issued_to(&self, token: &str, audiences: &[&str]) -> Option<User> {
        let (user, _) = self.issued_for(token, audiences).await?;
        Some(user)
    }

    /// Like [`Shared::issued_to`], with the audiences that match, in order.
    pub(crate) async fn issued_for<'a>(
        &self,
        token: &str,
        audiences: &[&'a str],
    ) -> Option<(User, Vec<&'a str>)> {
        let now = self.registry.clock().now().seconds;
        let keys = self.service_account_keys.get()?;
        let (claims, meant) = keys.claims(token, &self.issuers, audiences, now)?;
        let user = self.registry.token_holder(&claims).await?;
        Some((user, meant))
    }

    /// The keys of tokens, generated on first use.
    pub(crate) fn service_account_keys(&self) -> &ServiceAccountKeys {
        self.service_account_keys.get_or_init(ServiceAccountKeys::random)
    }

    /// True if tests may move the clock. Peers live in real time, so their silence limits are then disabled: an hour
    /// that passes in a moment would close their connections.
    pub(crate) fn has_movable_clock(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.testing.is_some();
        #[cfg(not(feature = "testing"))]
        false
    }

    /// The issuer of tokens.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuers[0]
    }

    /// The accepted audiences of tokens: the issuers, as in Kubernetes.
    pub(crate) fn audiences(&self) -> Vec<&str> {
        self.issuers.iter().map(String::as_str).collect()
    }

    /// The current catalog; rebuilt if custom kinds or aggregated APIs have changed.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let catalog = self
            .catalog
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let aggregated = self.aggregator.generation();
        if catalog.generation == (self.registry.custom_generation(), aggregated) {
            return catalog;
        }
        let (generation, custom) = self.registry.custom_definitions();
        let mut catalog = Catalog::with_custom(&catalog, &custom);
        for remote in &*self.aggregator.remotes() {
            catalog.add_remote(&remote.service, remote.documents.clone());
        }
        catalog.generation = (generation, aggregated);
        let catalog = Arc::new(catalog);
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog.clone();
        catalog
    }

    /// The health of the server. Storage is healthy if a read is answered, with any result, and a write would be
    /// accepted.
    pub(crate) async fn health(&self) -> Health {
        let store = self.registry.store();
        let read = tokio::time::timeout(HEALTH_PATIENCE, store.get(HEALTH_KEY, None)).await;
        Health {
            storage: matches!(read, Ok(Ok(_))) && store.is_writable(),
            draining: self.draining.is_cancelled(),
        }
    }
}
