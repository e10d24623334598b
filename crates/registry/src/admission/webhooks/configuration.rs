//! A webhook as its configuration describes it, read once for all writes.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::review::ReviewVersion;
use crate::admission::matching::Matching;
use crate::admission::policies::{Expression, conditions};
use crate::admission::request::Action;
use crate::definition::Definition;

/// How long a webhook may take that was stored without saying.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Where a service has its webhooks, unless the configuration says otherwise.
const HTTPS: u16 = 443;

/// A webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) matching: Matching,
    pub(super) conditions: Vec<Expression>,
    pub(super) destination: Destination,
    /// The authorities that may have signed its certificate, PEM.
    pub(super) authorities: Option<Vec<u8>>,
    /// Whether a write is refused that it cannot be asked about.
    pub(super) fails_closed: bool,
    pub(super) timeout: Duration,
    /// Whether it does nothing but answer, at least in a dry run.
    pub(super) is_harmless: bool,
    /// Whether it is asked again about an object that others have changed since.
    pub(super) is_reinvoked: bool,
    /// How it is asked, unless it knows no way that we do.
    pub(super) version: Option<ReviewVersion>,
}

/// Where a webhook is.
#[derive(Debug)]
pub(super) enum Destination {
    Url(String),
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
}

impl Webhook {
    /// The webhooks of a configuration, in order.
    pub(super) fn all(configuration: &Value) -> impl Iterator<Item = Self> {
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        webhooks.map(Self::read)
    }

    fn read(webhook: &Value) -> Self {
        let client = &webhook["clientConfig"];
        let bundle = client["caBundle"].as_str().unwrap_or_default();
        let authorities = STANDARD.decode(bundle).unwrap_or_default();
        let timeout = webhook["timeoutSeconds"].as_u64();
        let mut versions = webhook["admissionReviewVersions"]
            .as_array()
            .into_iter()
            .flatten();
        Self {
            name: text(webhook, "name"),
            matching: Matching::of_webhook(webhook),
            conditions: conditions(webhook),
            destination: Destination::read(client),
            authorities: (!authorities.is_empty()).then_some(authorities),
            fails_closed: webhook["failurePolicy"] != "Ignore",
            timeout: timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            is_harmless: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            is_reinvoked: webhook["reinvocationPolicy"] == "IfNeeded",
            version: versions.find_map(|version| ReviewVersion::named(version.as_str()?)),
        }
    }

    /// The version of the resource in which the webhook wants to see what is done; `None` if it does not.
    pub(super) fn version_shown<'d>(
        &self,
        action: &Action<'d>,
        equivalents: &'d [Arc<Definition>],
    ) -> Option<&'d Definition> {
        if self.matching.names(action, &action.definition.resource) {
            return Some(action.definition);
        }
        let mut others = equivalents.iter().filter(|_| self.matching.is_equivalent());
        let other = others.find(|other| self.matching.names(action, &other.resource));
        other.map(|other| &**other)
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

    /// What is asked for, with the time that there is for it.
    pub(super) fn url(&self, timeout: Duration) -> String {
        let seconds = timeout.as_secs();
        match self {
            Self::Url(url) => format!("{url}?timeout={seconds}s"),
            Self::Service {
                namespace,
                name,
                port,
                path,
            } => {
                let path = path.strip_prefix('/').unwrap_or(path);
                format!("https://{name}.{namespace}.svc:{port}/{path}?timeout={seconds}s")
            }
        }
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_webhook_has_the_address_that_its_configuration_says() {
        let check = |client: Value, expected: &str| {
            let destination = Destination::read(&client);
            assert_eq!(destination.url(Duration::from_secs(5)), expected);
        };
        check(
            json!({"url": "https://example.com:8443/hook"}),
            "https://example.com:8443/hook?timeout=5s",
        );
        let service = |path: Value| json!({"service": {"namespace": "n", "name": "s", "path": path}});
        check(service(json!("/a/b")), "https://s.n.svc:443/a/b?timeout=5s");
        check(service(Value::Null), "https://s.n.svc:443/?timeout=5s");
    }

    /// Those with side effects were stored by a server that still took them.
    #[test]
    fn only_a_webhook_without_side_effects_takes_part_in_a_dry_run() {
        for (effects, is_harmless) in [
            ("None", true),
            ("NoneOnDryRun", true),
            ("Some", false),
            ("Unknown", false),
        ] {
            let webhook = Webhook::read(&json!({"sideEffects": effects}));
            assert_eq!(webhook.is_harmless, is_harmless, "{effects}");
        }
    }
}
