//! Who is trusted: webpki's rules, plus the one rule of Go that kubeconfigs rely on.
//!
//! Go accepts a server whose certificate *is* one of the configured authorities: self-signed servers are set up
//! that way. webpki refuses it, because such a leaf was issued by nobody. Name and dates are still checked.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::{bad, root_store};
use crate::config::ConfigError;

/// Trusts what the authorities have signed, and the authorities themselves.
pub(super) fn trust(
    authorities: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ConfigError> {
    let roots = Arc::new(root_store(&authorities));
    if roots.is_empty() {
        // Without roots nothing can be trusted, which is only wrong once a TLS connection is wanted: a machine
        // without certificates may still talk plain HTTP.
        return Ok(Arc::new(Nobody(schemes(provider))));
    }
    let webpki = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .build()
        .map_err(|error| bad("certificate authority", error))?;
    Ok(Arc::new(Authorities { webpki, authorities }))
}

/// Trusts any certificate.
pub(super) fn trust_everyone(provider: &Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Everyone(schemes(provider)))
}

fn schemes(provider: &CryptoProvider) -> Vec<SignatureScheme> {
    provider.signature_verification_algorithms.supported_schemes()
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
            // webpki looks at the dates before it looks for an issuer, so these two errors mean: dates are fine.
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
