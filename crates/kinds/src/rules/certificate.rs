//! Reads an X.509 certificate, as far as the server compares it with what was asked for.

use watchkeeper_meta::Time;

use super::der::{BOOLEAN, Der, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};

const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `2.5.29.17`
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// `2.5.29.19`
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;

/// A certificate. Its signature is not verified: the signer is not known here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The key with its algorithm, in DER.
    pub(crate) public_key: Vec<u8>,
    /// The start of its validity.
    pub(crate) not_before: Time,
    /// The end of its validity.
    pub(crate) not_after: Time,
    /// The host names among its alternative names.
    pub(crate) dns_names: Vec<String>,
    /// The mail addresses among its alternative names.
    pub(crate) emails: Vec<String>,
    /// True if it may sign other certificates.
    pub(crate) is_authority: bool,
}

impl Certificate {
    /// Reads a certificate in DER; `None` if it is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut signed = Der(Der(bytes).value(SEQUENCE)?);
        let mut fields = Der(signed.value(SEQUENCE)?);
        signed.value(SEQUENCE)?;
        signed.bits()?;
        fields.value_if(VERSION);
        fields.value(INTEGER)?;
        let (_signature, _issuer) = (fields.value(SEQUENCE)?, fields.value(SEQUENCE)?);
        let mut validity = Der(fields.value(SEQUENCE)?);
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let _subject = fields.value(SEQUENCE)?;
        let (public_key, _) = fields.whole(SEQUENCE)?;
        let mut certificate = Self {
            public_key: public_key.to_vec(),
            not_before,
            not_after,
            dns_names: Vec::new(),
            emails: Vec::new(),
            is_authority: false,
        };
        while let Some((tag, value)) = fields.next() {
            if tag == EXTENSIONS {
                certificate.read_extensions(Der(Der(value).value(SEQUENCE)?))?;
            }
        }
        Some(certificate)
    }

    fn read_extensions(&mut self, mut extensions: Der<'_>) -> Option<()> {
        while !extensions.0.is_empty() {
            let mut extension = Der(extensions.value(SEQUENCE)?);
            let kind = extension.value(OBJECT_IDENTIFIER)?;
            extension.value_if(BOOLEAN);
            let value = extension.value(OCTET_STRING)?;
            match kind {
                SUBJECT_ALTERNATIVE_NAME => self.read_names(Der(Der(value).value(SEQUENCE)?))?,
                BASIC_CONSTRAINTS => {
                    let authority = Der(Der(value).value(SEQUENCE)?).value_if(BOOLEAN);
                    self.is_authority = authority.is_some_and(|flag| flag != [0]);
                }
                _ => {}
            }
        }
        Some(())
    }

    fn read_names(&mut self, mut names: Der<'_>) -> Option<()> {
        while !names.0.is_empty() {
            let (tag, name) = names.next()?;
            let text = || String::from_utf8_lossy(name).into_owned();
            match tag {
                DNS => self.dns_names.push(text()),
                EMAIL => self.emails.push(text()),
                _ => {}
            }
        }
        Some(())
    }
}

/// A time, with a year of two digits (1950 to 2049) or four.
fn time(values: &mut Der<'_>) -> Option<Time> {
    let (tag, text) = values.next()?;
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let text = match tag {
        UTC_TIME if text < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |range: std::ops::Range<usize>| text.get(range);
    let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
    let (hour, minute, second) = (part(8..10)?, part(10..12)?, part(12..14)?);
    let end = text.get(14..)?;
    Time::from_rfc3339_seconds(format!("{year}-{month}-{day}T{hour}:{minute}:{second}{end}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::certificate_request::Signed;
    use crate::rules::certificates::blocks;

    fn der(pem: &str) -> Vec<u8> {
        blocks(pem).remove(0).bytes
    }

    #[test]
    fn a_certificate_has_the_key_of_its_request_and_its_own_names_and_times() {
        let leaf = der(include_str!("certificate_request/ed25519_leaf.pem"));
        let leaf = Certificate::read(&leaf).unwrap();
        let request = der(include_str!("certificate_request/ed25519.pem"));
        assert_eq!(leaf.public_key, Signed::read(&request).unwrap().public_key);
        assert_eq!(leaf.dns_names, ["pod.example.com"]);
        assert_eq!(leaf.emails, ["a@example.com"]);
        assert!(!leaf.is_authority);
        assert_eq!(leaf.not_before.to_rfc3339(), "2026-11-19T02:08:44Z");
        assert_eq!(leaf.not_after.to_rfc3339(), "2026-11-20T02:08:44Z");
    }

    #[test]
    fn a_truncated_certificate_is_none() {
        let leaf = der(include_str!("certificate_request/ed25519_leaf.pem"));
        for length in 0..leaf.len() {
            assert_eq!(Certificate::read(&leaf[..length]), None, "{length}");
        }
    }
}
