//! How a client that knows the server's authority alone gets in.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio_rustls::TlsConnector;

use crate::Failure;

/// Connects over HTTP/2 to whom this authority, in PEM, vouches for.
pub(crate) fn connector(authority: &[u8]) -> Result<TlsConnector, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority).map_err(|error| format!("{error:?}"))?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
