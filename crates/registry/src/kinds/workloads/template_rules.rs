//! What is wrong with a template for pods, and with how it is selected.

use serde_json::Value;
use watchkeeper_meta::validation::{annotations, label_selector, labels};
use watchkeeper_meta::{FieldError, LabelSelector};

use super::super::place::{Faults, Place};
use super::super::pod;

const MISMATCH: &str = "`selector` does not match template `labels`";

/// Checks a template on its own.
pub(super) fn check_template(template: &Place<'_, '_>, faults: &mut Faults) {
    let metadata = &template.value()["metadata"];
    faults.extend(labels(&metadata["labels"], &template.path().child("labels")));
    faults.extend(annotations(
        &metadata["annotations"],
        &template.path().child("annotations"),
    ));
    let spec = template.field("spec");
    pod::check_spec(&spec, faults);
    let ephemeral = spec.field("ephemeralContainers");
    if ephemeral.len() > 0 {
        faults.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// Checks a selector that must be there and must select something; `kind` is for the text.
pub(super) fn check_selector(selector: &Place<'_, '_>, kind: &str, faults: &mut Faults) {
    if !selector.is_set() {
        faults.push(selector.required(""));
        return;
    }
    faults.extend(label_selector(selector.value(), &selector.path()));
    if selects_everything(selector.value()) {
        faults.push(selector.invalid(format!("empty selector is invalid for {kind}")));
    }
}

/// Checks that a template's pods will be selected. A missing selector selects nothing, an empty one everything.
pub(super) fn check_selected(spec: &Place<'_, '_>, faults: &mut Faults) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let is_selected = match selector.value() {
        Value::Null => Ok(false),
        value => LabelSelector::from_json(value).map(|selector| matches(&selector, labels.value())),
    };
    match is_selected {
        Ok(true) => {}
        Ok(false) => faults.push(labels.invalid(MISMATCH)),
        Err(_) => faults.push(selector.invalid("invalid label selector")),
    }
}

/// Whether a selector can be understood at all.
pub(super) fn is_valid(selector: &Place<'_, '_>) -> bool {
    !selector.is_set() || LabelSelector::from_json(selector.value()).is_ok()
}

/// Checks that pods are to run on and on.
pub(super) fn check_runs_on(template: &Place<'_, '_>, kind: &str, faults: &mut Faults) {
    let spec = template.field("spec");
    let restart = spec.field("restartPolicy");
    if restart.text() != "Always" {
        faults.push(restart.unsupported(&["Always"]));
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        faults.push(deadline.forbidden(format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
}

/// Checks that pods are to end.
pub(super) fn check_ends(template: &Place<'_, '_>, faults: &mut Faults) {
    let spec = template.field("spec");
    let restart = spec.field("restartPolicy");
    match restart.text() {
        "OnFailure" | "Never" => {}
        "" | "Always" => faults.push(restart.required(r#"valid values: "OnFailure", "Never""#)),
        _ => faults.push(restart.unsupported(&["OnFailure", "Never"])),
    }
}

/// Checks a selector that is a map of labels, as old kinds have it.
pub(super) fn check_selected_by_labels(spec: &Place<'_, '_>, faults: &mut Faults) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let wanted = selector.value().as_object().into_iter().flatten();
    if !wanted
        .into_iter()
        .all(|(key, value)| labels.value().get(key) == Some(value))
    {
        faults.push(FieldError::invalid(
            &labels.path(),
            labels.value().clone(),
            MISMATCH,
        ));
    }
}

/// Whether a selector says nothing.
pub(super) fn selects_everything(selector: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Object(entries) => entries.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"])
}

fn matches(selector: &LabelSelector, labels: &Value) -> bool {
    let labels = labels.as_object().into_iter().flatten();
    let labels: std::collections::BTreeMap<String, String> = labels
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    selector.matches(&labels)
}
