//! Reads the validity of a certificate: two dates after a few other fields.
//!
//! ```text
//! Certificate { TBSCertificate { [0] version, serial, signature, issuer, Validity { not before, not after }, … }, … }
//! ```
//! Nothing is verified here. A full X.509 parser would bring a parser generator and a second time library.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first valid time.
    pub from: Timestamp,
    /// The last valid time.
    pub until: Timestamp,
}

impl Validity {
    /// Of the first certificate of a PEM chain; `None` if none can be parsed.
    pub fn of_leaf(pem: &[u8]) -> Option<Self> {
        Self::read(&CertificateDer::from_pem_slice(pem).ok()?)
    }

    fn read(mut certificate: &[u8]) -> Option<Self> {
        let mut signed = sequence(&mut certificate)?;
        let mut fields = sequence(&mut signed)?;
        // The version field is missing in version 1.
        if fields.first() == Some(&VERSION) {
            element(&mut fields)?;
        }
        let _serial = element(&mut fields)?;
        let _signature = sequence(&mut fields)?;
        let _issuer = sequence(&mut fields)?;
        let mut validity = sequence(&mut fields)?;
        Some(Self {
            from: time(&mut validity)?,
            until: time(&mut validity)?,
        })
    }
}

fn sequence<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    element(rest)
        .filter(|(tag, _)| *tag == SEQUENCE)
        .map(|(_, contents)| contents)
}

/// Consumes one element: its tag and its content.
fn element<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, tail) = rest.split_first()?;
    let (&first, tail) = tail.split_first()?;
    let (length, tail) = match first {
        ..=0x7f => (usize::from(first), tail),
        // Indefinite length, which certificates do not use.
        0x80 | 0x85.. => return None,
        // The length itself takes this many bytes.
        0x81..=0x84 => {
            let (digits, tail) = tail.split_at_checked(usize::from(first - 0x80))?;
            let add = |length: usize, &digit: &u8| length << 8 | usize::from(digit);
            (digits.iter().fold(0, add), tail)
        }
    };
    let (contents, tail) = tail.split_at_checked(length)?;
    *rest = tail;
    Some((tag, contents))
}

/// `990131235959Z`, or `20500131235959Z` from the year 2050 on.
fn time(rest: &mut &[u8]) -> Option<Timestamp> {
    let (tag, text) = element(rest)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        UTC_TIME if text < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    TimeZone::UTC.to_timestamp(time).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn pem(from: i32, until: i32) -> String {
        let mut params = CertificateParams::new(vec!["a".repeat(60); 9]).unwrap();
        params.not_before = date_time_ymd(from, 1, 2);
        params.not_after = date_time_ymd(until, 12, 31);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn both_forms_of_dates_are_read() {
        for (from, until) in [(1999, 2049), (2024, 2050), (2050, 4096)] {
            let validity = Validity::of_leaf(pem(from, until).as_bytes()).unwrap();
            assert_eq!(validity.from.to_string(), format!("{from}-01-02T00:00:00Z"));
            assert_eq!(validity.until.to_string(), format!("{until}-12-31T00:00:00Z"));
        }
    }

    #[test]
    fn a_certificate_cut_anywhere_has_no_dates_or_all_of_them() {
        let whole = CertificateDer::from_pem_slice(pem(2024, 2050).as_bytes()).unwrap();
        for end in 0..whole.len() {
            assert_eq!(Validity::read(&whole[..end]), None, "cut at {end}");
        }
        assert_eq!(Validity::of_leaf(b"hello"), None);
    }
}
