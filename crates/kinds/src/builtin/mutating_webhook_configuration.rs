//! MutatingWebhookConfiguration: webhooks that mutate objects on admission.

use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{check_webhooks, default_webhook};
use crate::rules::defaulting::{fill, items_mut};
use crate::table::Column;

/// The kind served as `mutatingwebhookconfigurations`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Webhooks", |row| row.len("/webhooks")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |configuration| {
        for webhook in items_mut(configuration, "webhooks") {
            default_webhook(webhook);
            fill(webhook, "reinvocationPolicy", "Never");
        }
    },
    check: check_webhooks,
    ..PLAIN
};
