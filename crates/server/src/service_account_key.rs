//! The key that signs the tokens of service accounts, and knows them again.
//!
//! A server in memory makes one for itself, and its tokens end with it; others keep it in their store
//! ([`identity`](crate::identity)). The public half is served to whoever wants to check a token without asking (OpenID
//! Connect discovery).

use std::collections::HashSet;

use aws_lc_rs::digest;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// Who issues tokens, and whom they are for if nobody says.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// How tokens are signed, as their header calls it.
pub(crate) const ALGORITHM: &str = "ES256";

/// The bytes of one coordinate of a public key. The key is a byte that says "uncompressed" and two of them.
const COORDINATE_BYTES: usize = 32;

/// A key of one server, or of all that share a store.
pub(crate) struct ServiceAccountKey {
    key: EcdsaKeyPair,
    id: String,
}

impl ServiceAccountKey {
    /// Makes a key nobody can guess.
    pub(crate) fn random() -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .expect("the system has a source of randomness");
        Self::new(key)
    }

    /// Reads a key; `None` if it is damaged.
    pub(crate) fn from_pkcs8(bytes: &[u8]) -> Option<Self> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes);
        key.ok().map(Self::new)
    }

    /// The key as it is kept: a secret.
    pub(crate) fn to_pkcs8(&self) -> Vec<u8> {
        let bytes = self.key.to_pkcs8v1();
        bytes.expect("a key in memory can be written").as_ref().to_vec()
    }

    fn new(key: EcdsaKeyPair) -> Self {
        let id = digest::digest(&digest::SHA256, key.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(id.as_ref());
        Self { key, id }
    }

    /// What the header of a token calls the key.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The signature of these bytes.
    pub(crate) fn sign(&self, said: &[u8]) -> Vec<u8> {
        let signature = self.key.sign(&SystemRandom::new(), said);
        let signature = signature.expect("the system has a source of randomness");
        signature.as_ref().to_vec()
    }

    /// The public half as a set of one JSON Web Key.
    pub(crate) fn public_keys(&self) -> Value {
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(COORDINATE_BYTES);
        let [x, y] = [x, y].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate));
        let key = json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM, "x": x, "y": y,
        });
        json!({ "keys": [key] })
    }

    /// What a token says, if this server issued it for one of these audiences and it has not run out; `now` in
    /// seconds.
    pub(crate) fn claims<'a>(
        &self,
        token: &str,
        audiences: &[&'a str],
        now: i64,
    ) -> Option<(Value, Vec<&'a str>)> {
        let (said, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        public.verify(said.as_bytes(), &signature).ok()?;
        let claims = URL_SAFE_NO_PAD.decode(said.split_once('.')?.1).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        let number = |name: &str| claims[name].as_i64().unwrap_or_default();
        let named: HashSet<&str> = claims["aud"]
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let meant = audiences
            .iter()
            .copied()
            .filter(|audience| named.contains(audience));
        let meant: Vec<&str> = meant.collect();
        let lasts = (number("nbf")..number("exp")).contains(&now);
        (!meant.is_empty() && lasts).then_some((claims, meant))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(key: &ServiceAccountKey, audience: &str) -> String {
        let claims = json!({
            "aud": [audience],
            "exp": 200,
            "nbf": 100,
            "sub": "system:serviceaccount:default:robot",
        });
        let said = format!("e30.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(said.as_bytes()));
        format!("{said}.{signature}")
    }

    #[test]
    fn a_token_is_known_while_it_lasts() {
        let key = ServiceAccountKey::random();
        let token = token(&key, ISSUER);
        let (claims, meant) = key.claims(&token, &["other", ISSUER], 150).unwrap();
        assert_eq!(meant, [ISSUER]);
        assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
        for (now, why) in [(99, "not yet"), (200, "no longer")] {
            assert_eq!(key.claims(&token, &[ISSUER], now), None, "{why}");
        }
    }

    #[test]
    fn the_public_key_is_enough_to_know_a_token() {
        let key = ServiceAccountKey::random();
        let keys = key.public_keys();
        let decode = |name: &str| {
            let text = keys["keys"][0][name].as_str().unwrap();
            URL_SAFE_NO_PAD.decode(text).unwrap()
        };
        let point = [&[4][..], &decode("x"), &decode("y")].concat();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        assert!(public.verify(b"said", &key.sign(b"said")).is_ok());
        assert!(public.verify(b"sad", &key.sign(b"said")).is_err());
        assert_eq!(keys["keys"][0]["kid"], key.id());
    }

    #[test]
    fn tokens_of_others_and_for_others_are_worth_nothing() {
        let key = ServiceAccountKey::random();
        assert_eq!(
            key.claims(&token(&ServiceAccountKey::random(), ISSUER), &[ISSUER], 150),
            None
        );
        assert_eq!(key.claims(&token(&key, "vault"), &[ISSUER], 150), None);
        for text in ["", "a.b", "a.b.c", "...."] {
            assert_eq!(key.claims(text, &[ISSUER], 150), None, "{text}");
        }
    }
}
