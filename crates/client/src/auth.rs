//! Authentication of requests: the `Authorization` header, a client certificate, impersonation headers.
//!
//! [`Credentials`] become a [`Proof`] that is valid now. Token files are read again, exec plugins are run again when
//! their credential expires, and a 401 refreshes both at once. Credentials are never printed.

pub(crate) mod exec;
mod token_file;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::Secret;
use crate::config::{ConfigError, Credentials, Impersonate};
use crate::metrics::RequestMetrics;
use crate::tls::Identity;
use exec::ExecPlugin;
use token_file::TokenFile;

/// The reason no credential is available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A token file cannot be read.
    #[error("cannot read token file {path}")]
    TokenFile {
        /// The file.
        path: String,
        /// The error.
        source: std::io::Error,
    },
    /// A credential has characters that no header can carry.
    #[error("the credential from {from} cannot be sent in a header")]
    NotAHeader {
        /// Its source.
        from: String,
    },
    /// A credential plugin failed.
    #[error("credential plugin {command:?} {reason}")]
    Exec {
        /// The program.
        command: String,
        /// The error.
        reason: String,
    },
}

/// The credentials of one client.
pub(crate) struct Auth {
    source: Source,
    impersonation: HeaderMap,
}

enum Source {
    Fixed(Proof),
    TokenFile(TokenFile),
    Exec(Arc<ExecPlugin>),
}

/// The credential sent with a request.
#[derive(Clone, Default)]
pub(crate) struct Proof {
    authorization: Option<HeaderValue>,
    /// A certificate for the TLS handshake, if a plugin issued one.
    pub(crate) identity: Option<Identity>,
    /// Distinguishes one credential from the next.
    serial: u64,
}

impl Auth {
    /// Plugin calls are counted in `metrics`.
    pub(crate) fn new(
        credentials: &Credentials,
        impersonate: &Impersonate,
        metrics: Option<Arc<RequestMetrics>>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            source: Source::new(credentials, metrics)?,
            impersonation: impersonation(impersonate)?,
        })
    }

    /// The currently valid credential; runs a plugin or reads a file if necessary.
    pub(crate) async fn proof(&self) -> Result<Proof, AuthError> {
        match &self.source {
            Source::Fixed(proof) => Ok(proof.clone()),
            Source::TokenFile(file) => file.proof(),
            Source::Exec(plugin) => plugin.proof().await,
        }
    }

    /// The server rejected `proof`. Returns true if there may be a newer one.
    pub(crate) async fn rejected(&self, proof: &Proof) -> bool {
        match &self.source {
            Source::Fixed(_) => false,
            Source::TokenFile(file) => file.rejected(proof),
            Source::Exec(plugin) => {
                plugin.rejected(proof).await;
                true
            }
        }
    }

    /// Adds the credential to a request. A header set by the caller takes precedence.
    pub(crate) fn apply(&self, proof: &Proof, headers: &mut HeaderMap) {
        if let Some(value) = &proof.authorization
            && !headers.contains_key(AUTHORIZATION)
        {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if !self.impersonation.is_empty() && !headers.contains_key("impersonate-user") {
            headers.extend(self.impersonation.clone());
        }
    }
}

impl Source {
    fn new(credentials: &Credentials, metrics: Option<Arc<RequestMetrics>>) -> Result<Self, ConfigError> {
        let proof = |value: Result<HeaderValue, AuthError>| match value {
            Ok(value) => Ok(Proof {
                authorization: Some(value),
                ..Proof::default()
            }),
            Err(error) => Err(ConfigError::Invalid {
                field: "credentials",
                reason: error.to_string(),
            }),
        };
        let of_token = |token| proof(bearer(token, "the configuration"));
        match credentials {
            Credentials::Anonymous => Ok(Self::Fixed(Proof::default())),
            Credentials::Token(token) => of_token(token).map(Self::Fixed),
            Credentials::TokenFile { path, fallback } => {
                let fallback = fallback.as_ref().map(of_token).transpose()?;
                Ok(Self::TokenFile(TokenFile::new(path.clone(), fallback)))
            }
            Credentials::Basic { username, password } => {
                let pair = STANDARD.encode(format!("{username}:{}", password.expose()));
                proof(sensitive(&format!("Basic {pair}"), "the configuration")).map(Self::Fixed)
            }
            Credentials::Exec(plugin) => Ok(Self::Exec(ExecPlugin::new(plugin.clone(), metrics))),
        }
    }
}

/// `Bearer …`, marked so that it does not print.
fn bearer(token: &Secret, from: &str) -> Result<HeaderValue, AuthError> {
    sensitive(&format!("Bearer {}", token.expose().trim()), from)
}

fn sensitive(text: &str, from: &str) -> Result<HeaderValue, AuthError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| AuthError::NotAHeader {
        from: from.to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Characters of an extra attribute's key that are percent-encoded in a header name.
const HEADER_KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

fn impersonation(impersonate: &Impersonate) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    if impersonate.is_empty() {
        return Ok(headers);
    }
    let invalid = |reason: String| ConfigError::Invalid {
        field: "impersonation",
        reason,
    };
    if impersonate.user.is_empty() {
        return Err(invalid(
            "groups, uid or extra attributes need a user to go with".to_owned(),
        ));
    }
    let mut put = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| invalid(error.to_string()))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| invalid(format!("{value:?} cannot be sent in a header")))?;
        headers.append(name, value);
        Ok::<_, ConfigError>(())
    };
    put("impersonate-user", &impersonate.user)?;
    if !impersonate.uid.is_empty() {
        put("impersonate-uid", &impersonate.uid)?;
    }
    for group in &impersonate.groups {
        put("impersonate-group", group)?;
    }
    for (key, values) in &impersonate.extra {
        let name = format!("impersonate-extra-{}", utf8_percent_encode(key, HEADER_KEY));
        for value in values {
            put(&name, value)?;
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn headers(credentials: Credentials, impersonate: Impersonate) -> Vec<String> {
        let auth = Auth::new(&credentials, &impersonate, None).unwrap();
        let mut headers = HeaderMap::new();
        auth.apply(&auth.proof().await.unwrap(), &mut headers);
        assert!(!format!("{headers:?}").contains("secret"), "{headers:?}");
        let text =
            |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        headers.iter().map(text).collect()
    }

    #[tokio::test]
    async fn credentials_become_headers() {
        let none = Impersonate::default;
        let token = Credentials::Token(Secret::new("secret\n"));
        assert_eq!(headers(token, none()).await, ["authorization: Bearer secret"]);
        let basic = Credentials::Basic {
            username: "u".to_owned(),
            password: Secret::new("p"),
        };
        assert_eq!(headers(basic, none()).await, ["authorization: Basic dTpw"]);
        assert!(headers(Credentials::Anonymous, none()).await.is_empty());
    }

    #[tokio::test]
    async fn impersonation_becomes_headers() {
        let impersonate = Impersonate {
            user: "jane".to_owned(),
            uid: "7".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: [("acme.com/project".to_owned(), vec!["x".to_owned()])].into(),
        };
        assert_eq!(
            headers(Credentials::Anonymous, impersonate).await,
            [
                "impersonate-user: jane",
                "impersonate-uid: 7",
                "impersonate-group: a",
                "impersonate-group: b",
                "impersonate-extra-acme.com%2fproject: x",
            ]
        );
        let groups_alone = Impersonate {
            groups: vec!["a".to_owned()],
            ..Default::default()
        };
        assert!(Auth::new(&Credentials::Anonymous, &groups_alone, None).is_err());
    }
}
