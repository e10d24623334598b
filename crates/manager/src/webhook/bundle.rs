//! The CA bundles of webhook configurations and custom kinds: written and kept up to date.
//!
//! An API server calls a webhook only if it trusts the certificate, so the bundle is written before a new certificate
//! is used. Applying the configuration again removes the bundle; the next check restores it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use watchkeeper_client::{Client, Error, retry_on_conflict};
use watchkeeper_meta::Resource;

/// The objects that name this process's webhooks.
#[derive(Default)]
pub(super) struct Bundles {
    places: Vec<Place>,
    /// The error of the last check.
    failed: Mutex<Option<String>>,
}

struct Place {
    resource: Resource,
    name: String,
    set: fn(&mut Value, &Value),
}

impl Bundles {
    pub(super) fn add_validating(&mut self, name: String) {
        self.add_configuration(
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            name,
        );
    }

    pub(super) fn add_mutating(&mut self, name: String) {
        self.add_configuration(
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            name,
        );
    }

    fn add_configuration(&mut self, kind: &'static str, plural: &'static str, name: String) {
        self.places.push(Place {
            resource: Resource::cluster("admissionregistration.k8s.io", "v1", kind, plural),
            name,
            set: set_in_configuration,
        });
    }

    pub(super) fn add_conversion(&mut self, name: String) {
        let (group, plural) = ("apiextensions.k8s.io", "customresourcedefinitions");
        self.places.push(Place {
            resource: Resource::cluster(group, "v1", "CustomResourceDefinition", plural),
            name,
            set: set_in_definition,
        });
    }

    /// An error if the bundle was missing anywhere at the last check.
    pub(super) fn state(&self) -> Result<(), String> {
        match &*self.failed.lock() {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// Writes the bundle, PEM, where it is missing.
    pub(super) async fn write(&self, client: &Client, bundle: &str) {
        let bundle = json!(STANDARD.encode(bundle));
        let mut failed = Vec::new();
        for place in &self.places {
            if let Err(error) = retry_on_conflict(|| place.write(client, &bundle)).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, name = place.name, "a CA bundle was not written");
                failed.push(format!(
                    "{} has no CA bundle: {error}",
                    place.resource.display_name(&place.name)
                ));
            }
        }
        *self.failed.lock() = (!failed.is_empty()).then(|| failed.join("; "));
    }
}

impl Place {
    async fn write(&self, client: &Client, bundle: &Value) -> Result<(), Error> {
        let api = client.dynamic(self.resource.clone());
        let found = api.get(&self.name).await?;
        let found = found.to_value().unwrap_or_default();
        let mut wanted = found.clone();
        (self.set)(&mut wanted, bundle);
        if wanted != found {
            api.update(&self.name, &wanted).await?;
        }
        Ok(())
    }
}

fn set_in_configuration(configuration: &mut Value, bundle: &Value) {
    let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        webhook["clientConfig"]["caBundle"] = bundle.clone();
    }
}

/// A kind without a conversion webhook has no place for a bundle.
fn set_in_definition(definition: &mut Value, bundle: &Value) {
    if let Some(Value::Object(client)) = definition.pointer_mut("/spec/conversion/webhook/clientConfig") {
        client.insert("caBundle".to_owned(), bundle.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_webhook_of_a_configuration_gets_the_bundle() {
        let mut configuration =
            json!({"webhooks": [{"clientConfig": {"url": "u"}}, {"clientConfig": {"caBundle": "old"}}]});
        set_in_configuration(&mut configuration, &json!("new"));
        let expected = json!({"webhooks": [{"clientConfig": {"url": "u", "caBundle": "new"}}, {"clientConfig": {"caBundle": "new"}}]});
        assert_eq!(configuration, expected);
    }

    #[test]
    fn a_definition_gets_the_bundle_if_a_webhook_converts() {
        let check = |mut definition: Value, expected: Value| {
            set_in_definition(&mut definition, &json!("new"));
            assert_eq!(definition, expected);
        };
        let none = json!({"spec": {"conversion": {"strategy": "None"}}});
        check(none.clone(), none);
        check(
            json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {}}}}}}),
            json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {}, "caBundle": "new"}}}}}),
        );
    }
}
