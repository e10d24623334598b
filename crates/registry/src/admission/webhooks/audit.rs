//! The audit annotations about webhooks: which changed the object, and which failed. Keys and values are Kubernetes'.

use serde::Serialize;
use serde_json::Value;
use watchkeeper_meta::Status;

use super::Consulted;
use super::configuration::Webhook;
use crate::context::WriteContext;

/// A call of a webhook that may change the object.
pub(super) struct MutatingCall<'a> {
    pub(super) context: &'a WriteContext,
    /// 1 if the webhook was called again after a later one changed the object.
    pub(super) round: u8,
    /// The place of the webhook among all mutating ones.
    pub(super) place: usize,
    pub(super) webhook: &'a Webhook,
}

#[derive(Serialize)]
struct Mutation<'a> {
    configuration: &'a str,
    webhook: &'a str,
    mutated: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Patch<'a> {
    configuration: &'a str,
    webhook: &'a str,
    patch: &'a Value,
    patch_type: &'a str,
}

impl MutatingCall<'_> {
    /// Tells that the webhook was called, and whether it changed the object.
    pub(super) fn audit_mutation(&self, mutated: bool) {
        let mutation = Mutation {
            configuration: &self.webhook.configuration,
            webhook: &self.webhook.name,
            mutated,
        };
        self.context
            .annotate(|| self.key("mutation"), || text_of(&mutation));
    }

    /// Tells what the webhook changed, if the event shows the object.
    pub(super) fn audit_patch(&self, patch: &Value) {
        let patch = Patch {
            configuration: &self.webhook.configuration,
            webhook: &self.webhook.name,
            patch,
            patch_type: "JSONPatch",
        };
        self.context
            .annotate_request(|| self.key("patch"), || text_of(&patch));
    }

    /// Tells that the webhook failed and was ignored.
    pub(super) fn audit_failed_open(&self) {
        let name = || self.webhook.name.clone();
        self.context.annotate(|| self.key("failed-open.mutation"), name);
    }

    fn key(&self, subject: &str) -> String {
        let (round, place) = (self.round, self.place);
        format!("{subject}.webhook.admission.k8s.io/round_{round}_index_{place}")
    }
}

/// Tells which validating webhooks failed and were ignored. Their index is that among the webhooks that were called.
pub(super) fn failed_open<'a>(
    context: &WriteContext,
    results: impl Iterator<Item = (&'a Webhook, &'a Result<Consulted, Status>)>,
) {
    let called = results.filter(|(_, result)| !matches!(result, Ok(Consulted::NotAsked)));
    for (index, (webhook, result)) in called.enumerate() {
        if matches!(result, Ok(Consulted::FailedOpen)) {
            let key = || format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
            context.annotate(key, || webhook.name.clone());
        }
    }
}

fn text_of(note: &impl Serialize) -> String {
    serde_json::to_string(note).unwrap_or_default()
}
