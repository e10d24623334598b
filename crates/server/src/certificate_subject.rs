//! The user of a client certificate: the common name is the user, the organizations are the groups.
//!
//! Only certificates verified by TLS are read here. The reader walks [DER](crate::der) only as far as the subject; a
//! dependency for two attributes would be larger than this file.

use watchkeeper_registry::User;

use crate::der::{Reader, tag};

/// `2.5.4.3`, commonName.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// `2.5.4.10`, organizationName.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The user of a verified certificate; `None` if it has no common name.
pub(crate) fn user_of(certificate: &[u8]) -> Option<User> {
    let mut name = String::new();
    let mut groups = Vec::new();
    let mut subject = Reader(subject(certificate)?);
    while let Some(set) = subject.read(tag::SET) {
        let mut set = Reader(set);
        while let Some(attribute) = set.read(tag::SEQUENCE) {
            match attribute_of(attribute) {
                Some((COMMON_NAME, text)) => name = text,
                Some((ORGANIZATION, text)) => groups.push(text),
                _ => {}
            }
        }
    }
    (!name.is_empty()).then(|| User::authenticated(name, "", groups))
}

/// Certificate → tbsCertificate → after version, serial, signature, issuer and validity → subject.
fn subject(certificate: &[u8]) -> Option<&[u8]> {
    let mut certificate = Reader(Reader(certificate).read(tag::SEQUENCE)?);
    let mut body = Reader(certificate.read(tag::SEQUENCE)?);
    body.read(tag::VERSION);
    body.read(tag::INTEGER)?;
    for _signature_issuer_validity in 0..3 {
        body.read(tag::SEQUENCE)?;
    }
    body.read(tag::SEQUENCE)
}

fn attribute_of(attribute: &[u8]) -> Option<(&[u8], String)> {
    let mut attribute = Reader(attribute);
    let id = attribute.read(tag::OBJECT_IDENTIFIER)?;
    let (tag, text) = attribute.read_any()?;
    let is_text = matches!(
        tag,
        tag::UTF8_STRING | tag::PRINTABLE_STRING | tag::TELETEX_STRING | tag::IA5_STRING
    );
    let text = std::str::from_utf8(text).ok().filter(|_| is_text)?;
    Some((id, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    #[test]
    fn the_subject_names_user_and_groups() {
        let mut params = CertificateParams::default();
        let mut subject = DistinguishedName::new();
        subject.push(DnType::OrganizationName, "dev");
        subject.push(DnType::CommonName, "zoë");
        params.distinguished_name = subject;
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let user = user_of(certificate.der()).unwrap();
        assert_eq!(user.name, "zoë");
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
    }

    #[test]
    fn damaged_certificates_have_no_user() {
        let certificate = CertificateParams::default()
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap();
        let der = certificate.der();
        for length in 0..der.len() {
            let _ = user_of(&der[..length]);
        }
        assert_eq!(user_of(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
