//! Which certificates of webhooks are trusted: those that the authorities have signed which their configuration names, or
//! the system, and the authorities themselves.
//!
//! The latter is Go's rule, by which webhooks are set up whose certificate nobody but themselves has signed. webpki
//! refuses it. The name is checked all the same, and so are the dates, which webpki looks at first.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

/// What encrypts connections to webhooks that these authorities speak for, PEM.
pub(super) fn connector(authorities: Option<&[u8]>) -> Result<TlsConnector, String> {
    let authorities = match authorities {
        Some(pem) => certificates(pem)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    if roots.is_empty() {
        return Err("the webhook has no caBundle, and the system trusts no authorities".to_owned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let webpki = webpki.build().map_err(|error| error.to_string())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Authorities { webpki, authorities }));
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
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_)))
                if self.authorities.contains(leaf) =>
            {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
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

    /// Whether a certificate that only its owner has signed is trusted, by whoever names it an authority.
    fn check(is_authority: bool, last_year: i32, name: &str, is_trusted: bool) {
        let mut params = CertificateParams::new(vec!["hook.default.svc".to_owned()]).unwrap();
        params.not_after = date_time_ymd(last_year, 12, 31);
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let certificate = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let pem = certificate.pem();
        let authorities = certificates(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.clone());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        let leaf = authorities[0].clone();
        let verifier = Authorities { webpki, authorities };
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
}
