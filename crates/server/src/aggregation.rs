//! Aggregated APIs: group versions that another server serves, found by an APIService object.
//!
//! ```text
//! APIService ▶ aggregation_controller: where is its service, does it answer ▶ Remotes ▶ catalog (discovery, OpenAPI)
//!                                                                    ▲
//! request ▶ filters (who asks, may they) ▶ handlers::aggregated ─────┘ ▶ Backend ▶ the other server
//! ```
//!
//! The other server is told who asks by headers (`X-Remote-User` and its companions). It believes them because they come
//! over a connection with the front-proxy client certificate, whose authority is published in
//! `kube-system/extension-apiserver-authentication`.
//!
//! Connections are HTTP/1.1. `X-Forwarded-For` is not sent.

mod backend;
mod check;
mod discovery;
mod openapi;
mod priority;
pub(crate) mod proxy_identity;
mod remote_user;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use serde_json::Value;
use watchkeeper_registry::User;

pub(crate) use self::backend::{Backend, OutgoingBody};
pub(crate) use self::check::{Availability, Checked, check};
pub(crate) use self::openapi::merge_v2;
pub(crate) use self::priority::{group_priority, version_priority};
pub(crate) use self::proxy_identity::ProxyIdentity;
pub(crate) use self::remote_user::identify;

/// The group versions that other servers serve.
#[derive(Default)]
pub(crate) struct Aggregator {
    remotes: RwLock<Arc<Vec<Remote>>>,
    /// Changes whenever discovery or OpenAPI do.
    generation: AtomicU64,
    identity: OnceLock<Option<ProxyIdentity>>,
}

/// A group version that another server serves, as it was last looked at.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) service: RemoteService,
    pub(crate) backend: Arc<Backend>,
    /// Where to connect; empty if that is not known.
    pub(crate) addresses: Vec<String>,
    pub(crate) is_available: bool,
    pub(crate) documents: Arc<RemoteDocuments>,
}

/// What the spec of an APIService says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteService {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    /// The authorities that may have signed its certificate, PEM.
    pub(crate) authorities: Option<Vec<u8>>,
    pub(crate) trusts_everyone: bool,
}

/// What the other server says of itself, as it was last fetched.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RemoteDocuments {
    /// The resources, as aggregated discovery lists them.
    pub(crate) resources: Vec<Value>,
    /// False if the last attempt to fetch them failed, or there was none.
    pub(crate) is_current: bool,
    /// Its OpenAPI v2 document.
    pub(crate) openapi_v2: Option<Arc<Value>>,
    /// Where its index says that the OpenAPI v3 document is.
    pub(crate) openapi_v3: Option<String>,
}

impl Aggregator {
    /// An aggregator with an identity that is there already.
    pub(crate) fn new(identity: Option<ProxyIdentity>) -> Self {
        let aggregator = Self::default();
        if let Some(identity) = identity {
            let _ = aggregator.identity.set(Some(identity));
        }
        aggregator
    }

    /// What the server shows of itself to other servers; made when it is first needed. `None` if that failed.
    pub(crate) fn identity(&self) -> Option<&ProxyIdentity> {
        let make = || {
            let made = ProxyIdentity::random();
            made.inspect_err(|error| tracing::error!(%error, "no front-proxy certificate"))
                .ok()
        };
        self.identity.get_or_init(make).as_ref()
    }

    /// Another number whenever discovery or OpenAPI have changed.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// All group versions that other servers serve.
    pub(crate) fn remotes(&self) -> Arc<Vec<Remote>> {
        self.remotes.read().clone()
    }

    /// The server of a group version, if it is another one.
    pub(crate) fn find(&self, group: &str, version: &str) -> Option<Remote> {
        let remotes = self.remotes();
        let mut remotes = remotes.iter();
        let is_it = |it: &&Remote| it.service.group == group && it.service.version == version;
        remotes.find(is_it).cloned()
    }

    /// Puts other group versions into force.
    pub(crate) fn publish(&self, remotes: Vec<Remote>) {
        let shown = |it: &Remote| (it.service.clone(), it.documents.clone());
        let mut known = self.remotes.write();
        let is_same = known.iter().map(shown).eq(remotes.iter().map(shown));
        *known = Arc::new(remotes);
        if !is_same {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// As whom the server itself asks another one.
fn aggregator_user() -> User {
    User {
        name: "system:kube-aggregator".to_owned(),
        groups: vec![watchkeeper_registry::user::MASTERS.to_owned()],
        ..User::default()
    }
}
