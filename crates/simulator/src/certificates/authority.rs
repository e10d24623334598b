//! The authority that signs certificates: X.509, as far as Kubernetes' signers write it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, SigningKey as _};
use watchkeeper_kinds::CertificateRequest;
use watchkeeper_meta::Time;

/// The longest life of a certificate.
const LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// The shortest.
const SHORTEST: Duration = Duration::from_secs(600);
/// A certificate is valid from this long ago, for clocks that are behind.
const BACKDATE: Duration = Duration::from_secs(300);
/// A certificate of less life does not end earlier for that.
const SHORT: Duration = Duration::from_secs(8 * 3600);

mod tag {
    pub(super) const BOOLEAN: u8 = 0x01;
    pub(super) const INTEGER: u8 = 0x02;
    pub(super) const BIT_STRING: u8 = 0x03;
    pub(super) const OCTET_STRING: u8 = 0x04;
    pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(super) const UTC_TIME: u8 = 0x17;
    pub(super) const GENERALIZED_TIME: u8 = 0x18;
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const VERSION: u8 = 0xa0;
    pub(super) const EXTENSIONS: u8 = 0xa3;
}

/// Object identifiers, in DER.
mod oid {
    pub(super) const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    pub(super) const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
    pub(super) const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
    pub(super) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
    pub(super) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
}

/// The bit of each usage of a key.
const KEY_USAGES: &[(&str, u8)] = &[
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// The object identifier of each extended usage, in Go's order.
const EXTENDED_KEY_USAGES: &[(&str, &[u8])] = &[
    ("any", &[0x55, 0x1d, 0x25, 0x00]),
    ("server auth", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01]),
    ("client auth", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02]),
    ("code signing", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03]),
    ("email protection", EMAIL_PROTECTION),
    ("s/mime", EMAIL_PROTECTION),
    (
        "ipsec end system",
        &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x05],
    ),
    ("ipsec tunnel", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x06]),
    ("ipsec user", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x07]),
    ("timestamping", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x08]),
    ("ocsp signing", &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09]),
    (
        "microsoft sgc",
        &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x0a, 0x03, 0x03],
    ),
    (
        "netscape sgc",
        &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x42, 0x04, 0x01],
    ),
];

const EMAIL_PROTECTION: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x04];

/// The certificate and key with which approved requests are signed.
pub struct SigningAuthority {
    /// The subject of its certificate, in DER: the issuer of what it signs.
    name: Vec<u8>,
    end: Time,
    key: KeyPair,
}

/// A text that is not an authority's certificate and key.
#[derive(Debug, thiserror::Error)]
#[error("not the certificate of an authority and its P-256 key in PEM")]
pub struct SigningAuthorityError;

impl std::fmt::Debug for SigningAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningAuthority")
            .field("key", &"[redacted]")
            .finish_non_exhaustive()
    }
}

impl SigningAuthority {
    /// Reads an authority's certificate and key.
    pub fn from_pem(pem: &str) -> Result<Self, SigningAuthorityError> {
        let read = || {
            let key = pem.find("-----BEGIN PRIVATE KEY-----")?;
            let key = KeyPair::from_pem(&pem[key..]).ok()?;
            let certificate = Certificate::read(&block(pem, "CERTIFICATE")?)?;
            (key.is_compatible(&PKCS_ECDSA_P256_SHA256)).then_some(Self {
                name: certificate.subject,
                end: certificate.end,
                key,
            })
        };
        read().ok_or(SigningAuthorityError)
    }

    /// Signs a request: a certificate in PEM. `None` if the authority has expired.
    pub(super) fn sign(
        &self,
        asked: &CertificateRequest,
        usages: &[&str],
        seconds: Option<i64>,
        now: Time,
    ) -> Option<String> {
        let wanted = seconds.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or_default()));
        let life = wanted.map_or(LIFE, |wanted| wanted.clamp(SHORTEST, LIFE));
        let whole = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let begin = now.seconds - whole(BACKDATE);
        let end = match life < SHORT {
            true => now.seconds + whole(life),
            false => begin + whole(life),
        };
        let end = end.min(self.end.seconds);
        if end <= now.seconds {
            return None;
        }
        let mut serial: [u8; 16] = std::array::from_fn(|_| fastrand::u8(..));
        // A positive number without a leading zero.
        serial[0] = serial[0] & 0x7f | 0x40;
        let algorithm = der(
            tag::SEQUENCE,
            &[&der(tag::OBJECT_IDENTIFIER, &[oid::ECDSA_SHA256])],
        );
        let certificate = der(
            tag::SEQUENCE,
            &[
                &der(tag::VERSION, &[&der(tag::INTEGER, &[&[2]])]),
                &der(tag::INTEGER, &[&serial]),
                &algorithm,
                &self.name,
                &der(tag::SEQUENCE, &[&moment(begin)?, &moment(end)?]),
                &asked.subject,
                &asked.public_key,
                &der(
                    tag::EXTENSIONS,
                    &[&der(tag::SEQUENCE, &[&extensions(asked, usages)])],
                ),
            ],
        );
        let signature = self.key.sign(&certificate).ok()?;
        let signature = der(tag::BIT_STRING, &[&[0], &signature]);
        let whole = der(tag::SEQUENCE, &[&certificate, &algorithm, &signature]);
        Some(pem(&whole))
    }
}

/// When a certificate in PEM expires.
pub(super) fn expiry(pem: &[u8]) -> Option<Time> {
    let bytes = block(str::from_utf8(pem).ok()?, "CERTIFICATE")?;
    Certificate::read(&bytes).map(|certificate| certificate.end)
}

/// The parts of a certificate that signers need.
struct Certificate {
    subject: Vec<u8>,
    end: Time,
}

impl Certificate {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (_, certificate, _) = split(bytes)?;
        let (_, mut rest, _) = split(certificate)?;
        // Version, serial number, algorithm, issuer.
        while let (tag::VERSION | tag::INTEGER, _, left) = split(rest)? {
            rest = left;
        }
        for _ in 0..2 {
            rest = split(rest)?.2;
        }
        let (_, validity, rest) = split(rest)?;
        let (_, _, after) = split(rest)?;
        let (kind, end, _) = split(split(validity)?.2)?;
        Some(Self {
            subject: rest[..rest.len() - after.len()].to_vec(),
            end: read_moment(kind, end)?,
        })
    }
}

fn extensions(asked: &CertificateRequest, usages: &[&str]) -> Vec<u8> {
    let extension = |id: &[u8], is_critical: bool, value: Vec<u8>| {
        let critical = der(tag::BOOLEAN, &[&[0xff]]);
        let critical = if is_critical { &critical[..] } else { &[] };
        let id = der(tag::OBJECT_IDENTIFIER, &[id]);
        der(
            tag::SEQUENCE,
            &[&id, critical, &der(tag::OCTET_STRING, &[&value])],
        )
    };
    let mut all = Vec::new();
    let bits = KEY_USAGES.iter().filter(|(name, _)| usages.contains(name));
    let bits = bits.fold(0u16, |bits, (_, bit)| bits | 0x8000 >> bit);
    if bits != 0 {
        // Without trailing zeros, whose number comes first.
        let bytes = bits.to_be_bytes();
        let used = if bytes[1] == 0 { &bytes[..1] } else { &bytes[..] };
        let spare = used.last().copied().unwrap_or_default().trailing_zeros() as u8;
        all.extend(extension(
            oid::KEY_USAGE,
            true,
            der(tag::BIT_STRING, &[&[spare], used]),
        ));
    }
    let mut purposes: Vec<&[u8]> = EXTENDED_KEY_USAGES
        .iter()
        .filter(|(name, _)| usages.contains(name))
        .map(|(_, id)| *id)
        .collect();
    purposes.dedup();
    if !purposes.is_empty() {
        let purposes = purposes
            .into_iter()
            .flat_map(|id| der(tag::OBJECT_IDENTIFIER, &[id]));
        let purposes: Vec<u8> = purposes.collect();
        all.extend(extension(
            oid::EXTENDED_KEY_USAGE,
            false,
            der(tag::SEQUENCE, &[&purposes]),
        ));
    }
    all.extend(extension(oid::BASIC_CONSTRAINTS, true, der(tag::SEQUENCE, &[])));
    let names = asked.alternative_names.iter().flat_map(|name| {
        let (tag, bytes) = name.tagged();
        der(tag, &[bytes])
    });
    let names: Vec<u8> = names.collect();
    if !names.is_empty() {
        let has_no_subject = asked.subject == [tag::SEQUENCE, 0];
        let names = der(tag::SEQUENCE, &[&names]);
        all.extend(extension(oid::SUBJECT_ALTERNATIVE_NAME, has_no_subject, names));
    }
    all
}

/// A value with its tag and length.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    if length < 0x80 {
        bytes.push(length as u8);
    } else {
        let digits = length.to_be_bytes();
        let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
        bytes.push(0x80 | digits.len() as u8);
        bytes.extend(digits);
    }
    parts.iter().for_each(|part| bytes.extend(*part));
    bytes
}

/// The tag and the content of the first value, and what follows it.
fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// A time: in two digits of the year until 2049.
fn moment(seconds: i64) -> Option<Vec<u8>> {
    let time = Timestamp::from_second(seconds).ok()?.to_zoned(TimeZone::UTC);
    let text = match time.year() {
        1950..2050 => (tag::UTC_TIME, time.strftime("%y%m%d%H%M%SZ").to_string()),
        _ => (tag::GENERALIZED_TIME, time.strftime("%Y%m%d%H%M%SZ").to_string()),
    };
    Some(der(text.0, &[text.1.as_bytes()]))
}

fn read_moment(kind: u8, bytes: &[u8]) -> Option<Time> {
    let text = str::from_utf8(bytes).ok()?;
    let text = match (kind, text.get(..2)?.parse::<u8>().ok()?) {
        (tag::GENERALIZED_TIME, _) => text.to_owned(),
        (tag::UTC_TIME, 0..50) => format!("20{text}"),
        (tag::UTC_TIME, _) => format!("19{text}"),
        _ => return None,
    };
    let (date, time) = (text.get(..8)?, text.get(8..14)?);
    let part = |text: &str, from: usize, to: usize| text.get(from..to).map(str::to_owned);
    let date = [part(date, 0, 4)?, part(date, 4, 6)?, part(date, 6, 8)?].join("-");
    let time = [part(time, 0, 2)?, part(time, 2, 4)?, part(time, 4, 6)?].join(":");
    format!("{date}T{time}Z").parse().ok()
}

fn pem(bytes: &[u8]) -> String {
    let body = BASE64.encode(bytes);
    let lines: Vec<&str> = body
        .as_bytes()
        .chunks(64)
        .filter_map(|line| str::from_utf8(line).ok())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

/// The content of the first block of a kind.
fn block(pem: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.split_whitespace().collect();
    BASE64.decode(body).ok()
}
