//! IngressClass: selects the controller that serves an ingress.

use serde_json::{Value, json};
use watchkeeper_meta::validation::dns1123_label;

use crate::builtin::ingress::check_reference;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, object_mut};
use crate::rules::formats::check_domain_prefixed_path;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{NONE, text_at};

const MAX_CONTROLLER_LENGTH: usize = 250;
const SCOPES: &[&str] = &["Cluster", "Namespace"];

/// The kind served as `ingressclasses`.
pub static KIND: Kind = Kind {
    group: "networking.k8s.io",
    name: "IngressClass",
    plural: "ingressclasses",
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Controller", |row| json!(row.text("/spec/controller"))),
    Column::text("Parameters", |row| json!(parameters(row.at("/spec/parameters")))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |class| {
        if let Some(spec) = object_mut(class, "spec")
            && let Some(parameters) = object_mut(spec, "parameters")
        {
            fill(parameters, "scope", "Cluster");
        }
    },
    check: |class, errors| {
        let spec = class.field("spec");
        let controller = spec.field("controller");
        if controller.text().len() > MAX_CONTROLLER_LENGTH {
            errors.push(controller.too_long(MAX_CONTROLLER_LENGTH));
        }
        check_domain_prefixed_path(&controller, errors);
        check_parameters(&spec.field("parameters"), errors);
    },
    check_change: |change, errors| {
        let (new, live) = (change.new.field("spec"), change.live.field("spec"));
        new.field("controller")
            .text_must_stay(&live.field("controller"), errors);
    },
    change_first: true,
    ..PLAIN
};

fn check_parameters(parameters: &Place<'_, '_>, errors: &mut Errors) {
    if !parameters.is_set() {
        return;
    }
    check_reference(parameters, errors);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    scope.must_be_one_of(SCOPES, errors);
    match (scope.text(), namespace.is_set()) {
        ("Namespace", false) => {
            errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", true) => namespace.must_keep(dns1123_label, errors),
        ("Cluster", true) => errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'")),
        _ => {}
    }
}

fn parameters(parameters: &Value) -> String {
    if parameters.is_null() {
        return NONE.to_owned();
    }
    let (kind, group) = (text_at(parameters, "/kind"), text_at(parameters, "/apiGroup"));
    let kind = if group.is_empty() {
        kind
    } else {
        format!("{kind}.{group}")
    };
    format!("{kind}/{}", text_at(parameters, "/name"))
}
