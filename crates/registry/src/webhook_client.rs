//! The `clientConfig` of a webhook, its address and certificate authorities, and the envelope of its answers.

mod transport;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

pub use self::transport::{WebhookCall, WebhookTransport};

/// The default port of a webhook's service.
const HTTPS: u16 = 443;

/// The answer of a webhook, around its response: an `AdmissionReview` or a `ConversionReview`.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Review<R> {
    api_version: String,
    kind: String,
    pub(crate) response: Option<R>,
}

impl<R> Default for Review<R> {
    fn default() -> Self {
        Self {
            api_version: String::new(),
            kind: String::new(),
            response: None,
        }
    }
}

impl<R> Review<R> {
    /// Fails with Kubernetes' text unless the answer has the type of the request.
    pub(crate) fn check_type(&self, api_version: &str, kind: &str) -> Result<(), String> {
        match self.api_version == api_version && self.kind == kind {
            true => Ok(()),
            false => Err(format!(
                "expected webhook response of {api_version}, Kind={kind}, got {}, Kind={}",
                self.api_version, self.kind
            )),
        }
    }
}

/// A webhook as its `clientConfig` describes it.
#[derive(Debug)]
pub(crate) struct WebhookClient {
    pub(crate) destination: Destination,
    /// The certificate authorities of its server certificate, PEM.
    pub(crate) authorities: Option<Vec<u8>>,
}

/// The location of a webhook.
#[derive(Debug)]
pub(crate) enum Destination {
    Url(String),
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
}

impl WebhookClient {
    /// Reads a validated `clientConfig`.
    pub(crate) fn read(client: &Value) -> Self {
        let bundle = client["caBundle"].as_str().unwrap_or_default();
        let authorities = STANDARD.decode(bundle).unwrap_or_default();
        Self {
            destination: Destination::read(client),
            authorities: (!authorities.is_empty()).then_some(authorities),
        }
    }
}

impl Destination {
    fn read(client: &Value) -> Self {
        let service = &client["service"];
        if service.is_null() {
            return Self::Url(text(client, "url"));
        }
        let port = service["port"].as_u64().and_then(|port| port.try_into().ok());
        Self::Service {
            namespace: text(service, "namespace"),
            name: text(service, "name"),
            port: port.unwrap_or(HTTPS),
            path: text(service, "path"),
        }
    }

    /// The URL to call, with the timeout as a parameter.
    pub(crate) fn url(&self, timeout: Duration) -> String {
        let seconds = timeout.as_secs();
        let (host, path) = match self {
            Self::Url(url) => {
                let start = url.find("://").map_or(0, |at| at + "://".len());
                let end = url[start..].find('/').map_or(url.len(), |at| start + at);
                (url[..end].to_owned(), &url[end..])
            }
            Self::Service {
                namespace,
                name,
                port,
                path,
            } => (format!("https://{name}.{namespace}.svc:{port}"), path.as_str()),
        };
        format!("{host}{}?timeout={seconds}s", clean(path))
    }
}

/// Normalizes a path as client-go does: collapses slashes, removes a trailing slash and resolves dot segments.
fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_url_follows_the_configuration() {
        let check = |client: Value, expected: &str| {
            let destination = Destination::read(&client);
            assert_eq!(destination.url(Duration::from_secs(5)), expected);
        };
        let url = |url: &str| json!({"url": url});
        check(
            url("https://example.com:8443/hook"),
            "https://example.com:8443/hook?timeout=5s",
        );
        let service = |path: Value| json!({"service": {"namespace": "n", "name": "s", "path": path}});
        check(service(json!("/a/b")), "https://s.n.svc:443/a/b?timeout=5s");
        check(service(json!("a/b")), "https://s.n.svc:443/a/b?timeout=5s");
        check(service(Value::Null), "https://s.n.svc:443/?timeout=5s");
    }

    /// Go's mux redirects other paths, and a redirected POST loses its body.
    #[test]
    fn paths_are_cleaned_as_client_go_cleans_them() {
        for (path, cleaned) in [
            ("", "/"),
            ("/", "/"),
            ("//hook", "/hook"),
            ("/a//b/", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/..", "/"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }
}
