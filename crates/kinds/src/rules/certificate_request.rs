//! Reads a PKCS#10 certificate request, as far as the server needs it, and verifies that its own key signed it.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

use super::certificates::blocks;
use super::der::{BOOLEAN, Der, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, SET};

const ATTRIBUTES: u8 = 0xa0;
/// `2.5.4.3`; Kubernetes takes it for the user.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// `1.2.840.113549.1.9.14`
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
/// `2.5.29.17`
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// `2.5.4.10`, the organization; Kubernetes takes it for a group.
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// The algorithms of keys and signatures, and elliptic curves, by their identifiers.
mod oid {
    pub(super) const RSA_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    pub(super) const RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
    pub(super) const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
    pub(super) const RSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c];
    pub(super) const RSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d];
    pub(super) const EC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    pub(super) const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    pub(super) const ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
    pub(super) const ECDSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04];
    pub(super) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    pub(super) const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
    pub(super) const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
    pub(super) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
}

/// The reason to refuse a request in PEM, in Go's words: it cannot be read, or its own key has not signed it.
pub(crate) fn refusal(pem: &str) -> Option<&'static str> {
    const NO_BLOCK: &str = "PEM block type must be CERTIFICATE REQUEST";
    let blocks = blocks(pem);
    let first = blocks
        .first()
        .filter(|block| block.label == "CERTIFICATE REQUEST");
    match first.map(|block| Signed::read(&block.bytes)) {
        None => Some(NO_BLOCK),
        Some(None) => Some("asn1: syntax error: data truncated"),
        Some(Some(signed)) => signed.refusal(),
    }
}

/// The key of a request, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyType {
    /// RSA, with the bits of its modulus.
    Rsa(usize),
    /// An elliptic curve: P-256, P-384 or P-521.
    Curve,
    /// Another elliptic curve.
    OtherCurve,
    Ed25519,
    Other,
}

/// The signed part of a request, with its key and its signature.
pub(crate) struct Signed<'a> {
    /// The key with its algorithm, in DER.
    pub(crate) public_key: &'a [u8],
    info: &'a [u8],
    key_type: &'a [u8],
    curve: &'a [u8],
    key: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    /// Reads a request in DER; `None` if it is none.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut request = Der(Der(bytes).value(SEQUENCE)?);
        let (whole_info, info) = request.whole(SEQUENCE)?;
        let mut info = Der(info);
        info.value(INTEGER)?;
        let _subject = info.value(SEQUENCE)?;
        let (public_key, key) = info.whole(SEQUENCE)?;
        let mut key = Der(key);
        let mut key_algorithm = Der(key.value(SEQUENCE)?);
        Some(Self {
            public_key,
            info: whole_info,
            key_type: key_algorithm.value(OBJECT_IDENTIFIER)?,
            curve: key_algorithm.value(OBJECT_IDENTIFIER).unwrap_or_default(),
            key: key.bits()?,
            algorithm: Der(request.value(SEQUENCE)?).value(OBJECT_IDENTIFIER)?,
            signature: request.bits()?,
        })
    }

    /// The type of the key.
    pub(crate) fn key_type(&self) -> KeyType {
        match (self.key_type, self.curve) {
            (oid::RSA_KEY, _) => KeyType::Rsa(self.modulus_bits().unwrap_or_default()),
            (oid::EC_KEY, oid::P256 | oid::P384 | oid::P521) => KeyType::Curve,
            (oid::EC_KEY, _) => KeyType::OtherCurve,
            (oid::ED25519, _) => KeyType::Ed25519,
            _ => KeyType::Other,
        }
    }

    /// The size of an RSA key in whole bytes, as bits.
    fn modulus_bits(&self) -> Option<usize> {
        let modulus = Der(Der(self.key).value(SEQUENCE)?).value(INTEGER)?;
        let leading_zeros = modulus.iter().take_while(|byte| **byte == 0).count();
        Some((modulus.len() - leading_zeros) * 8)
    }

    /// The reason to refuse the signature.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        let algorithms = self.algorithms();
        if algorithms.is_empty() {
            return Some("x509: cannot verify signature: algorithm unimplemented");
        }
        let is_valid = |algorithm: &&'static dyn VerificationAlgorithm| {
            let key = UnparsedPublicKey::new(*algorithm, self.key);
            key.verify(self.info, self.signature).is_ok()
        };
        if algorithms.iter().any(is_valid) {
            return None;
        }
        Some(match self.key_type {
            oid::RSA_KEY => "crypto/rsa: verification error",
            oid::EC_KEY => "x509: ECDSA verification failure",
            _ => "x509: Ed25519 verification failure",
        })
    }

    /// The algorithms that the signature may have. The hash of RSA-PSS is a parameter, which is not read.
    fn algorithms(&self) -> &'static [&'static dyn VerificationAlgorithm] {
        match (self.key_type, self.curve, self.algorithm) {
            (oid::RSA_KEY, _, oid::RSA_SHA256) => {
                &[&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY]
            }
            (oid::RSA_KEY, _, oid::RSA_SHA384) => &[&signature::RSA_PKCS1_2048_8192_SHA384],
            (oid::RSA_KEY, _, oid::RSA_SHA512) => {
                &[&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY]
            }
            (oid::RSA_KEY, _, oid::RSA_PSS) => &[
                &signature::RSA_PSS_2048_8192_SHA256,
                &signature::RSA_PSS_2048_8192_SHA384,
                &signature::RSA_PSS_2048_8192_SHA512,
            ],
            (oid::EC_KEY, oid::P256, oid::ECDSA_SHA256) => &[&signature::ECDSA_P256_SHA256_ASN1],
            (oid::EC_KEY, oid::P256, oid::ECDSA_SHA384) => &[&signature::ECDSA_P256_SHA384_ASN1],
            (oid::EC_KEY, oid::P384, oid::ECDSA_SHA256) => &[&signature::ECDSA_P384_SHA256_ASN1],
            (oid::EC_KEY, oid::P384, oid::ECDSA_SHA384) => &[&signature::ECDSA_P384_SHA384_ASN1],
            (oid::EC_KEY, oid::P521, oid::ECDSA_SHA256) => &[&signature::ECDSA_P521_SHA256_ASN1],
            (oid::EC_KEY, oid::P521, oid::ECDSA_SHA384) => &[&signature::ECDSA_P521_SHA384_ASN1],
            (oid::EC_KEY, oid::P521, oid::ECDSA_SHA512) => &[&signature::ECDSA_P521_SHA512_ASN1],
            (oid::ED25519, _, oid::ED25519) => &[&signature::ED25519],
            _ => &[],
        }
    }
}

/// What a request in PKCS#10 asks for, as far as signers look at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The subject, in DER.
    pub subject: Vec<u8>,
    /// The common name: the user.
    pub common_name: String,
    /// The organizations: the groups.
    pub organizations: Vec<String>,
    /// The key with its algorithm, in DER.
    pub public_key: Vec<u8>,
    /// The alternative names that Kubernetes knows, in order.
    pub alternative_names: Vec<AlternativeName>,
}

/// An alternative name of a subject, with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlternativeName {
    /// A mail address.
    Email(Vec<u8>),
    /// A host name.
    Dns(Vec<u8>),
    /// A URI.
    Uri(Vec<u8>),
    /// The 4 or 16 bytes of an IP address.
    Ip(Vec<u8>),
}

impl AlternativeName {
    fn read(tag: u8, value: &[u8]) -> Option<Self> {
        let name = match tag {
            0x81 => Self::Email,
            0x82 => Self::Dns,
            0x86 => Self::Uri,
            0x87 => Self::Ip,
            _ => return None,
        };
        Some(name(value.to_vec()))
    }

    /// The tag in DER and the bytes.
    pub fn tagged(&self) -> (u8, &[u8]) {
        match self {
            Self::Email(bytes) => (0x81, bytes),
            Self::Dns(bytes) => (0x82, bytes),
            Self::Uri(bytes) => (0x86, bytes),
            Self::Ip(bytes) => (0x87, bytes),
        }
    }
}

impl CertificateRequest {
    /// Reads a request in PEM; `None` if it cannot be read.
    pub fn from_pem(pem: &str) -> Option<Self> {
        let blocks = blocks(pem);
        let request = blocks.iter().find(|block| block.label == "CERTIFICATE REQUEST")?;
        let mut info = Der(Der(&request.bytes).value(SEQUENCE)?);
        let mut info = Der(info.value(SEQUENCE)?);
        info.value(INTEGER)?;
        let (subject, names) = info.whole(SEQUENCE)?;
        let (public_key, _) = info.whole(SEQUENCE)?;
        let mut request = Self {
            subject: subject.to_vec(),
            public_key: public_key.to_vec(),
            ..Self::default()
        };
        request.read_subject(Der(names))?;
        if let Some((ATTRIBUTES, attributes)) = info.next() {
            request.read_attributes(Der(attributes))?;
        }
        Some(request)
    }

    fn read_subject(&mut self, mut subject: Der<'_>) -> Option<()> {
        while !subject.0.is_empty() {
            let mut names = Der(subject.value(SET)?);
            while !names.0.is_empty() {
                let mut name = Der(names.value(SEQUENCE)?);
                let kind = name.value(OBJECT_IDENTIFIER)?;
                let (_, text) = name.next()?;
                let text = String::from_utf8_lossy(text).into_owned();
                if kind == ORGANIZATION {
                    self.organizations.push(text);
                } else if kind == COMMON_NAME {
                    self.common_name = text;
                }
            }
        }
        Some(())
    }

    /// Reads the alternative names out of the requested extensions.
    fn read_attributes(&mut self, mut attributes: Der<'_>) -> Option<()> {
        while !attributes.0.is_empty() {
            let mut attribute = Der(attributes.value(SEQUENCE)?);
            if attribute.value(OBJECT_IDENTIFIER)? != EXTENSION_REQUEST {
                continue;
            }
            let mut extensions = Der(Der(attribute.value(SET)?).value(SEQUENCE)?);
            while !extensions.0.is_empty() {
                let mut extension = Der(extensions.value(SEQUENCE)?);
                if extension.value(OBJECT_IDENTIFIER)? != SUBJECT_ALTERNATIVE_NAME {
                    continue;
                }
                let (mut tag, mut value) = extension.next()?;
                if tag == BOOLEAN {
                    (tag, value) = extension.next()?;
                }
                let names = (tag == OCTET_STRING).then_some(value)?;
                let mut names = Der(Der(names).value(SEQUENCE)?);
                while !names.0.is_empty() {
                    let (tag, value) = names.next()?;
                    self.alternative_names.extend(AlternativeName::read(tag, value));
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
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
        let info = [der(INTEGER, &[0]), der(SEQUENCE, &names), der(SEQUENCE, &[])].concat();
        der(SEQUENCE, &der(SEQUENCE, &info))
    }

    fn organizations(pem: &str) -> Option<Vec<String>> {
        CertificateRequest::from_pem(pem).map(|request| request.organizations)
    }

    const REQUESTS: [&str; 4] = [
        include_str!("certificate_request/p256.pem"),
        include_str!("certificate_request/p521.pem"),
        include_str!("certificate_request/ed25519.pem"),
        include_str!("certificate_request/rsa_pss.pem"),
    ];

    #[test]
    fn a_request_must_be_signed_by_its_own_key() {
        for request in REQUESTS {
            assert_eq!(refusal(request), None, "{request}");
            let all = blocks(request);
            let mut bytes = all[0].bytes.clone();
            // A letter of the name.
            let name = bytes.windows(3).position(|word| word == b"zoe").unwrap();
            bytes[name] = b'Z';
            let why = refusal(&pem(&bytes)).unwrap();
            assert!(why.contains("verification"), "{why}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_in_gos_words() {
        let no_block = Some("PEM block type must be CERTIFICATE REQUEST");
        assert_eq!(refusal("nonsense"), no_block);
        assert_eq!(
            refusal(&REQUESTS[0].replace("CERTIFICATE REQUEST", "CERTIFICATE")),
            no_block
        );
        assert_eq!(
            refusal(&pem(&request(&[]))),
            Some("asn1: syntax error: data truncated")
        );
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
    fn user_and_alternative_names_are_read() {
        let request = CertificateRequest::from_pem(include_str!("certificate_request/names.pem")).unwrap();
        assert_eq!(request.common_name, "system:node:n1");
        assert_eq!(request.organizations, ["system:nodes"]);
        let names = [
            AlternativeName::Dns(b"n1.example.com".to_vec()),
            AlternativeName::Ip(vec![10, 0, 0, 1]),
            AlternativeName::Email(b"a@example.com".to_vec()),
            AlternativeName::Uri(b"spiffe://x/y".to_vec()),
        ];
        assert_eq!(request.alternative_names, names);
        assert_eq!(request.public_key[0], SEQUENCE);
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
            prop_assert!(refusal(&pem(&bytes)).is_some());
        }
    }
}
