//! TLS for a client that trusts only the server's authority.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;

/// What went wrong.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Trusts this authority; speaks `h2` or `http/1.1`. The client may have a certificate and its key. All in PEM.
pub fn connector(
    authority: &[u8],
    protocol: &str,
    identity: Option<(Vec<u8>, Vec<u8>)>,
) -> Result<TlsConnector, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority).map_err(|error| format!("{error:?}"))?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>();
            let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| format!("{error:?}"))?;
            config.with_client_auth_cert(chain.map_err(|error| format!("{error:?}"))?, key)?
        }
    };
    config.alpn_protocols = vec![protocol.into()];
    Ok(TlsConnector::from(Arc::new(config)))
}
