//! The TLS configuration of a client, re-read as files change.
//!
//! PEM files and inline data become a TLS configuration with a *generation*, which grows whenever the configuration
//! changes. Each connection has the generation it was opened with. New requests use connections of the newest
//! generation while streams on older ones continue, so rotation interrupts nothing.

mod verifier;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::client::{ResolvesClientCert, WantsClientCert};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ConfigBuilder};
use tokio::time::Instant;

use crate::config::{ConfigError, IdentityConfig, Material, TlsConfig};

/// The interval at which files are checked. Kubelets rotate mounted files about once a minute.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(60);

/// Its name in errors.
const AUTHORITY: &str = "certificate authority";

/// The TLS state of one client.
pub(crate) struct Tls {
    config: TlsConfig,
    loaded: Mutex<Loaded>,
}

/// A configuration and the bytes it was built from.
struct Loaded {
    generation: u64,
    inputs: Inputs,
    checked: Instant,
    multiplexed: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

/// The bytes of a configuration; equal bytes mean an equal configuration.
#[derive(Clone, PartialEq, Eq)]
struct Inputs {
    authority: Option<Arc<[u8]>>,
    identity: Option<Identity>,
}

/// A client certificate chain and key as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: Arc<[u8]>,
    pub(crate) key: Arc<[u8]>,
}

/// The configuration of new connections.
pub(crate) struct Current {
    pub(crate) generation: u64,
    /// Offers HTTP/2 and HTTP/1.1.
    pub(crate) multiplexed: Arc<ClientConfig>,
    /// Offers only HTTP/1.1.
    pub(crate) http1: Arc<ClientConfig>,
}

impl Tls {
    /// Reads everything once, so that a bad file is reported when the client is created.
    pub(crate) fn new(config: TlsConfig) -> Result<Self, ConfigError> {
        let inputs = Inputs::read(&config, None)?;
        let loaded = Loaded::build(&config, inputs, 0)?;
        Ok(Self {
            config,
            loaded: Mutex::new(loaded),
        })
    }

    /// The configuration for new connections. `identity` is a certificate issued by an exec plugin.
    ///
    /// The files are small and read at most once a minute, so they are read synchronously. A half-finished rotation
    /// (a key without its certificate) leaves the old configuration in use until the next check.
    pub(crate) fn current(&self, identity: Option<&Identity>) -> Current {
        let mut loaded = self
            .loaded
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let issued = identity.is_some() && identity != loaded.inputs.identity.as_ref();
        if issued || loaded.checked.elapsed() >= RELOAD_INTERVAL {
            loaded.checked = Instant::now();
            if let Err(error) = self.reload(&mut loaded, identity) {
                tracing::warn!(%error, "keeping the previous certificates");
            }
        }
        Current {
            generation: loaded.generation,
            multiplexed: loaded.multiplexed.clone(),
            http1: loaded.http1.clone(),
        }
    }

    fn reload(&self, loaded: &mut Loaded, identity: Option<&Identity>) -> Result<(), ConfigError> {
        let inputs = Inputs::read(&self.config, identity)?;
        if inputs != loaded.inputs {
            *loaded = Loaded::build(&self.config, inputs, loaded.generation + 1)?;
        }
        Ok(())
    }
}

impl Inputs {
    fn read(config: &TlsConfig, issued: Option<&Identity>) -> Result<Self, ConfigError> {
        let read = |material: &Material| material.read(AUTHORITY);
        let configured = config.identity.as_ref().map(Identity::read);
        Ok(Self {
            authority: config.authority.as_ref().map(read).transpose()?,
            identity: match issued {
                Some(identity) => Some(identity.clone()),
                None => configured.transpose()?,
            },
        })
    }
}

impl Identity {
    fn read(config: &IdentityConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            certificate: config.certificate.read("client certificate")?,
            key: config.key.read("client key")?,
        })
    }

    /// A resolver instead of `with_client_auth_cert`: Kubernetes accepts version 1 certificates, rustls' check of the
    /// leaf does not.
    fn resolver(&self, provider: &CryptoProvider) -> Result<Arc<dyn ResolvesClientCert>, ConfigError> {
        let chain = certificates(&self.certificate, "client certificate")?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| bad("client key", error))?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| bad("client key", error))?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
                Err(bad("client key", "does not belong to the client certificate"))
            }
            _ => Ok(Arc::new(SingleCertAndKey::from(pair))),
        }
    }
}

impl Loaded {
    fn build(config: &TlsConfig, inputs: Inputs, generation: u64) -> Result<Self, ConfigError> {
        let builder = trusting(config, || match inputs.authority.as_deref() {
            Some(pem) => certificates(pem, AUTHORITY),
            None => Ok(system_authorities()),
        })?;
        let mut http1 = match &inputs.identity {
            Some(identity) => {
                let resolver = identity.resolver(builder.crypto_provider())?;
                builder.with_client_cert_resolver(resolver)
            }
            None => builder.with_no_client_auth(),
        };
        let mut multiplexed = http1.clone();
        multiplexed.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            generation,
            inputs,
            checked: Instant::now(),
            multiplexed: Arc::new(multiplexed),
            http1: Arc::new(http1),
        })
    }
}

/// The configuration for a proxy that is itself reached over TLS. It is not part of the cluster, so it is verified
/// with the operating system's and the cluster's authorities, as in client-go, and is not sent the client
/// certificate.
pub(crate) fn for_proxy(config: &TlsConfig) -> Result<Arc<ClientConfig>, ConfigError> {
    let builder = trusting(config, || {
        let mut authorities = system_authorities();
        if let Some(authority) = &config.authority {
            authorities.extend(certificates(&authority.read(AUTHORITY)?, AUTHORITY)?);
        }
        Ok(authorities)
    })?;
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// The common part of every configuration: the trusted authorities.
fn trusting(
    config: &TlsConfig,
    authorities: impl FnOnce() -> Result<Vec<CertificateDer<'static>>, ConfigError>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, ConfigError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = match config.insecure_skip_verify {
        true => watchkeeper_trust::everyone(&provider),
        false => verifier::trust(authorities()?, &provider)?,
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad("TLS", error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier))
}

fn system_authorities() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad(what, error))?;
    if certificates.is_empty() {
        return Err(bad(what, "has no PEM certificate"));
    }
    Ok(certificates)
}

fn bad(what: &str, reason: impl ToString) -> ConfigError {
    ConfigError::Tls {
        what: what.to_owned(),
        reason: reason.to_string(),
    }
}
