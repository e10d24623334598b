//! ValidatingAdmissionPolicy: rejects requests by CEL expressions.

use std::collections::HashSet;

use serde_json::json;
use watchkeeper_cel::Type;
use watchkeeper_meta::validation::{FinalizerRule, qualified_name};

use crate::Part;
use crate::expressions::Environments;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{check_conditions, check_policy, check_variables, default_policy};
use crate::rules::conditions;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::param_kind;

/// The status reasons of a rejection.
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const MAX_NOTES: usize = 20;
const MAX_NOTE_BYTES: usize = 5 * 1024;

/// The kind served as `validatingadmissionpolicies`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
    status_keeps_metadata: true,
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Validations", |row| row.len("/spec/validations")),
    Column::text("ParamKind", |row| json!(param_kind(row.at("/spec/paramKind")))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: default_policy,
    check,
    check_change: |change, errors| {
        if change.part == Part::Status {
            check_status(&change.new.field("status"), errors);
        }
    },
    ..PLAIN
};

fn check(policy: &Place<'_, '_>, errors: &mut Errors) {
    let spec = policy.field("spec");
    check_policy(&spec, errors);
    check_conditions(&spec, errors);
    let environments = check_variables(&spec, errors);
    let (validations, notes) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.len() == 0 && notes.len() == 0 {
        let why = "validations or auditAnnotations must contain at least one item";
        return errors.extend([validations, notes].map(|list| list.required(why)));
    }
    for validation in validations.items() {
        check_validation(&validation, &environments, errors);
    }
    if notes.len() > MAX_NOTES {
        errors.push(notes.invalid(format!("must not have more than {MAX_NOTES} auditAnnotations")));
    }
    let name = policy.value()["metadata"]["name"].as_str().unwrap_or_default();
    let mut keys = HashSet::new();
    for note in notes.items() {
        check_note(&note, name, &environments, errors);
        let key = note.field("key");
        if !keys.insert(key.text()) {
            errors.push(key.duplicate());
        }
    }
}

fn check_validation(validation: &Place<'_, '_>, environments: &Environments, errors: &mut Errors) {
    let expression = validation.field("expression");
    match expression.text().trim() {
        "" => errors.push(expression.required("expression is not specified")),
        _ => environments.check(&expression, &[Type::Bool], errors),
    }
    let said = validation.field("messageExpression");
    match said.text().trim() {
        "" if said.text().is_empty() => {}
        "" => errors.push(said.invalid("must be non-empty if specified")),
        _ => environments
            .without_authorizer()
            .check(&said, &[Type::String], errors),
    }
    let message = validation.field("message");
    if !message.text().is_empty() && message.text().trim().is_empty() {
        errors.push(message.invalid("must be non-empty if specified"));
    } else if message.text().trim().contains(['\n', '\r']) {
        errors.push(message.invalid("must not contain line breaks"));
    }
    validation.field("reason").may_be_one_of(REASONS, errors);
}

/// Checks an audit annotation.
fn check_note(note: &Place<'_, '_>, policy: &str, environments: &Environments, errors: &mut Errors) {
    let key = note.field("key");
    let full = format!("{policy}/{}", key.text());
    let reasons = qualified_name(&full).into_iter();
    errors.extend(reasons.map(|why| key.invalid_for(&*full, why)));
    let expression = note.field("valueExpression");
    match expression.text().trim() {
        "" => errors.push(expression.required("valueExpression is not specified")),
        text if text.len() > MAX_NOTE_BYTES => {
            let why = format!("must not exceed {MAX_NOTE_BYTES} bytes in length");
            errors.push(expression.required(&why));
        }
        _ => environments.check(&expression, &[Type::String, Type::Null], errors),
    }
}

fn check_status(status: &Place<'_, '_>, errors: &mut Errors) {
    let checking = status.field("typeChecking");
    for warning in checking.field("expressionWarnings").items() {
        warning.field("warning").must_be_set(errors);
        let at = warning.field("fieldRef");
        if at.text().trim().is_empty() {
            errors.push(at.required(""));
        }
    }
    conditions::check(&status.field("conditions"), errors);
}
