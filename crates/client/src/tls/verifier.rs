//! Who is trusted: what some [authorities](watchkeeper_trust) have signed, everyone, or nobody.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::bad;
use crate::config::ConfigError;

/// Trusts what the authorities have signed, and the authorities themselves.
pub(super) fn trust(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ConfigError> {
    let trusted = watchkeeper_trust::verifier(authorities, provider);
    let trusted = trusted.map_err(|error| bad("certificate authority", error))?;
    // Without authorities nothing can be trusted, which is only wrong once a TLS connection is wanted: a machine
    // without certificates may still talk plain HTTP.
    Ok(trusted.unwrap_or_else(|| Arc::new(Nobody(schemes(provider)))))
}

/// Trusts any certificate.
pub(super) fn trust_everyone(provider: &Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Everyone(schemes(provider)))
}

fn schemes(provider: &CryptoProvider) -> Vec<SignatureScheme> {
    provider.signature_verification_algorithms.supported_schemes()
}

/// Implements the three methods of a verifier that looks at nothing.
macro_rules! fixed_verdict {
    ($name:ident, $verdict:expr) => {
        #[derive(Debug)]
        struct $name(Vec<SignatureScheme>);

        impl ServerCertVerifier for $name {
            fn verify_server_cert(
                &self,
                _: &CertificateDer<'_>,
                _: &[CertificateDer<'_>],
                _: &ServerName<'_>,
                _: &[u8],
                _: UnixTime,
            ) -> Result<ServerCertVerified, Error> {
                $verdict
            }

            // The signatures are not looked at either: certificates webpki cannot parse must pass here.
            fn verify_tls12_signature(
                &self,
                _: &[u8],
                _: &CertificateDer<'_>,
                _: &DigitallySignedStruct,
            ) -> Result<HandshakeSignatureValid, Error> {
                Ok(HandshakeSignatureValid::assertion())
            }

            fn verify_tls13_signature(
                &self,
                _: &[u8],
                _: &CertificateDer<'_>,
                _: &DigitallySignedStruct,
            ) -> Result<HandshakeSignatureValid, Error> {
                Ok(HandshakeSignatureValid::assertion())
            }

            fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
                self.0.clone()
            }
        }
    };
}

fixed_verdict!(Everyone, Ok(ServerCertVerified::assertion()));
fixed_verdict!(
    Nobody,
    Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
);
