//! What a request for a certificate asks for: as much of PKCS#10 as the server reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::certificates::blocks;

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `2.5.4.10`, the organization; Kubernetes takes it for a group.
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// The organizations in the subject of a request in PEM; `None` if it cannot be read.
pub(crate) fn organizations(pem: &str) -> Option<Vec<String>> {
    let blocks = blocks(pem);
    let request = blocks.iter().find(|block| block.label == "CERTIFICATE REQUEST")?;
    let bytes = BASE64.decode(request.body()).ok()?;
    let mut info = Der(Der(&bytes).value(SEQUENCE)?);
    let mut info = Der(info.value(SEQUENCE)?);
    info.value(INTEGER)?;
    let mut subject = Der(info.value(SEQUENCE)?);
    let mut found = Vec::new();
    while !subject.0.is_empty() {
        let mut names = Der(subject.value(SET)?);
        while !names.0.is_empty() {
            let mut name = Der(names.value(SEQUENCE)?);
            let is_organization = name.value(OBJECT_IDENTIFIER)? == ORGANIZATION;
            let (_, text) = name.next()?;
            if is_organization {
                found.push(String::from_utf8_lossy(text).into_owned());
            }
        }
    }
    Some(found)
}

/// Values one after the other in DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value, which must have a tag.
    fn value(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, value) = self.next()?;
        (found == tag).then_some(value)
    }

    /// The next value with its tag.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Four bytes of length are more than any body has.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn der(tag: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag, value.len() as u8];
        bytes.extend_from_slice(value);
        bytes
    }

    fn pem(bytes: &[u8]) -> String {
        let body = BASE64.encode(bytes);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
    }

    /// A request with names in its subject, each in a set of its own.
    fn request(names: &[(&[u8], &str)]) -> Vec<u8> {
        let names = names.iter().flat_map(|(kind, text)| {
            let name = [der(OBJECT_IDENTIFIER, kind), der(0x0c, text.as_bytes())].concat();
            der(SET, &der(SEQUENCE, &name))
        });
        let names: Vec<u8> = names.collect();
        let info = [der(INTEGER, &[0]), der(SEQUENCE, &names)].concat();
        der(SEQUENCE, &der(SEQUENCE, &info))
    }

    #[test]
    fn groups_are_the_organizations_of_the_subject() {
        let names: [(&[u8], &str); 3] = [
            (&ORGANIZATION, "dev"),
            (&[0x55, 0x04, 0x03], "zoe"),
            (&ORGANIZATION, "system:masters"),
        ];
        assert_eq!(
            organizations(&pem(&request(&names))).unwrap(),
            ["dev", "system:masters"]
        );
        assert_eq!(organizations(&pem(&request(&[]))), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_request_has_none() {
        let whole = request(&[(&ORGANIZATION, "dev")]);
        for length in 0..whole.len() {
            assert_eq!(organizations(&pem(&whole[..length])), None, "{length}");
        }
        assert_eq!(organizations("nonsense"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = organizations(&pem(&bytes));
        }
    }
}
