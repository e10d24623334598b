//! Certificate verification: by [authorities](watchkeeper_trust), always, or never.

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;

use super::bad;
use crate::config::ConfigError;

/// Trusts certificates signed by the authorities, and the authorities themselves.
pub(super) fn trust(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ConfigError> {
    let trusted = watchkeeper_trust::verifier(authorities, provider);
    let trusted = trusted.map_err(|error| bad("certificate authority", error))?;
    // Without authorities nothing is trusted, which is an error only when a TLS connection is opened: a machine
    // without certificates may still use plain HTTP.
    Ok(trusted.unwrap_or_else(|| watchkeeper_trust::nobody(provider)))
}
