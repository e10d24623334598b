//! The keys of service account tokens: one signs them, and several verify them.
//!
//! A server in memory generates a key, and its tokens end with it; others store it ([`identity`](crate::identity)),
//! or read it from files ([`IdentityFiles`](crate::IdentityFiles)). The public keys are served for offline
//! verification (OpenID Connect discovery).

mod public_key;
mod signing_key;

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub(crate) use public_key::PublicKey;
pub(crate) use signing_key::SigningKey;

/// The default issuer and audience of tokens.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// The keys of a server, or of all servers that share a store.
pub(crate) struct ServiceAccountKeys {
    signing: SigningKey,
    /// Keys of tokens that were signed elsewhere or earlier.
    others: Vec<PublicKey>,
}

impl ServiceAccountKeys {
    /// Signs tokens with one key; accepts those signed by any of the keys.
    pub(crate) fn new(signing: SigningKey, mut others: Vec<PublicKey>) -> Self {
        others.retain(|key| key.id != signing.public().id);
        Self { signing, others }
    }

    /// A random key.
    pub(crate) fn random() -> Self {
        Self::new(SigningKey::random(), Vec::new())
    }

    /// The signing key.
    pub(crate) fn signing(&self) -> &SigningKey {
        &self.signing
    }

    fn all(&self) -> impl Iterator<Item = &PublicKey> {
        std::iter::once(self.signing.public()).chain(&self.others)
    }

    /// The public keys as a JSON Web Key Set.
    pub(crate) fn to_json(&self) -> Value {
        let keys: Vec<Value> = self.all().map(PublicKey::to_json).collect();
        json!({ "keys": keys })
    }

    /// The names of the algorithms of all keys.
    pub(crate) fn algorithms(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.all().map(|key| key.algorithm.name()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The claims of a token, if it is signed by one of the keys, for one of these audiences, by one of these
    /// issuers, and has not expired; `now` in seconds.
    pub(crate) fn claims<'a>(
        &self,
        token: &str,
        issuers: &[String],
        audiences: &[&'a str],
        now: i64,
    ) -> Option<(Value, Vec<&'a str>)> {
        let (said, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !self.all().any(|key| key.verifies(said.as_bytes(), &signature)) {
            return None;
        }
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
        let is_ours = issuers.iter().any(|issuer| claims["iss"] == **issuer);
        let lasts = (number("nbf")..number("exp")).contains(&now);
        (is_ours && !meant.is_empty() && lasts).then_some((claims, meant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, PublicKeyData as _};

    fn token(keys: &ServiceAccountKeys, audience: &str) -> String {
        let claims = json!({
            "aud": [audience],
            "exp": 200,
            "iss": ISSUER,
            "nbf": 100,
            "sub": "system:serviceaccount:default:robot",
        });
        let said = format!("e30.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(keys.signing().sign(said.as_bytes()));
        format!("{said}.{signature}")
    }

    /// The subject of a token for this server at a time.
    fn subject(keys: &ServiceAccountKeys, token: &str, now: i64) -> Option<String> {
        let (claims, _) = keys.claims(token, &[ISSUER.to_owned()], &[ISSUER], now)?;
        Some(claims["sub"].as_str().unwrap().to_owned())
    }

    #[test]
    fn a_token_is_accepted_while_it_is_valid() {
        let keys = ServiceAccountKeys::random();
        let token = token(&keys, ISSUER);
        let issuers = [ISSUER.to_owned()];
        let (claims, meant) = keys.claims(&token, &issuers, &["other", ISSUER], 150).unwrap();
        assert_eq!(meant, [ISSUER]);
        assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
        for (now, why) in [(99, "not yet"), (200, "no longer")] {
            assert_eq!(subject(&keys, &token, now), None, "{why}");
        }
    }

    #[test]
    fn a_token_is_verified_with_the_public_key() {
        let keys = ServiceAccountKeys::random();
        let json = keys.to_json();
        let decode = |name: &str| {
            let text = json["keys"][0][name].as_str().unwrap();
            URL_SAFE_NO_PAD.decode(text).unwrap()
        };
        let point = [&[4][..], &decode("x"), &decode("y")].concat();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        let signature = keys.signing().sign(b"said");
        assert!(public.verify(b"said", &signature).is_ok());
        assert!(public.verify(b"sad", &signature).is_err());
        assert_eq!(json["keys"][0]["kid"], keys.signing().public().id);
    }

    #[test]
    fn keys_of_every_type_sign_and_verify() {
        for (algorithm, name, kind) in [
            (&PKCS_RSA_SHA256, "RS256", "RSA"),
            (&PKCS_ECDSA_P384_SHA384, "ES384", "EC"),
        ] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            let signs = SigningKey::from_der(pair.serialized_der()).unwrap();
            let again = SigningKey::from_der(&signs.to_pkcs8()).unwrap();
            assert_eq!(again.public().id, signs.public().id);
            let signs = ServiceAccountKeys::new(signs, Vec::new());
            let public = PublicKey::from_der(&pair.subject_public_key_info()).unwrap();
            let knows = ServiceAccountKeys::new(SigningKey::random(), vec![public]);
            let token = token(&signs, ISSUER);
            assert!(subject(&knows, &token, 150).is_some(), "{name}");
            assert_eq!(signs.algorithms(), [name]);
            assert_eq!(knows.to_json()["keys"][1]["kty"], kind);
            let der = pair.subject_public_key_info();
            for length in 0..der.len() {
                assert!(PublicKey::from_der(&der[..length]).is_none(), "{length}");
            }
        }
    }

    #[test]
    fn tokens_of_other_issuers_and_audiences_are_rejected() {
        let keys = ServiceAccountKeys::random();
        let foreign = token(&ServiceAccountKeys::random(), ISSUER);
        assert_eq!(subject(&keys, &foreign, 150), None);
        assert_eq!(subject(&keys, &token(&keys, "vault"), 150), None);
        let elsewhere = ["https://elsewhere".to_owned()];
        let token = token(&keys, ISSUER);
        assert_eq!(keys.claims(&token, &elsewhere, &[ISSUER], 150), None);
        for text in ["", "a.b", "a.b.c", "...."] {
            assert_eq!(subject(&keys, text, 150), None, "{text}");
        }
    }
}
