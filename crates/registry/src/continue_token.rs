//! The continue token of a list: the start of the next page.
//!
//! The token is opaque to clients. It has the form of Kubernetes' own, so that traces can be read: base64 of
//! `{"v":"meta.k8s.io/v1","rv":783,"start":"/name\u0000"}`. `rv` is -1 in the token of an Expired error: continue at
//! the latest revision.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _, alphabet};
use serde::{Deserialize, Serialize};
use watchkeeper_storage::Revision;
use watchkeeper_wire::canonical::syntax_complaint;

/// The start of a page and the revision of its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of the first page; `None` for the latest.
    pub(crate) revision: Option<Revision>,
    /// The last key of the previous page, without the list's prefix.
    pub(crate) after: String,
}

/// A token that this server did not issue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ContinueTokenError {
    #[error("continue key is not valid: {0}")]
    Malformed(String),
    #[error("continue key is not valid: server does not recognize this encoded version")]
    Version,
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    Revision,
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    EmptyKey,
    #[error("continue key is not valid: {0}")]
    Path(String),
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

/// Decodes like Go: trailing bits are ignored.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The offset in Go's error: the invalid byte, or the start of an incomplete last group.
fn first_bad_byte(text: &str, error: &DecodeError) -> usize {
    match error {
        DecodeError::InvalidByte(offset, _) => *offset,
        _ => text.len() / 4 * 4,
    }
}

/// The `rv` that means the latest revision.
const LATEST: i64 = -1;

impl ContinueToken {
    pub(crate) fn encode(&self) -> String {
        let wire = Wire {
            v: "meta.k8s.io/v1".to_owned(),
            rv: self.revision.map_or(LATEST, |revision| revision.get() as i64),
            start: format!("/{}\0", self.after),
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    pub(crate) fn decode(text: &str) -> Result<Self, ContinueTokenError> {
        let json = LENIENT.decode(text).map_err(|error| {
            let offset = first_bad_byte(text, &error);
            ContinueTokenError::Malformed(format!("illegal base64 data at input byte {offset}"))
        })?;
        let wire: Wire = serde_json::from_slice(&json).map_err(|error| {
            let complaint = syntax_complaint(&json).unwrap_or_else(|| error.to_string());
            ContinueTokenError::Malformed(complaint)
        })?;
        if wire.v != "meta.k8s.io/v1" {
            return Err(ContinueTokenError::Version);
        }
        let revision = match wire.rv {
            0 => return Err(ContinueTokenError::Revision),
            LATEST => None,
            rv => Some(
                u64::try_from(rv)
                    .map(Revision::new)
                    .map_err(|_| ContinueTokenError::Revision)?,
            ),
        };
        let after = wire.start.trim_start_matches('/').trim_end_matches('\0');
        if after.is_empty() {
            return Err(ContinueTokenError::EmptyKey);
        }
        // A forged key must not leave the list's prefix.
        if after.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(ContinueTokenError::Path(wire.start));
        }
        Ok(Self {
            revision,
            after: after.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back_and_have_kubernetes_form() {
        let token = ContinueToken {
            revision: Some(Revision::new(783)),
            after: "d".into(),
        };
        assert_eq!(
            token.encode(),
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzgzLCJzdGFydCI6Ii9kXHUwMDAwIn0"
        );
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        let latest = ContinueToken {
            revision: None,
            after: "ns/d".into(),
        };
        assert_eq!(ContinueToken::decode(&latest.encode()), Ok(latest));
    }

    #[test]
    fn tokens_of_other_servers_are_rejected() {
        let encode = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for bad in [
            "x".to_owned(),
            encode("{}"),
            encode(r#"{"v":"v2","rv":1,"start":"/a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"/a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"/../secrets/a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
        ] {
            assert!(ContinueToken::decode(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn invalid_tokens_are_rejected_with_gos_error_texts() {
        let check = |text: &str, expected: &str| {
            let refused = ContinueToken::decode(text).unwrap_err().to_string();
            assert_eq!(
                refused,
                format!("continue key is not valid: {expected}"),
                "{text}"
            );
        };
        check("a*b", "illegal base64 data at input byte 1");
        check("abcde", "illegal base64 data at input byte 4");
        check("bm9wZQ", "invalid character 'o' in literal null (expecting 'u')");
        // Trailing bits are ignored, but the decoded text is not JSON.
        check("zzz", "invalid character 'Ï' looking for beginning of value");
    }
}
