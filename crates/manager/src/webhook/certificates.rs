//! The certificates of webhooks, and their CA bundle.
//!
//! They are either read from files that are maintained externally, again for every connection, or [made
//! here](self_made) and kept in a Secret. In both cases a new certificate is used only after its bundle has been
//! written to the webhook configurations.

mod files;
mod issue;
mod self_made;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use watchkeeper_client::Client;
use watchkeeper_meta::Collect;

use self::files::Files;
use self::self_made::SelfMade;
use super::bundle::Bundles;
use super::metrics::CertificatesMetric;
use crate::http_server::Encryption;

/// The interval of checks. A check is a handful of requests: once a minute is soon enough after a configuration was
/// applied again, and no burden.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(60);

/// The time a starting process retries to read its Secret while the server cannot answer. After it the process ends.
const START_PATIENCE: Duration = Duration::from_secs(60);
const START_PAUSE: Duration = Duration::from_secs(1);

/// The source of certificates.
#[derive(Clone, Debug)]
pub struct Certificates(Source);

#[derive(Clone, Debug)]
enum Source {
    Files(Files),
    SelfMade { secret: String, names: Vec<String> },
}

impl Certificates {
    /// Reads two PEM files: a certificate with its chain, and its key. Replaced files are picked up; files that do
    /// not match are ignored until they do.
    ///
    /// cert-manager mounts such files, and writes the CA bundle itself. Otherwise see
    /// [`authority_file`](Self::authority_file).
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self(Source::Files(Files {
            certificate: certificate.into(),
            key: key.into(),
            authority: None,
        }))
    }

    /// The CA bundle of [`files`](Self::files), to be written into the named configurations.
    pub fn authority_file(mut self, path: impl Into<PathBuf>) -> Self {
        if let Source::Files(files) = &mut self.0 {
            files.authority = Some(path.into());
        }
        self
    }

    /// Makes certificates for these names: `service.namespace.svc`, as API servers call it. They are replaced before
    /// they expire.
    ///
    /// They are kept in a Secret of this name in the client's namespace, so that all replicas of a Service share one
    /// bundle. Requires permission to `get`, `create` and `update` it.
    pub fn self_made<N: Into<String>>(secret: impl Into<String>, names: impl IntoIterator<Item = N>) -> Self {
        Self(Source::SelfMade {
            secret: secret.into(),
            names: names.into_iter().map(Into::into).collect(),
        })
    }
}

/// The reason webhooks have no certificate.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The PEM has no certificate, or no key.
    #[error("not a certificate and its key in PEM: {0}")]
    Pem(String),
    /// A certificate could not be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// The certificate and the key cannot be used.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// The Secret cannot be read or written.
    #[error("cannot use Secret {name}")]
    Secret {
        /// Its name.
        name: String,
        /// The error.
        source: Box<watchkeeper_client::Error>,
    },
}

impl WebhookError {
    /// The API server could not answer; it may a little later.
    fn is_transient(&self) -> bool {
        matches!(self, Self::Secret { source, .. } if source.is_transient())
    }
}

/// A certificate, its key and its CA bundle, all PEM.
#[derive(Clone, PartialEq, Eq)]
struct Material {
    certificate: String,
    key: String,
    /// `None` if another program writes it.
    bundle: Option<String>,
}

impl Material {
    fn acceptor(&self) -> Result<TlsAcceptor, WebhookError> {
        let broken = |error: rustls::pki_types::pem::Error| WebhookError::Pem(error.to_string());
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(broken)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(broken)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        // As Kubernetes' own webhooks: HTTP/2 has more attack surface than use here.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The certificate in use.
pub(super) struct Keeper {
    client: Client,
    source: Open,
    bundles: Arc<Bundles>,
    current: ArcSwapOption<Current>,
    /// Keeps two connections from replacing it twice.
    renewing: tokio::sync::Mutex<()>,
    metrics: Arc<CertificatesMetric>,
}

enum Open {
    Files(Files),
    SelfMade(SelfMade),
}

struct Current {
    material: Material,
    acceptor: TlsAcceptor,
}

impl Certificates {
    /// Gets the first certificate, and publishes its bundle.
    pub(super) async fn open(
        self,
        client: &Client,
        bundles: Arc<Bundles>,
    ) -> Result<Arc<Keeper>, WebhookError> {
        let source = match self.0 {
            Source::Files(files) => Open::Files(files),
            Source::SelfMade { secret, names } => Open::SelfMade(SelfMade::new(client, secret, names)),
        };
        let keeper = Arc::new(Keeper {
            client: client.clone(),
            source,
            bundles,
            current: ArcSwapOption::empty(),
            renewing: tokio::sync::Mutex::default(),
            metrics: Arc::default(),
        });
        keeper.begin().await?;
        keeper.write_bundles().await;
        Ok(keeper)
    }
}

impl Keeper {
    pub(super) fn metrics(&self) -> Arc<dyn Collect> {
        self.metrics.clone()
    }

    /// Gets the first certificate. One lost request must not end a process that has just begun.
    async fn begin(&self) -> Result<(), WebhookError> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            match self.renew().await {
                Err(error) if error.is_transient() && Instant::now() < deadline => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "asks again for the certificate"
                    );
                    tokio::time::sleep(START_PAUSE).await;
                }
                renewed => return renewed,
            }
        }
    }

    /// The TLS acceptor of a new connection: files may have changed since the last.
    pub(super) fn encryption(self: &Arc<Self>) -> Encryption {
        let keeper = self.clone();
        Arc::new(move || {
            let keeper = keeper.clone();
            async move {
                if matches!(keeper.source, Open::Files(_)) {
                    keeper.renew_or_warn().await;
                }
                let current = keeper.current.load();
                current.as_ref().map(|current| current.acceptor.clone())
            }
            .boxed()
        })
    }

    /// Replaces certificates before they expire, and restores bundles that others removed.
    pub(super) async fn keep_up(self: Arc<Self>) {
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            self.renew_or_warn().await;
            self.write_bundles().await;
        }
    }

    async fn renew_or_warn(&self) {
        if let Err(error) = self.renew().await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "the certificate is not replaced");
        }
    }

    /// Uses the current certificate of the source, if it has changed.
    async fn renew(&self) -> Result<(), WebhookError> {
        let _alone = self.renewing.lock().await;
        let material = match &self.source {
            Open::Files(files) => files.read().await,
            Open::SelfMade(made) => made.obtain().await,
        };
        let renewed = match material {
            Ok(material) => self.use_now(material).await,
            Err(error) => Err(error),
        };
        self.metrics.read(renewed.is_ok());
        renewed
    }

    async fn use_now(&self, material: Material) -> Result<(), WebhookError> {
        let is_used = |current: &Arc<Current>| current.material == material;
        if self.current.load().as_ref().is_some_and(is_used) {
            return Ok(());
        }
        let acceptor = material.acceptor()?;
        // Clients must know the authority before they meet the new certificate.
        if let Some(bundle) = &material.bundle {
            self.bundles.write(&self.client, bundle).await;
        }
        self.current.store(Some(Arc::new(Current { material, acceptor })));
        Ok(())
    }

    async fn write_bundles(&self) {
        let current = self.current.load_full();
        if let Some(bundle) = current
            .as_ref()
            .and_then(|current| current.material.bundle.as_ref())
        {
            self.bundles.write(&self.client, bundle).await;
        }
    }
}
