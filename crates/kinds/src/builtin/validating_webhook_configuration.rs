//! ValidatingWebhookConfiguration: webhooks that reject requests.

use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{check_webhooks, default_webhook};
use crate::rules::defaulting::items_mut;
use crate::table::Column;

/// The kind served as `validatingwebhookconfigurations`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
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
    default: |configuration| items_mut(configuration, "webhooks").for_each(default_webhook),
    check: check_webhooks,
    ..PLAIN
};
