//! TLS for a client that trusts only the server's authority.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio_rustls::TlsConnector;

use crate::Failure;

/// Trusts this authority, in PEM; speaks `h2` or `http/1.1`.
pub(crate) fn connector(authority: &[u8], protocol: &str) -> Result<TlsConnector, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority).map_err(|error| format!("{error:?}"))?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    Ok(TlsConnector::from(Arc::new(config)))
}
