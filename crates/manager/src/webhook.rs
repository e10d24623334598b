//! Webhooks: a server over TLS that answers an API server's questions about writes and versions.
//!
//! ```text
//!   API server ──▶ TLS ──▶ path ──▶ AdmissionReview  ──▶ validate, mutate
//!                                   ConversionReview ──▶ convert
//!                   ▲
//!              certificates: from files, or self-made, with the CA bundle written where API servers look
//! ```
//!
//! ```no_run
//! # use watchkeeper_client::{Client, ResourceType};
//! # use watchkeeper_manager::{Manager, signals};
//! use watchkeeper_manager::webhook::{AdmissionRequest, Certificates, Denied, Webhooks};
//!
//! # #[derive(serde::Serialize, serde::Deserialize)]
//! # struct Website { spec: WebsiteSpec }
//! # #[derive(serde::Serialize, serde::Deserialize)]
//! # struct WebsiteSpec { domain: String, replicas: Option<u32> }
//! # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let certificates = Certificates::self_made("website-webhooks", ["website-operator.web.svc"]);
//! let webhooks = Webhooks::new(([0, 0, 0, 0], 9443), certificates)
//!     .mutate("/mutate", |mut site: Website, _request| async move {
//!         site.spec.replicas.get_or_insert(1);
//!         Ok::<_, Denied>(site)
//!     })
//!     .validate("/validate", |request: AdmissionRequest<Website>| async move {
//!         match request.object {
//!             Some(site) if site.spec.domain.is_empty() => Err(Denied::invalid("spec.domain: required")),
//!             _ => Ok(()),
//!         }
//!     })
//!     .mutating_configuration("websites")
//!     .validating_configuration("websites");
//! Manager::new(client).webhooks(webhooks).run_until(signals()).await?;
//! # Ok(())
//! # }
//! ```

mod admission;
mod bundle;
mod certificates;
mod clock;
mod conversion;
mod metrics;
mod mutation;
mod service;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Client;
use watchkeeper_runtime::metrics::Metrics;

pub use admission::{AdmissionRequest, Allowed, Changed, Denied, Kind, Operation, ResourceName, UserInfo};
pub use certificates::{Certificates, WebhookError};
pub use conversion::Conversions;

use self::bundle::Bundles;
use self::service::Service;
use crate::error::ManagerError;
use crate::http_server::serve;
use crate::listen::Listen;

/// Answers one review with another, or says why it cannot be read.
type Route = Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// Webhooks to be served; see the [module](self).
pub struct Webhooks {
    listen: Listen,
    certificates: Certificates,
    routes: BTreeMap<String, Route>,
    bundles: Bundles,
}

/// A server that is ready to run.
pub(crate) struct Serving {
    /// Whether API servers can trust it.
    pub(crate) readiness: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    pub(crate) served: BoxFuture<'static, ()>,
}

impl Webhooks {
    /// Listens there, with these certificates.
    pub fn new(listen: impl Into<Listen>, certificates: Certificates) -> Self {
        Self {
            listen: listen.into(),
            certificates,
            routes: BTreeMap::new(),
            bundles: Bundles::default(),
        }
    }

    /// Decides about writes that are sent to this path: `Ok(())` allows them, as do warnings for the writer, and an
    /// error refuses them.
    ///
    /// A write whose object does not decode is refused with 400, before the handler is asked.
    pub fn validate<K, A, D, F, W>(self, path: impl Into<String>, handler: F) -> Self
    where
        K: DeserializeOwned + Send + 'static,
        A: Into<Allowed>,
        D: Into<Denied>,
        F: Fn(AdmissionRequest<K>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<A, D>> + Send + 'static,
    {
        self.route(path, admission::validating(handler))
    }

    /// Changes objects that are sent to this path: the handler is given the object and returns it changed. The answer
    /// is a JSON patch with only what was changed; what the struct has no field for stays.
    ///
    /// A write without an object, such as a delete, is allowed without asking the handler. `request.object` is `None`,
    /// because the handler has the object.
    pub fn mutate<K, C, D, F, W>(self, path: impl Into<String>, handler: F) -> Self
    where
        K: DeserializeOwned + Serialize + Send + 'static,
        C: Into<Changed<K>>,
        D: Into<Denied>,
        F: Fn(K, AdmissionRequest<K>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<C, D>> + Send + 'static,
    {
        self.route(path, admission::mutating(handler))
    }

    /// Converts objects of a custom kind from one version to another.
    pub fn convert(self, path: impl Into<String>, conversions: Conversions) -> Self {
        self.route(path, conversion::converting(conversions))
    }

    /// Keeps the CA bundle of every webhook in this ValidatingWebhookConfiguration as it should be. The process needs
    /// the right to `get` and `update` it.
    pub fn validating_configuration(mut self, name: impl Into<String>) -> Self {
        self.bundles.add_validating(name.into());
        self
    }

    /// Does the same in a MutatingWebhookConfiguration.
    pub fn mutating_configuration(mut self, name: impl Into<String>) -> Self {
        self.bundles.add_mutating(name.into());
        self
    }

    /// Does the same in the conversion webhook of a CustomResourceDefinition.
    pub fn conversion_of(mut self, definition: impl Into<String>) -> Self {
        self.bundles.add_conversion(definition.into());
        self
    }

    fn route(mut self, path: impl Into<String>, route: Route) -> Self {
        self.routes.insert(path.into(), route);
        self
    }

    /// Gets a certificate and makes it known, before the first connection is taken.
    pub(crate) async fn start(
        self,
        client: &Client,
        metrics: &Metrics,
        close: CancellationToken,
    ) -> Result<Serving, ManagerError> {
        let listener = self.listen.bind("webhooks").await?;
        let (certificates, bundles) = (self.certificates, Arc::new(self.bundles));
        let certificates = certificates.open(client, bundles.clone()).await?;
        metrics.add(certificates.metrics());
        let service = Service::new(self.routes);
        metrics.add(service.metrics());
        let upkeep = certificates.clone().keep_up();
        let served = serve(
            listener,
            Some(certificates.encryption()),
            service.handler(),
            close,
        );
        let served = async move {
            tokio::select! {
                () = served => {}
                () = upkeep => {}
            }
        };
        Ok(Serving {
            readiness: Box::new(move || bundles.state()),
            served: served.boxed(),
        })
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks")
            .field("listen", &self.listen)
            .field("paths", &self.routes.keys())
            .finish_non_exhaustive()
    }
}
