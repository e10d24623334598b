//! A webhook's configuration, read once for all writes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::review::ReviewVersion;
use crate::admission::matching::Matching;
use crate::admission::policies::{Expression, conditions};
use crate::admission::request::Action;
use crate::definition::Definition;
use crate::webhook_client::WebhookClient;

/// The timeout of a webhook without one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    /// The name of its configuration.
    pub(super) configuration: String,
    pub(super) matching: Matching,
    pub(super) conditions: Vec<Expression>,
    pub(super) client: WebhookClient,
    /// `failurePolicy: Fail`.
    pub(super) fails_closed: bool,
    pub(super) timeout: Duration,
    /// True if it can be called in a dry run (`sideEffects`).
    pub(super) supports_dry_run: bool,
    /// `reinvocationPolicy: IfNeeded`.
    pub(super) is_reinvoked: bool,
    /// The review version to send; `None` if the webhook supports no known one.
    pub(super) version: Option<ReviewVersion>,
}

impl Webhook {
    /// The webhooks of a configuration, in order.
    pub(super) fn all(configuration: &Value) -> impl Iterator<Item = Self> {
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        let name = text(&configuration["metadata"], "name");
        webhooks.map(move |webhook| Self::read(webhook, name.clone()))
    }

    fn read(webhook: &Value, configuration: String) -> Self {
        let timeout = webhook["timeoutSeconds"].as_u64();
        let mut versions = webhook["admissionReviewVersions"]
            .as_array()
            .into_iter()
            .flatten();
        Self {
            name: text(webhook, "name"),
            configuration,
            matching: Matching::of_webhook(webhook),
            conditions: conditions(webhook),
            client: WebhookClient::read(&webhook["clientConfig"]),
            fails_closed: webhook["failurePolicy"] != "Ignore",
            timeout: timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            supports_dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            is_reinvoked: webhook["reinvocationPolicy"] == "IfNeeded",
            version: versions.find_map(|version| ReviewVersion::named(version.as_str()?)),
        }
    }

    /// The version of the resource to send to the webhook; `None` if it does not match.
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

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Webhooks with side effects were stored by an older server.
    #[test]
    fn only_a_webhook_without_side_effects_takes_part_in_a_dry_run() {
        for (effects, supports_dry_run) in [
            ("None", true),
            ("NoneOnDryRun", true),
            ("Some", false),
            ("Unknown", false),
        ] {
            let webhook = Webhook::read(&json!({"sideEffects": effects}), String::new());
            assert_eq!(webhook.supports_dry_run, supports_dry_run, "{effects}");
        }
    }
}
