//! The DNS names of the listener's certificate, for clients that connect to it by an address the certificate lacks.
//!
//! The reader walks [DER](crate::der) only as far as the subject's alternative names; a dependency for one attribute
//! would be larger than this file.

use std::net::IpAddr;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use crate::der::{Reader, tag};

/// `2.5.29.17`, subjectAltName.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// The name that clients of this address must verify, where the first certificate of a file has names and not the
/// address.
pub(crate) fn name_instead_of(address: IpAddr, pem: &str) -> Option<String> {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let parsed = ParsedCertificate::try_from(&certificate).ok()?;
    let address = ServerName::IpAddress(address.into());
    if rustls::client::verify_server_name(&parsed, &address).is_ok() {
        return None;
    }
    let names = dns_names(&certificate).unwrap_or_default();
    names.into_iter().find(|name| !name.starts_with('*'))
}

/// Certificate → tbsCertificate → extensions → subjectAltName → dNSName.
fn dns_names(certificate: &[u8]) -> Option<Vec<String>> {
    let mut certificate = Reader(Reader(certificate).read(tag::SEQUENCE)?);
    let mut body = Reader(certificate.read(tag::SEQUENCE)?);
    let extensions = loop {
        match body.read_any()? {
            (tag::EXTENSIONS, content) => break content,
            _ => continue,
        }
    };
    let mut extensions = Reader(Reader(extensions).read(tag::SEQUENCE)?);
    while let Some(extension) = extensions.read(tag::SEQUENCE) {
        let mut extension = Reader(extension);
        if extension.read(tag::OBJECT_IDENTIFIER) == Some(ALTERNATIVE_NAMES) {
            let _is_critical = extension.read(tag::BOOLEAN);
            let mut names = Reader(Reader(extension.read(tag::OCTET_STRING)?).read(tag::SEQUENCE)?);
            let all = std::iter::from_fn(|| names.read_any());
            let dns = all.filter(|(kind, _)| *kind == tag::DNS_NAME);
            return Some(
                dns.map(|(_, name)| String::from_utf8_lossy(name).into_owned())
                    .collect(),
            );
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn certificate(names: &[&str]) -> rcgen::Certificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).unwrap();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    fn check(names: &[&str], expected: Option<&str>) {
        let pem = certificate(names).pem();
        let name = name_instead_of(Ipv4Addr::LOCALHOST.into(), &pem);
        assert_eq!(name.as_deref(), expected, "{names:?}");
    }

    #[test]
    fn the_first_name_stands_for_an_address_that_the_certificate_lacks() {
        check(&["cluster.example", "other.example"], Some("cluster.example"));
        check(&["10.0.0.1", "*.example", "a.example"], Some("a.example"));
        check(&["cluster.example", "127.0.0.1"], None);
        check(&["10.0.0.1"], None);
        check(&[], None);
        assert_eq!(
            name_instead_of(Ipv4Addr::LOCALHOST.into(), "no certificate"),
            None
        );
    }

    #[test]
    fn damaged_certificates_have_no_name() {
        let certificate = certificate(&["cluster.example"]);
        let der = certificate.der();
        for length in 0..der.len() {
            let _ = dns_names(&der[..length]);
        }
        assert_eq!(dns_names(der), Some(vec!["cluster.example".to_owned()]));
    }
}
