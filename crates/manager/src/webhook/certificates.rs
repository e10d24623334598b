//! The certificates that webhooks are served with, and the bundle by which they are trusted.
//!
//! Either somebody else puts them into files, which are read again for every connection, or they are
//! [made here](self_made) and kept in a Secret. In both cases a new certificate is used only after its bundle has been
//! written to where API servers look.

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
use tokio_rustls::TlsAcceptor;
use watchkeeper_client::Client;
use watchkeeper_meta::Collect;

use self::files::Files;
use self::self_made::SelfMade;
use super::bundle::Bundles;
use super::metrics::CertificatesMetric;
use crate::http_server::Encryption;

/// A look at certificates and bundles is a handful of requests: once a minute is soon enough for who applies a
/// configuration again, and loads nobody.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(60);

/// Where certificates come from.
#[derive(Clone, Debug)]
pub struct Certificates(Source);

#[derive(Clone, Debug)]
enum Source {
    Files(Files),
    SelfMade { secret: String, names: Vec<String> },
}

impl Certificates {
    /// Read from two PEM files: a certificate with its chain, and its key. Replacing the files is enough; files that do
    /// not fit each other are left alone until they do.
    ///
    /// cert-manager mounts them, and writes the CA bundle by itself. Where nobody does, see
    /// [`authority_file`](Self::authority_file).
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self(Source::Files(Files {
            certificate: certificate.into(),
            key: key.into(),
            authority: None,
        }))
    }

    /// The CA bundle that belongs to [`files`](Self::files), to be written into the configurations that are named.
    pub fn authority_file(mut self, path: impl Into<PathBuf>) -> Self {
        if let Source::Files(files) = &mut self.0 {
            files.authority = Some(path.into());
        }
        self
    }

    /// Made here, for these names: `service.namespace.svc`, as API servers call it. Replaced before they expire.
    ///
    /// They are kept in a Secret of this name in the client's namespace, so that all replicas behind a Service are
    /// trusted by one bundle. The process needs the right to `get`, `create` and `update` it.
    pub fn self_made<N: Into<String>>(secret: impl Into<String>, names: impl IntoIterator<Item = N>) -> Self {
        Self(Source::SelfMade {
            secret: secret.into(),
            names: names.into_iter().map(Into::into).collect(),
        })
    }
}

/// Why webhooks have no certificate.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text is no certificate, or no key.
    #[error("not a certificate and its key in PEM: {0}")]
    Pem(String),
    /// No certificate could be made.
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
        /// Why.
        source: Box<watchkeeper_client::Error>,
    },
}

/// A certificate, its key, and who vouches for it, all PEM.
#[derive(Clone, PartialEq, Eq)]
struct Material {
    certificate: String,
    key: String,
    /// `None` where somebody else writes it.
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
        // As Kubernetes' own webhooks: HTTP/2 has more ways to be abused than reviews have use for it.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Certificates in use.
pub(super) struct Keeper {
    client: Client,
    source: Open,
    bundles: Arc<Bundles>,
    current: ArcSwapOption<Current>,
    /// Two connections at once must not replace it twice.
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
    /// Gets the first certificate, and makes it known.
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
        keeper.renew().await?;
        keeper.write_bundles().await;
        Ok(keeper)
    }
}

impl Keeper {
    pub(super) fn metrics(&self) -> Arc<dyn Collect> {
        self.metrics.clone()
    }

    /// The encryption of every new connection: files may have changed since the last.
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

    /// Replaces certificates before they expire, and puts back bundles that others took away.
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

    /// Uses the certificate that the source has now, if it is another.
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
        // Whoever meets the new certificate must know its authority already.
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
