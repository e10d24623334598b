//! What is wrong with the environment of containers.

use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::qualified_name;

use super::super::place::{Faults, Place, Rule};

/// Fields of a pod that can be referred to at all.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

/// Those that a variable can have for its value.
const VARIABLE_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Those that a file can have for its content.
pub(super) const FILE_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks the variables of a container.
pub(super) fn check_env(env: &Place<'_, '_>, faults: &mut Faults) {
    for variable in env.items() {
        let name = variable.field("name");
        match name.text() {
            "" => faults.push(name.required("")),
            _ => name.must_keep(variable_name, faults),
        }
        let source = variable.field("valueFrom");
        if source.is_set() {
            check_source(&source, !variable.field("value").text().is_empty(), faults);
        }
    }
}

/// Checks the maps and secrets whose entries become variables.
pub(super) fn check_env_from(list: &Place<'_, '_>, faults: &mut Faults) {
    for source in list.items() {
        let prefix = source.field("prefix");
        if !prefix.text().is_empty() {
            prefix.must_keep(variable_name, faults);
        }
        let references = ["configMapRef", "secretRef"].map(|name| source.field(name).is_set());
        for name in ["configMapRef", "secretRef"] {
            let reference = source.field(name);
            if reference.is_set() {
                reference.field("name").must_be_set(faults);
            }
        }
        let fault = match references.iter().filter(|set| **set).count() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        faults.push(FieldError::invalid(&source.path(), "", fault));
    }
}

fn check_source(source: &Place<'_, '_>, has_value: bool, faults: &mut Faults) {
    let mut sources = 0;
    let mut check = |name: &str, rule: Rule| {
        let given = source.field(name);
        if given.is_set() {
            sources += 1;
            rule(&given, faults);
        }
    };
    check("fieldRef", |field, faults| {
        check_field_reference(field, VARIABLE_FIELDS, faults);
    });
    check("resourceFieldRef", check_resource_reference);
    check("configMapKeyRef", check_key_reference);
    check("secretKeyRef", check_key_reference);
    check("fileKeyRef", |_, _| {});
    let fault = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    faults.push(FieldError::invalid(&source.path(), "", fault));
}

/// Checks a reference to a field of the pod itself.
pub(super) fn check_field_reference(reference: &Place<'_, '_>, supported: &[&str], faults: &mut Faults) {
    reference.field("apiVersion").must_be_set(faults);
    let path = reference.field("fieldPath");
    if path.text().is_empty() {
        faults.push(path.required(""));
        return;
    }
    let (field, subscript) = split_subscript(path.text());
    let takes_subscript = matches!(field, "metadata.annotations" | "metadata.labels");
    match subscript {
        Some(key) if takes_subscript => {
            let reasons = match field {
                "metadata.annotations" => qualified_name(&key.to_lowercase()),
                _ => qualified_name(key),
            };
            faults.extend(reasons.into_iter().map(|reason| path.invalid(reason)));
        }
        None if supported.contains(&field) => {}
        None if KNOWN_FIELDS.contains(&field) => faults.push(path.unsupported(supported)),
        _ => {
            let why = format!(
                "error converting fieldPath: field label not supported: {}",
                path.text()
            );
            faults.push(path.invalid(why));
        }
    }
}

/// `metadata.labels['app']` names one entry of a map.
fn split_subscript(path: &str) -> (&str, Option<&str>) {
    let split = path.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match split {
        Some((field, key)) => (field, Some(key)),
        None => (path, None),
    }
}

fn check_resource_reference(reference: &Place<'_, '_>, faults: &mut Faults) {
    let resource = reference.field("resource");
    let is_huge_page = |name: &str| name.contains(".hugepages-");
    if resource.text().is_empty() {
        faults.push(resource.required(""));
    } else if !RESOURCE_FIELDS.contains(&resource.text()) && !is_huge_page(resource.text()) {
        faults.push(resource.unsupported(RESOURCE_FIELDS));
    }
}

fn check_key_reference(reference: &Place<'_, '_>, faults: &mut Faults) {
    reference.field("name").must_be_set(faults);
    let key = reference.field("key");
    match key.text() {
        "" => faults.push(key.required("")),
        _ => key.must_keep(map_key, faults),
    }
}

/// Why a text is not the name of a variable.
fn variable_name(name: &str) -> Vec<String> {
    let is_fit = name.chars().all(|c| matches!(c, ' '..='~') && c != '=');
    let why =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    if is_fit { Vec::new() } else { vec![why.to_owned()] }
}

/// Why a text is not a key of a config map.
pub(super) fn map_key(key: &str) -> Vec<String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut reasons = Vec::new();
    if key.len() > 253 {
        reasons.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.chars().all(is_known) {
        reasons.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." => reasons.push("must not be '.'".to_owned()),
        ".." => reasons.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => reasons.push("must not start with '..'".to_owned()),
        _ => {}
    }
    reasons
}
