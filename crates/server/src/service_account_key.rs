//! The key that signs the tokens of service accounts, and knows them again.
//!
//! It is made anew with every server and never leaves it: tokens end with the server that issued them, or earlier,
//! when they say so. Whether the account is still there is not asked again.

use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use watchkeeper_registry::User;

/// Who issues tokens, and whom they are for if nobody says.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// How tokens are signed, as their header calls it.
pub(crate) const ALGORITHM: &str = "HS256";

/// The bytes of randomness in a key: as many as the hash has.
const KEY_BYTES: usize = 32;

/// A key of one server.
pub(crate) struct ServiceAccountKey {
    key: hmac::Key,
    id: String,
}

impl ServiceAccountKey {
    /// Makes a key nobody can guess.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; KEY_BYTES + 8];
        rand::fill(&mut bytes).expect("the system has a source of randomness");
        let (secret, id) = bytes.split_at(KEY_BYTES);
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            id: URL_SAFE_NO_PAD.encode(id),
        }
    }

    /// What the header of a token calls the key.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The signature of these bytes.
    pub(crate) fn sign(&self, said: &[u8]) -> Vec<u8> {
        hmac::sign(&self.key, said).as_ref().to_vec()
    }

    /// Whom a token speaks of, if this server issued it for itself and it has not run out; `now` in seconds.
    pub(crate) fn user(&self, token: &str, now: i64) -> Option<User> {
        let (said, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, said.as_bytes(), &signature).ok()?;
        let claims = URL_SAFE_NO_PAD.decode(said.split_once('.')?.1).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        let number = |name: &str| claims[name].as_i64().unwrap_or_default();
        let is_for_us = claims["aud"]
            .as_array()?
            .iter()
            .any(|audience| audience == ISSUER);
        if !is_for_us || now < number("nbf") || now >= number("exp") {
            return None;
        }
        let text = |pointer: &str| claims.pointer(pointer).and_then(Value::as_str);
        let namespace = text("/kubernetes.io/namespace")?;
        let groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
        let uid = text("/kubernetes.io/serviceaccount/uid")?;
        Some(User::authenticated(text("/sub")?, uid, groups))
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
            "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "u"}},
        });
        let said = format!("e30.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(said.as_bytes()));
        format!("{said}.{signature}")
    }

    #[test]
    fn a_token_speaks_of_its_account_while_it_lasts() {
        let key = ServiceAccountKey::random();
        let token = token(&key, ISSUER);
        let user = key.user(&token, 150).unwrap();
        assert_eq!(user.name, "system:serviceaccount:default:robot");
        assert!(user.groups.contains(&"system:serviceaccounts:default".to_owned()));
        for (now, why) in [(99, "not yet"), (200, "no longer")] {
            assert_eq!(key.user(&token, now), None, "{why}");
        }
    }

    #[test]
    fn tokens_of_others_and_for_others_are_worth_nothing() {
        let key = ServiceAccountKey::random();
        assert_eq!(key.user(&token(&ServiceAccountKey::random(), ISSUER), 150), None);
        assert_eq!(key.user(&token(&key, "vault"), 150), None);
        for text in ["", "a.b", "a.b.c", "...."] {
            assert_eq!(key.user(text, 150), None, "{text}");
        }
    }
}
