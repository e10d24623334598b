//! Who speaks for a webhook: the [authorities](watchkeeper_trust) that its configuration names, or the system's.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio_rustls::TlsConnector;

/// What encrypts connections to webhooks that these authorities speak for, PEM.
pub(super) fn connector(authorities: Option<&[u8]>) -> Result<TlsConnector, String> {
    let (authorities, whose) = match authorities {
        Some(pem) => (certificates(pem)?, "the webhook's caBundle"),
        None => (
            rustls_native_certs::load_native_certs().certs,
            "the webhook has no caBundle, and the system",
        ),
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = watchkeeper_trust::verifier(authorities, &provider).map_err(|error| error.to_string())?;
    let verifier = verifier.ok_or_else(|| format!("{whose} has no authority that can be read"))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
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
