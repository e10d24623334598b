//! Validation of pod templates and their selectors.

use serde_json::Value;
use watchkeeper_meta::LabelSelector;
use watchkeeper_meta::validation::{annotations, labels};

use crate::builtin::pod::{self, Around};
use crate::rules::go_structs::LABEL_SELECTOR;
use crate::rules::place::{Errors, Place};

const MISMATCH: &str = "`selector` does not match template `labels`";

/// Validates a template on its own.
pub(crate) fn check_template(template: &Place<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (template.field("metadata"), template.field("spec"));
    // The error texts omit the metadata from the path.
    for (name, rule) in [
        ("labels", labels as fn(&Value, &_) -> Errors),
        ("annotations", annotations),
    ] {
        let map = template.field(name).with_value(metadata.field(name).value());
        if map.is_set() {
            errors.append(rule(map.value(), &map.path()));
        }
    }
    let notes = template
        .field("annotations")
        .with_value(metadata.field("annotations").value());
    pod::check_annotations(&notes, &spec, errors);
    pod::check_spec(&spec, &Around { pod: None }, errors);
    let ephemeral = spec.field("ephemeralContainers");
    if ephemeral.len() > 0 {
        errors.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// Validates the template and the selector of a deployment or a replica set.
pub(crate) fn check_selected_template(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    check_selector(&selector, "deployment", errors);
    check_selected(spec, Some("invalid label selector"), errors);
    if is_valid(&selector) {
        check_template(&template, errors);
        check_runs_on(&template, "ReplicaSet", errors);
    }
}

/// Validates a required, non-empty selector; `kind` is for the text.
pub(crate) fn check_selector(selector: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    if !selector.is_set() {
        errors.push(selector.required(""));
        return;
    }
    selector.must_select(errors);
    if selects_everything(selector.value()) {
        errors.push(selector.invalid(format!("empty selector is invalid for {kind}")));
    }
}

/// Checks that the selector matches the template. A missing selector matches nothing, an empty one everything. The
/// error for an invalid selector differs by kind; some have none.
pub(crate) fn check_selected(spec: &Place<'_, '_>, not_understood: Option<&str>, errors: &mut Errors) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let is_selected = match selector.value() {
        Value::Null => Ok(false),
        value => LabelSelector::from_json(value).map(|selector| matches(&selector, labels.value())),
    };
    match is_selected {
        Ok(true) => {}
        Ok(false) => errors.push(labels.invalid(MISMATCH)),
        Err(_) => errors.extend(not_understood.map(|why| selector.invalid_as(LABEL_SELECTOR, why))),
    }
}

/// True if a selector is valid.
pub(crate) fn is_valid(selector: &Place<'_, '_>) -> bool {
    !selector.is_set() || LabelSelector::from_json(selector.value()).is_ok()
}

/// Checks that pods restart always.
pub(crate) fn check_runs_on(template: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let spec = template.field("spec");
    let restart = spec.field("restartPolicy");
    if restart.text() != "Always" {
        errors.push(restart.unsupported(&["Always"]));
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        errors.push(deadline.forbidden(format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
}

/// Checks that pods run to completion; with a failure policy, only the job restarts them.
pub(crate) fn check_ends(template: &Place<'_, '_>, has_failure_policy: bool, errors: &mut Errors) {
    let spec = template.field("spec");
    let restart = spec.field("restartPolicy");
    match restart.text() {
        "" | "Always" => errors.push(restart.required(r#"valid values: "OnFailure", "Never""#)),
        "OnFailure" if has_failure_policy => {
            errors.push(restart.invalid(r#"only "Never" is supported when podFailurePolicy is specified"#));
        }
        _ => restart.is_one_of(&["OnFailure", "Never"], errors),
    }
}

/// Validates a selector that is a map of labels, as in old kinds.
pub(crate) fn check_selected_by_labels(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let wanted = selector.value().as_object().into_iter().flatten();
    if !wanted
        .into_iter()
        .all(|(key, value)| labels.value().get(key) == Some(value))
    {
        errors.push(labels.invalid(MISMATCH));
    }
}

/// True if a selector is empty.
pub(crate) fn selects_everything(selector: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Object(entries) => entries.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"])
}

fn matches(selector: &LabelSelector, labels: &Value) -> bool {
    match labels.as_object() {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&serde_json::Map::new()),
    }
}
