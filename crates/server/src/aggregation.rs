//! Aggregated APIs: group versions of another API server, registered by an APIService object.
//!
//! ```text
//! APIService ▶ aggregation_controller: resolves and checks its service ▶ Remotes ▶ catalog (discovery, OpenAPI)
//!                                                                    ▲
//! request ▶ filters ▶ handlers::aggregated ─────┘ ▶ Backend ▶ the other server
//! ```
//!
//! The other server receives the user in headers (`X-Remote-User` and others). It trusts them because they come over
//! a connection with the front-proxy client certificate, whose authority is published in
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

/// The group versions of other servers.
#[derive(Default)]
pub(crate) struct Aggregator {
    remotes: RwLock<Arc<Vec<Remote>>>,
    /// Changes with discovery and OpenAPI.
    generation: AtomicU64,
    identity: OnceLock<Option<ProxyIdentity>>,
}

/// A group version of another server, as last checked.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) service: RemoteService,
    pub(crate) backend: Arc<Backend>,
    /// The addresses to connect to; empty if unknown.
    pub(crate) addresses: Vec<String>,
    pub(crate) is_available: bool,
    pub(crate) documents: Arc<RemoteDocuments>,
}

/// The spec of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteService {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    /// The certificate authorities of its server certificate, PEM.
    pub(crate) authorities: Option<Vec<u8>>,
    pub(crate) trusts_everyone: bool,
}

/// The documents of another server, as last fetched.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RemoteDocuments {
    /// The resources, as in aggregated discovery.
    pub(crate) resources: Vec<Value>,
    /// False if they could not be fetched, or not yet.
    pub(crate) is_current: bool,
    /// Its OpenAPI v2 document.
    pub(crate) openapi_v2: Option<Arc<Value>>,
    /// The path of its OpenAPI v3 document, from its index.
    pub(crate) openapi_v3: Option<String>,
}

impl Aggregator {
    /// An aggregator with an existing identity.
    pub(crate) fn new(identity: Option<ProxyIdentity>) -> Self {
        let aggregator = Self::default();
        if let Some(identity) = identity {
            let _ = aggregator.identity.set(Some(identity));
        }
        aggregator
    }

    /// The front-proxy certificate, created on first use. `None` if that failed.
    pub(crate) fn identity(&self) -> Option<&ProxyIdentity> {
        let make = || {
            let made = ProxyIdentity::random();
            made.inspect_err(|error| tracing::error!(%error, "no front-proxy certificate"))
                .ok()
        };
        self.identity.get_or_init(make).as_ref()
    }

    /// A number that changes with discovery and OpenAPI.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// All group versions of other servers.
    pub(crate) fn remotes(&self) -> Arc<Vec<Remote>> {
        self.remotes.read().clone()
    }

    /// The server of a group version, if it is not this one.
    pub(crate) fn find(&self, group: &str, version: &str) -> Option<Remote> {
        let remotes = self.remotes();
        let mut remotes = remotes.iter();
        let is_it = |it: &&Remote| it.service.group == group && it.service.version == version;
        remotes.find(is_it).cloned()
    }

    /// Replaces the group versions.
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

/// The user of this server's own requests to other servers.
fn aggregator_user() -> User {
    User {
        name: "system:kube-aggregator".to_owned(),
        groups: vec![watchkeeper_registry::user::MASTERS.to_owned()],
        ..User::default()
    }
}
