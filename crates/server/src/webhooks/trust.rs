//! Which certificates of webhooks are trusted: those of the authorities that their configuration names, or those that the
//! system trusts.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// What encrypts connections to webhooks whose certificates these authorities have signed, PEM.
pub(super) fn connector(authorities: Option<&[u8]>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(match authorities {
        Some(pem) => certificates(pem)?,
        None => rustls_native_certs::load_native_certs().certs,
    });
    if roots.is_empty() {
        return Err("the webhook has no caBundle, and the system trusts no authorities".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    // As Kubernetes: calls at the same time may go to several servers behind one name.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err("unable to parse bytes as PEM block".to_owned()),
    }
}
