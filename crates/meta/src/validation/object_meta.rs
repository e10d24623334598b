//! Validation of `metadata` on create and on update.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::{NameRule, dns1123_label, label_value, owner_references, qualified_name};
use crate::Scope;
use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::options::field_manager_errors;
use crate::quote::quote;

/// The largest total size of an object's annotations, keys and values.
pub const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The longest subresource name in `managedFields`.
const MAX_SUBRESOURCE: usize = 256;

/// Kubernetes' own finalizers without a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The metadata rules of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectMetaRules {
    /// The scope of the objects.
    pub scope: Scope,
    /// The syntax of names.
    pub name: NameRule,
    /// The syntax of finalizers.
    pub finalizers: FinalizerRule,
}

/// The syntax of finalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerRule {
    /// Custom resources and some built-in ones: a word without a domain is allowed.
    AnyQualifiedName,
    /// Most built-in kinds: with a domain, or one of Kubernetes' own.
    WithDomain,
}

/// Validates the `metadata` of a new object, after its name was generated.
pub fn object_meta(metadata: &Value, rules: &ObjectMetaRules, path: &FieldPath) -> FieldErrors {
    let mut errors = name_errors(metadata, rules.name, path);
    errors.append(namespace_errors(metadata, rules.scope, &path.child("namespace")));
    if let Some(generation) = metadata["generation"]
        .as_i64()
        .filter(|generation| *generation < 0)
    {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, why));
    }
    errors.append(common_errors(metadata, rules, path));
    errors
}

/// Validates the `metadata` of an updated object. Whether a resourceVersion is required depends on the resource and
/// is not checked here.
pub fn object_meta_update(
    new: &Value,
    old: &Value,
    rules: &ObjectMetaRules,
    path: &FieldPath,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !old["deletionTimestamp"].is_null() {
        errors.extend(new_finalizer_errors(new, old, &path.child("finalizers")));
    }
    let generation = |metadata: &Value| metadata["generation"].as_i64().unwrap_or(0);
    if generation(new) < generation(old) {
        let path = path.child("generation");
        errors.push(FieldError::invalid(
            &path,
            generation(new),
            "must not be decremented",
        ));
    }
    let must_stay = "field is immutable";
    for field in ["name", "namespace", "uid"] {
        let (new, old) = (new[field].as_str(), old[field].as_str());
        if new.unwrap_or_default() != old.unwrap_or_default() {
            let new = new.unwrap_or_default();
            errors.push(FieldError::invalid(&path.child(field), new, must_stay));
        }
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if new[field] != old[field] {
            errors.push(FieldError::invalid(
                &path.child(field),
                new[field].clone(),
                must_stay,
            ));
        }
    }
    errors.append(common_errors(new, rules, path));
    errors
}

/// Validates labels.
pub fn labels(labels: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, value) in texts(labels) {
        errors.extend(broken(path, key, qualified_name(key)));
        errors.extend(broken(path, value, label_value(value)));
    }
    errors
}

/// Validates annotations: the keys, in any case, and the total size.
pub fn annotations(annotations: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, _) in texts(annotations) {
        errors.extend(broken(path, key, qualified_name(&key.to_lowercase())));
    }
    let size: usize = texts(annotations)
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS));
    }
    errors
}

/// Validates finalizers.
pub fn finalizers(list: &Value, rule: FinalizerRule, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let names = || list.as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in names() {
        errors.extend(broken(path, name, qualified_name(name)));
    }
    if names().any(|name| name == "orphan") && names().any(|name| name == "foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, list.clone(), why));
    }
    if rule == FinalizerRule::WithDomain {
        for (index, name) in names().enumerate() {
            let path = path.index(index);
            errors.extend(broken(&path, name, qualified_name(name)));
            if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                errors.push(FieldError::invalid(&path, name, why));
            }
        }
    }
    errors
}

/// Validates `managedFields`.
pub fn managed_fields(entries: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
        let path = path.index(index);
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            let why = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(
                &path.child("operation"),
                text("operation"),
                why,
            ));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            let why = "must be `FieldsV1`";
            errors.push(FieldError::invalid(
                &path.child("fieldsType"),
                text("fieldsType"),
                why,
            ));
        }
        errors.append(field_manager_errors(text("manager"), &path.child("manager")));
        if text("subresource").len() > MAX_SUBRESOURCE {
            errors.push(FieldError::too_long(&path.child("subresource"), MAX_SUBRESOURCE));
        }
    }
    errors
}

fn name_errors(metadata: &Value, rule: NameRule, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let (prefix, name) = (text("generateName"), text("name"));
    if !prefix.is_empty() {
        errors.extend(broken(
            &path.child("generateName"),
            prefix,
            rule.check_prefix(prefix),
        ));
    }
    match name {
        "" => errors.push(FieldError::required(
            &path.child("name"),
            "name or generateName is required",
        )),
        name => errors.extend(broken(&path.child("name"), name, rule.check(name))),
    }
    errors
}

fn namespace_errors(metadata: &Value, scope: Scope, path: &FieldPath) -> FieldErrors {
    match (scope, metadata["namespace"].as_str().unwrap_or_default()) {
        (Scope::Namespaced, "") => FieldError::required(path, "").into(),
        (Scope::Namespaced, namespace) => broken(path, namespace, dns1123_label(namespace)).collect(),
        (Scope::Cluster, "") => FieldErrors::new(),
        (Scope::Cluster, _) => FieldError::forbidden(path, "not allowed on this type").into(),
    }
}

fn common_errors(metadata: &Value, rules: &ObjectMetaRules, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut check = |field: &str, rule: &dyn Fn(&Value, &FieldPath) -> FieldErrors| {
        let value = &metadata[field];
        if !value.is_null() {
            errors.append(rule(value, &path.child(field)));
        }
    };
    check("labels", &labels);
    check("annotations", &annotations);
    check("ownerReferences", &owner_references);
    check("finalizers", &|list, path| {
        finalizers(list, rules.finalizers, path)
    });
    check("managedFields", &managed_fields);
    errors
}

fn new_finalizer_errors(new: &Value, old: &Value, path: &FieldPath) -> Option<FieldError> {
    let known: HashSet<&str> = finalizer_names(old).collect();
    let added: BTreeSet<&str> = finalizer_names(new)
        .filter(|name| !known.contains(name))
        .collect();
    let quoted: Vec<String> = added.iter().map(|name| quote(name)).collect();
    (!added.is_empty()).then(|| {
        let found = quoted.join(", ");
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{found}}}"
        );
        FieldError::forbidden(path, why)
    })
}

fn finalizer_names(metadata: &Value) -> impl Iterator<Item = &str> {
    let list = metadata["finalizers"].as_array().into_iter().flatten();
    list.filter_map(Value::as_str)
}

/// One error per reason.
fn broken<'a>(
    path: &'a FieldPath,
    value: &'a str,
    reasons: Vec<String>,
) -> impl Iterator<Item = FieldError> + 'a {
    reasons
        .into_iter()
        .map(move |reason| FieldError::invalid(path, value, reason))
}

/// The entries of a string map.
fn texts(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RULES: ObjectMetaRules = ObjectMetaRules {
        scope: Scope::Namespaced,
        name: NameRule::Dns1123Subdomain,
        finalizers: FinalizerRule::WithDomain,
    };

    fn metadata() -> FieldPath {
        FieldPath::new("metadata")
    }

    /// Long texts are cut after the first reason; the tables of single rules compare them whole.
    fn printed(errors: FieldErrors) -> Vec<String> {
        let short = |text: String| {
            text.split(", and must start")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        errors.iter().map(|error| short(error.to_string())).collect()
    }

    fn check(new: Value, errors: &[&str]) {
        assert_eq!(printed(object_meta(&new, &RULES, &metadata())), errors, "{new}");
    }

    #[test]
    fn new_objects_have_a_name_and_a_namespace() {
        check(json!({"name": "a", "namespace": "ns"}), &[]);
        check(
            json!({"namespace": "ns"}),
            &["metadata.name: Required value: name or generateName is required"],
        );
        check(json!({"name": "a"}), &["metadata.namespace: Required value"]);
        check(
            json!({"name": "Bad_8z8np", "generateName": "Bad_", "namespace": "ns"}),
            &[
                r#"metadata.generateName: Invalid value: "Bad_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"#,
                r#"metadata.name: Invalid value: "Bad_8z8np": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"#,
            ],
        );
        let cluster = ObjectMetaRules {
            scope: Scope::Cluster,
            ..RULES
        };
        assert_eq!(
            printed(object_meta(
                &json!({"name": "a", "namespace": "ns"}),
                &cluster,
                &metadata()
            )),
            ["metadata.namespace: Forbidden: not allowed on this type"]
        );
    }

    #[test]
    fn labels_and_annotations_are_checked_in_this_order() {
        check(
            json!({"name": "a", "namespace": "ns", "labels": {"x": "bad value!"}, "annotations": {"bad key": "", "Good.Key/X": ""}}),
            &[
                r#"metadata.labels: Invalid value: "bad value!": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"#,
                r#"metadata.annotations: Invalid value: "bad key": name part must consist of alphanumeric characters, '-', '_' or '.'"#,
            ],
        );
        let big = "v".repeat(MAX_ANNOTATIONS);
        check(
            json!({"name": "a", "namespace": "ns", "annotations": {"k": big}}),
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        );
    }

    #[test]
    fn finalizers_have_a_domain() {
        let path = FieldPath::from("metadata.finalizers");
        let errors = |list: Value, rule| printed(finalizers(&list, rule, &path));
        let bare = json!(["nope", "example.com/x", "kubernetes"]);
        assert!(errors(bare.clone(), FinalizerRule::AnyQualifiedName).is_empty());
        assert_eq!(
            errors(bare, FinalizerRule::WithDomain),
            [
                r#"metadata.finalizers[0]: Invalid value: "nope": name is neither a standard finalizer name nor is it fully qualified"#
            ]
        );
        assert_eq!(
            errors(json!(["orphan", "foregroundDeletion"]), FinalizerRule::WithDomain),
            [
                r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#
            ]
        );
    }

    #[test]
    fn changes_keep_the_identity() {
        let old = json!({"name": "a", "namespace": "ns", "uid": "u", "generation": 2});
        let update = |new: Value, old: &Value| printed(object_meta_update(&new, old, &RULES, &metadata()));
        assert!(update(old.clone(), &old).is_empty());
        assert_eq!(
            update(
                json!({"name": "a", "namespace": "ns", "uid": "v", "generation": 1, "deletionTimestamp": "2001-01-01T00:00:00Z"}),
                &old
            ),
            [
                "metadata.generation: Invalid value: 1: must not be decremented",
                r#"metadata.uid: Invalid value: "v": field is immutable"#,
                r#"metadata.deletionTimestamp: Invalid value: "2001-01-01T00:00:00Z": field is immutable"#,
            ]
        );
    }

    #[test]
    fn objects_on_their_way_out_take_no_finalizers() {
        let going = |finalizers: Value| json!({"name": "a", "namespace": "ns", "deletionTimestamp": "2020-01-01T00:00:00Z", "finalizers": finalizers});
        let old = going(json!(["example.com/one"]));
        let errors = |finalizers| printed(object_meta_update(&going(finalizers), &old, &RULES, &metadata()));
        assert!(errors(json!([])).is_empty());
        assert_eq!(
            errors(json!(["example.com/three", "example.com/one"])),
            [
                r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/three"}"#
            ]
        );
    }

    #[test]
    fn managers_are_named_properly() {
        let entries = json!([{"manager": "x", "operation": "Nope", "fieldsType": "V2", "subresource": "s".repeat(257)}]);
        assert_eq!(
            printed(managed_fields(
                &entries,
                &FieldPath::from("metadata.managedFields")
            )),
            [
                r#"metadata.managedFields[0].operation: Invalid value: "Nope": must be `Apply` or `Update`"#,
                r#"metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`"#,
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ]
        );
    }
}
