//! A public key of service account tokens: verifies signatures, and is served as a JSON Web Key.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaSigningAlgorithm, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::der::{Reader, tag};

/// `1.2.840.113549.1.1.1`, rsaEncryption.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// `1.2.840.10045.2.1`, ecPublicKey; its parameter is the curve.
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// `1.2.840.10045.3.1.7`, `1.3.132.0.34` and `1.3.132.0.35`: the curves.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];

/// The signature algorithm of tokens, as supported by kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Es256,
    Es384,
    Es512,
}

/// An elliptic curve, with its names in the libraries and in JSON Web Keys.
pub(super) struct Curve {
    pub(super) algorithm: Algorithm,
    pub(super) signing: &'static EcdsaSigningAlgorithm,
    id: &'static [u8],
    name: &'static str,
}

/// The supported curves.
pub(super) const CURVES: [Curve; 3] = [
    Curve {
        algorithm: Algorithm::Es256,
        signing: &ECDSA_P256_SHA256_FIXED_SIGNING,
        id: P256,
        name: "P-256",
    },
    Curve {
        algorithm: Algorithm::Es384,
        signing: &ECDSA_P384_SHA384_FIXED_SIGNING,
        id: P384,
        name: "P-384",
    },
    Curve {
        algorithm: Algorithm::Es512,
        signing: &ECDSA_P521_SHA512_FIXED_SIGNING,
        id: P521,
        name: "P-521",
    },
];

impl Algorithm {
    /// The name of the algorithm in the header of a token.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Self::Es256 => &ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &ECDSA_P384_SHA384_FIXED,
            Self::Es512 => &ECDSA_P521_SHA512_FIXED,
        }
    }
}

/// A key that verifies tokens.
#[derive(Clone, Debug)]
pub(crate) struct PublicKey {
    pub(crate) algorithm: Algorithm,
    /// The key id in the header of a token: a hash of the key, as in kube-apiserver.
    pub(crate) id: String,
    /// An `RSAPublicKey`, or an uncompressed point.
    key: Vec<u8>,
}

impl PublicKey {
    /// Reads a `SubjectPublicKeyInfo`, DER; `None` if its type is not supported.
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        let mut info = Reader(Reader(der).read(tag::SEQUENCE)?);
        let mut kind = Reader(info.read(tag::SEQUENCE)?);
        let algorithm = match kind.read(tag::OBJECT_IDENTIFIER)? {
            RSA => Algorithm::Rs256,
            EC => {
                let curve = kind.read(tag::OBJECT_IDENTIFIER)?;
                CURVES.iter().find(|known| known.id == curve)?.algorithm
            }
            _ => return None,
        };
        // The first byte is the number of unused bits: zero.
        let (_, key) = info.read(tag::BIT_STRING)?.split_first()?;
        let id = digest::digest(&digest::SHA256, der);
        Some(Self {
            algorithm,
            id: URL_SAFE_NO_PAD.encode(id.as_ref()),
            key: key.to_vec(),
        })
    }

    /// True if the private key of this key signed these bytes.
    pub(crate) fn verifies(&self, said: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(self.algorithm.verification(), &self.key);
        key.verify(said, signature).is_ok()
    }

    /// The key as a JSON Web Key.
    pub(crate) fn to_json(&self) -> Value {
        let mut key = json!({"use": "sig", "kid": self.id, "alg": self.algorithm.name()});
        match CURVES.iter().find(|curve| curve.algorithm == self.algorithm) {
            Some(curve) => {
                // A byte that means "uncompressed", and two coordinates.
                let point = self.key.get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                key["kty"] = json!("EC");
                key["crv"] = json!(curve.name);
                key["x"] = json!(URL_SAFE_NO_PAD.encode(x));
                key["y"] = json!(URL_SAFE_NO_PAD.encode(y));
            }
            None => {
                let mut numbers = Reader(Reader(&self.key).read(tag::SEQUENCE).unwrap_or_default());
                let mut number = || {
                    let bytes = numbers.read(tag::INTEGER).unwrap_or_default();
                    // DER prefixes positive numbers with a zero byte if necessary.
                    URL_SAFE_NO_PAD.encode(bytes.strip_prefix(&[0]).unwrap_or(bytes))
                };
                key["kty"] = json!("RSA");
                key["n"] = json!(number());
                key["e"] = json!(number());
            }
        }
        key
    }
}
