//! Webhooks: a TLS server for admission and conversion.
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

/// Answers a review, or returns the reason it cannot be read.
type Route = Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// Webhooks to serve; see the [module](self).
pub struct Webhooks {
    listen: Listen,
    certificates: Certificates,
    routes: BTreeMap<String, Route>,
    bundles: Bundles,
}

/// A server that is ready to run.
pub(crate) struct Serving {
    /// Fails while API servers cannot trust it.
    pub(crate) readiness: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    pub(crate) served: BoxFuture<'static, ()>,
}

impl Webhooks {
    /// A server at this address, with these certificates.
    pub fn new(listen: impl Into<Listen>, certificates: Certificates) -> Self {
        Self {
            listen: listen.into(),
            certificates,
            routes: BTreeMap::new(),
            bundles: Bundles::default(),
        }
    }

    /// Adds a validating webhook at this path: `Ok(())` or warnings allow the write, an error denies it.
    ///
    /// A write whose object does not decode is denied with 400, without calling the handler.
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

    /// Adds a mutating webhook at this path: the handler gets the object and returns it changed. The response is a
    /// JSON patch with only the changes; fields unknown to the struct stay.
    ///
    /// A write without an object, such as a delete, is allowed without calling the handler. `request.object` is
    /// `None`, because the handler gets the object separately.
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

    /// Adds a conversion webhook for the versions of a custom kind.
    pub fn convert(self, path: impl Into<String>, conversions: Conversions) -> Self {
        self.route(path, conversion::converting(conversions))
    }

    /// Keeps the CA bundle of all webhooks in this ValidatingWebhookConfiguration up to date. Requires permission to
    /// `get` and `update` it.
    pub fn validating_configuration(mut self, name: impl Into<String>) -> Self {
        self.bundles.add_validating(name.into());
        self
    }

    /// The same for a MutatingWebhookConfiguration.
    pub fn mutating_configuration(mut self, name: impl Into<String>) -> Self {
        self.bundles.add_mutating(name.into());
        self
    }

    /// The same for the conversion webhook of a CustomResourceDefinition.
    pub fn conversion_of(mut self, definition: impl Into<String>) -> Self {
        self.bundles.add_conversion(definition.into());
        self
    }

    fn route(mut self, path: impl Into<String>, route: Route) -> Self {
        self.routes.insert(path.into(), route);
        self
    }

    /// Gets a certificate and publishes its CA bundle, before the first connection is accepted.
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
