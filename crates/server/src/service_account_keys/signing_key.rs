//! A private key that signs service account tokens: generated, or read from the store or a file.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};

use super::public_key::{CURVES, PublicKey};

/// A key that signs tokens: a secret.
pub(crate) struct SigningKey {
    key: Pair,
    public: PublicKey,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    /// Generates a key.
    pub(crate) fn random() -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .expect("the system has a source of randomness");
        Self::new(Pair::Ecdsa(key)).expect("a key that was made here can be used")
    }

    /// Reads a key, DER: PKCS#8, PKCS#1 or SEC1. `None` if it is damaged or not supported.
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        let ecdsa = || {
            let mut curves = CURVES.iter();
            curves.find_map(|curve| EcdsaKeyPair::from_private_key_der(curve.signing, der).ok())
        };
        let rsa = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
        match rsa {
            Ok(rsa) => Self::new(Pair::Rsa(rsa)),
            Err(_) => Self::new(Pair::Ecdsa(ecdsa()?)),
        }
    }

    /// The stored form of the key, PKCS#8: a secret.
    pub(crate) fn to_pkcs8(&self) -> Vec<u8> {
        let bytes = match &self.key {
            Pair::Ecdsa(key) => key.to_pkcs8v1().map(|bytes| bytes.as_ref().to_vec()),
            Pair::Rsa(key) => key.as_der().map(|bytes: Pkcs8V1Der<'_>| bytes.as_ref().to_vec()),
        };
        bytes.expect("a key in memory can be written")
    }

    fn new(key: Pair) -> Option<Self> {
        let der: Result<PublicKeyX509Der<'_>, _> = match &key {
            Pair::Ecdsa(key) => key.public_key().as_der(),
            Pair::Rsa(key) => key.public_key().as_der(),
        };
        let public = PublicKey::from_der(der.ok()?.as_ref())?;
        Some(Self { key, public })
    }

    /// The public key.
    pub(crate) fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The signature of these bytes.
    pub(crate) fn sign(&self, said: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let signature = match &self.key {
            Pair::Ecdsa(key) => key
                .sign(&random, said)
                .map(|signature| signature.as_ref().to_vec()),
            Pair::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, said, &mut signature)
                    .map(|()| signature)
            }
        };
        signature.expect("the system has a source of randomness")
    }
}
