//! Verifiers that look at nothing: one trusts every certificate, one trusts none.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Trusts any certificate: `insecureSkipTLSVerify`.
pub fn everyone(provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Everyone(schemes(provider)))
}

/// Trusts no certificate.
pub fn nobody(provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Nobody(schemes(provider)))
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
