//! What all requests of one server share. Nothing is global: two servers in one process know nothing of each
//! other.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use watchkeeper_registry::Registry;

use crate::activity::Counts;
use crate::aggregation::Aggregator;
use crate::audit::Audit;
use crate::catalog::{Catalog, ServedResource};
use crate::faults::Faults;
use crate::flow_control::FlowControl;
#[cfg(feature = "testing")]
use crate::handlers::testing::Testing;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::service_account_keys::ServiceAccountKeys;
use crate::tokens::Tokens;
use crate::unwritten::Unwritten;
use crate::write_log::WriteLog;
use watchkeeper_registry::User;

/// The key that health checks read, as kube-apiserver does.
const HEALTH_KEY: &str = "/registry/health";
/// How long storage may take to answer: 2 s, as kube-apiserver asks etcd.
const HEALTH_PATIENCE: Duration = Duration::from_secs(2);

/// The parts of one server.
pub(crate) struct Shared {
    /// What requests mean.
    pub registry: Registry,
    /// What is served; replaced as a whole when that changes.
    pub catalog: RwLock<Arc<Catalog>>,
    /// What other servers serve.
    pub aggregator: Aggregator,
    pub tokens: Tokens,
    /// Made when it is first needed: gathering randomness takes a while.
    pub service_account_keys: OnceLock<ServiceAccountKeys>,
    /// Who issues the tokens of service accounts; others are accepted as well. Never empty.
    pub issuers: Vec<String>,
    /// The names the server answers to.
    pub hosts: Vec<String>,
    /// Where clients are told to come: `127.0.0.1:6443`.
    pub address: String,
    /// Whether faults can be asked for over the wire.
    pub debug_endpoints: bool,
    /// When the server began to serve.
    pub started: Instant,
    pub flow_control: FlowControl,
    pub unwritten: Unwritten,
    pub audit: Option<Arc<Audit>>,
    pub counts: Arc<Counts>,
    pub faults: Arc<Faults>,
    pub write_log: WriteLog,
    /// What tests may drive over HTTP.
    #[cfg(feature = "testing")]
    pub testing: Option<Testing>,
    pub metrics: Metrics,
    /// Cancelled when the server begins to shut down: no new connections, streams end.
    pub draining: CancellationToken,
    /// Everything that runs on behalf of a connection; the listener waits for it.
    pub tasks: TaskTracker,
}

impl Shared {
    /// Whom a token speaks of that this server has issued itself, for one of these audiences.
    pub(crate) async fn issued_to(&self, token: &str, audiences: &[&str]) -> Option<User> {
        let (user, _) = self.issued_for(token, audiences).await?;
        Some(user)
    }

    /// As [`Shared::issued_to`], with those of the audiences that the token is meant for, in their order.
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

    /// The keys behind tokens, made when they are first needed.
    pub(crate) fn service_account_keys(&self) -> &ServiceAccountKeys {
        self.service_account_keys.get_or_init(ServiceAccountKeys::random)
    }

    /// True if tests may move the time of this server. Its peers live in real time, so how long they may stay silent is then
    /// not limited: an hour that passes in a moment would end their connections.
    pub(crate) fn is_moved_in_time(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.testing.is_some();
        #[cfg(not(feature = "testing"))]
        false
    }

    /// Who issues tokens.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuers[0]
    }

    /// Whom tokens must be meant for that are shown to this server: its issuers, as in Kubernetes.
    pub(crate) fn audiences(&self) -> Vec<&str> {
        self.issuers.iter().map(String::as_str).collect()
    }

    /// What is served now. When custom kinds or aggregated APIs have come or
    /// gone since it was asked for last, it is put together anew.
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
        let mut catalog =
            Catalog::new(ServedResource::built_in().chain(custom.iter().map(ServedResource::custom)));
        for remote in &*self.aggregator.remotes() {
            catalog.add_remote(&remote.service, remote.documents.clone());
        }
        catalog.generation = (generation, aggregated);
        let catalog = Arc::new(catalog);
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog.clone();
        catalog
    }

    /// How the server is. Storage is well if it answers a read, whatever the answer, and would take a write.
    pub(crate) async fn health(&self) -> Health {
        let store = self.registry.store();
        let read = tokio::time::timeout(HEALTH_PATIENCE, store.get(HEALTH_KEY, None)).await;
        Health {
            storage: matches!(read, Ok(Ok(_))) && store.is_writable(),
            draining: self.draining.is_cancelled(),
        }
    }
}
