//! Validation of environment variables.

use watchkeeper_meta::validation::{NameRule, dns1123_label, dns1123_subdomain, qualified_name};

use crate::rules::formats::{check_descending, data_key};
use crate::rules::place::{Errors, Place, Rule};

/// The fields of a pod that references can name at all.
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

/// The fields that an environment variable can refer to.
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

/// The fields that a downward API file can refer to.
pub(crate) const FILE_FIELDS: &[&str] = &[
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

/// The units of an amount, by resource. CPU has fewer than bytes.
const CPU_DIVISORS: &[&str] = &["1m", "1"];
const BYTE_DIVISORS: &[&str] = &[
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Checks the environment variables of a container.
pub(crate) fn check_env(env: &Place<'_, '_>, errors: &mut Errors) {
    for variable in env.items() {
        let name = variable.field("name");
        name.must_be_set_and_keep(variable_name, errors);
        let source = variable.field("valueFrom");
        if source.is_set() {
            check_source(&source, !variable.field("value").text().is_empty(), errors);
        }
    }
}

/// Checks `envFrom`. As in Kubernetes, a missing source is reported on the list.
pub(crate) fn check_env_from(list: &Place<'_, '_>, errors: &mut Errors) {
    for source in list.items() {
        source.field("prefix").may_keep(variable_name, errors);
        let mut sources = 0;
        for name in ["configMapRef", "secretRef"] {
            let reference = source.field(name);
            if reference.is_set() {
                sources += 1;
                reference
                    .field("name")
                    .must_be_set_and_keep(|name| NameRule::Dns1123Subdomain.check_prefix(name), errors);
            }
        }
        let error = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(list.invalid_for("", error));
    }
}

fn check_source(source: &Place<'_, '_>, has_value: bool, errors: &mut Errors) {
    let mut sources = 0;
    let mut check = |name: &str, rule: Rule| {
        let given = source.field(name);
        if given.is_set() {
            sources += 1;
            rule(&given, errors);
        }
    };
    check("fieldRef", |field, errors| {
        check_field_reference(field, VARIABLE_FIELDS, errors);
    });
    check("resourceFieldRef", check_resource_reference);
    check("configMapKeyRef", check_key_reference);
    check("secretKeyRef", check_key_reference);
    check("fileKeyRef", check_file_reference);
    let error = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(source.invalid_for("", error));
}

/// Checks a reference to a field of the pod. Reports only the first error.
pub(crate) fn check_field_reference(reference: &Place<'_, '_>, supported: &[&str], errors: &mut Errors) {
    let (version, path) = (reference.field("apiVersion"), reference.field("fieldPath"));
    if let Some(empty) = [version, path].into_iter().find(|field| field.text().is_empty()) {
        errors.push(empty.required(""));
        return;
    }
    let (field, subscript) = split_subscript(path.text());
    let is_known = match subscript {
        Some(_) => matches!(field, "metadata.annotations" | "metadata.labels"),
        None => KNOWN_FIELDS.contains(&field),
    };
    match subscript {
        _ if !is_known => {
            let label = path.text();
            let why = format!("error converting fieldPath: field label not supported: {label}");
            errors.push(path.invalid(why));
        }
        Some(key) => {
            let key = match field {
                "metadata.annotations" => key.to_lowercase(),
                _ => key.to_owned(),
            };
            let reasons = qualified_name(&key).into_iter();
            errors.extend(reasons.map(|why| reference.invalid_for(key.as_str(), why)));
        }
        None if !supported.contains(&field) => errors.push(path.unsupported(supported)),
        None => {}
    }
}

/// Splits `metadata.labels['app']` into the field and the key.
fn split_subscript(path: &str) -> (&str, Option<&str>) {
    let split = path.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match split {
        Some((field, key)) => (field, Some(key)),
        None => (path, None),
    }
}

/// Checks a reference to the requests or limits of a container.
pub(crate) fn check_resource_reference(reference: &Place<'_, '_>, errors: &mut Errors) {
    let resource = reference.field("resource");
    let is_huge_page = |name: &str| {
        let amount = name.strip_prefix("requests.").or(name.strip_prefix("limits."));
        amount.is_some_and(|amount| amount.starts_with("hugepages-"))
    };
    if resource.text().is_empty() {
        errors.push(resource.required(""));
    } else if !RESOURCE_FIELDS.contains(&resource.text()) && !is_huge_page(resource.text()) {
        errors.push(resource.unsupported(RESOURCE_FIELDS));
    }
    check_divisor(reference, resource.text(), errors);
}

fn check_divisor(reference: &Place<'_, '_>, resource: &str, errors: &mut Errors) {
    let divisor = reference.field("divisor");
    let (_, of) = resource.split_once('.').unwrap_or_default();
    let (divisors, shown) = match of {
        "cpu" => (CPU_DIVISORS, "1m and 1 are supported with the cpu resource"),
        "memory" => (
            BYTE_DIVISORS,
            "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource",
        ),
        "ephemeral-storage" => (
            BYTE_DIVISORS,
            "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage \
             resource",
        ),
        of if of.starts_with("hugepages-") => (
            BYTE_DIVISORS,
            "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource",
        ),
        _ => return,
    };
    if !matches!(divisor.text(), "" | "0") && !divisors.contains(&divisor.text()) {
        errors.push(divisor.invalid_for(resource, format!("only divisor's values {shown}")));
    }
}

fn check_key_reference(reference: &Place<'_, '_>, errors: &mut Errors) {
    let name = reference.field("name");
    let reasons = dns1123_subdomain(name.text()).into_iter();
    errors.extend(reasons.map(|why| name.invalid_for(name.text(), why)));
    reference.field("key").must_be_set_and_keep(data_key, errors);
}

/// Checks a variable whose value is read from a file of a volume.
fn check_file_reference(reference: &Place<'_, '_>, errors: &mut Errors) {
    reference.field("key").must_be_set_and_keep(variable_name, errors);
    reference
        .field("volumeName")
        .must_be_set_and_keep(dns1123_label, errors);
    let path = reference.field("path");
    path.must_be_set(errors);
    check_descending(&path, errors);
}

/// The errors of an environment variable's name.
fn variable_name(name: &str) -> Vec<String> {
    let is_fit = name.chars().all(|c| matches!(c, ' '..='~') && c != '=');
    let why =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    if is_fit { Vec::new() } else { vec![why.to_owned()] }
}
