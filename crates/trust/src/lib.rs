//! Verification of server certificates: webpki's rules, plus one rule of Go that kubeconfigs and webhooks rely on.
//!
//! Go accepts a server whose certificate *is* one of the configured authorities, as with self-signed servers. webpki
//! refuses it, because such a leaf has no issuer. Name and dates are still checked.
//!
//! ```
//! use std::sync::Arc;
//! use rustls::crypto::CryptoProvider;
//! use rustls::{ClientConfig, pki_types::CertificateDer};
//!
//! /// A client's TLS configuration that trusts these authorities.
//! fn tls(authorities: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<ClientConfig, Box<dyn std::error::Error>> {
//!     let verifier = watchkeeper_trust::verifier(authorities, &provider)?.ok_or("no certificate can be parsed")?;
//!     Ok(ClientConfig::builder_with_provider(provider)
//!         .with_safe_default_protocol_versions()?
//!         .dangerous()
//!         .with_custom_certificate_verifier(verifier)
//!         .with_no_client_auth())
//! }
//! ```

mod fixed;
mod validity;

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

pub use fixed::{everyone, nobody};
pub use validity::Validity;

/// Trusts certificates signed by the authorities, and the authorities themselves. `None` if no authority can be
/// parsed: then nothing can be trusted.
pub fn verifier(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ServerCertVerifier>>, VerifierBuilderError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    if roots.is_empty() {
        return Ok(None);
    }
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    Ok(Some(Arc::new(Authorities { webpki, authorities })))
}

#[derive(Debug)]
struct Authorities {
    webpki: Arc<WebPkiServerVerifier>,
    authorities: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.webpki.verify_server_cert(leaf, chain, name, ocsp, now) {
            // webpki checks the dates before the issuer, so these two errors mean that the dates are valid.
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_)))
                if self.authorities.contains(leaf) =>
            {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// Checks whether a self-signed certificate is trusted if it is named as an authority.
    fn check(is_authority: bool, last_year: i32, name: &str, is_trusted: bool) {
        let mut params = CertificateParams::new(vec!["hook.default.svc".to_owned()]).unwrap();
        params.not_after = date_time_ymd(last_year, 12, 31);
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let certificate = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let leaf = certificate.der().clone();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = verifier(vec![leaf.clone()], &provider).unwrap().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let verified = verifier.verify_server_cert(&leaf, &[], &name, &[], UnixTime::now());
        assert_eq!(verified.is_ok(), is_trusted, "{name:?} {verified:?}");
    }

    #[test]
    fn a_certificate_that_is_its_own_authority_is_good_for_its_name() {
        check(false, 4000, "hook.default.svc", true);
        check(true, 4000, "hook.default.svc", true);
        check(false, 4000, "other.default.svc", false);
        check(true, 4000, "other.default.svc", false);
    }

    #[test]
    fn a_certificate_that_is_its_own_authority_is_good_until_its_end() {
        check(false, 2020, "hook.default.svc", false);
        check(true, 2020, "hook.default.svc", false);
    }

    #[test]
    fn nobody_is_trusted_where_no_authority_can_be_read() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let nonsense = CertificateDer::from(b"nonsense".to_vec());
        assert!(verifier(vec![nonsense], &provider).unwrap().is_none());
    }
}
