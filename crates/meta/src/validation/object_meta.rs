//! `metadata` as a whole: when an object is created, and when it is changed.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::{NameRule, dns1123_label, label_value, owner_references, qualified_name};
use crate::Scope;
use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::options::field_manager_faults;
use crate::quote::quote;

/// All keys and values of an object's annotations together: 256 kB.
pub const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The longest name of a subresource in `managedFields`.
const MAX_SUBRESOURCE: usize = 256;

/// Finalizers without a domain that Kubernetes itself uses.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What a resource demands of its objects' metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectMetaRules {
    /// Whether objects live in namespaces.
    pub scope: Scope,
    /// What names look like.
    pub name: NameRule,
    /// What finalizers look like.
    pub finalizers: FinalizerRule,
}

/// What finalizers look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerRule {
    /// Custom resources and some built-in ones: a bare word will do.
    AnyQualifiedName,
    /// Most built-in kinds: with a domain, or one of Kubernetes' own.
    WithDomain,
}

/// What is wrong with the `metadata` of a new object, after a name has been generated.
pub fn object_meta(metadata: &Value, rules: &ObjectMetaRules, path: &FieldPath) -> FieldErrors {
    let mut faults = name_faults(metadata, rules.name, path);
    faults.append(namespace_faults(metadata, rules.scope, &path.child("namespace")));
    if let Some(generation) = metadata["generation"]
        .as_i64()
        .filter(|generation| *generation < 0)
    {
        let why = "must be greater than or equal to 0";
        faults.push(FieldError::invalid(&path.child("generation"), generation, why));
    }
    faults.append(common_faults(metadata, rules, path));
    faults
}

/// What is wrong with the `metadata` of a changed object. Whether a version must be given is the resource's own
/// choice, and not judged here.
pub fn object_meta_update(
    new: &Value,
    old: &Value,
    rules: &ObjectMetaRules,
    path: &FieldPath,
) -> FieldErrors {
    let mut faults = FieldErrors::new();
    if !old["deletionTimestamp"].is_null() {
        faults.extend(new_finalizer_faults(new, old, &path.child("finalizers")));
    }
    let generation = |metadata: &Value| metadata["generation"].as_i64().unwrap_or(0);
    if generation(new) < generation(old) {
        let path = path.child("generation");
        faults.push(FieldError::invalid(
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
            faults.push(FieldError::invalid(&path.child(field), new, must_stay));
        }
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if new[field] != old[field] {
            faults.push(FieldError::invalid(
                &path.child(field),
                new[field].clone(),
                must_stay,
            ));
        }
    }
    faults.append(common_faults(new, rules, path));
    faults
}

/// What is wrong with a map of labels.
pub fn labels(labels: &Value, path: &FieldPath) -> FieldErrors {
    let mut faults = FieldErrors::new();
    for (key, value) in texts(labels) {
        faults.extend(broken(path, key, qualified_name(key)));
        faults.extend(broken(path, value, label_value(value)));
    }
    faults
}

/// What is wrong with a map of annotations: the keys, whose case does not matter, and the size of it all.
pub fn annotations(annotations: &Value, path: &FieldPath) -> FieldErrors {
    let mut faults = FieldErrors::new();
    for (key, _) in texts(annotations) {
        faults.extend(broken(path, key, qualified_name(&key.to_lowercase())));
    }
    let size: usize = texts(annotations)
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if size > MAX_ANNOTATIONS {
        faults.push(FieldError::too_long(path, MAX_ANNOTATIONS));
    }
    faults
}

/// What is wrong with a list of finalizers.
pub fn finalizers(list: &Value, rule: FinalizerRule, path: &FieldPath) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let names = || list.as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in names() {
        faults.extend(broken(path, name, qualified_name(name)));
    }
    if names().any(|name| name == "orphan") && names().any(|name| name == "foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        faults.push(FieldError::invalid(path, list.clone(), why));
    }
    if rule == FinalizerRule::WithDomain {
        for (index, name) in names().enumerate() {
            let path = path.index(index);
            faults.extend(broken(&path, name, qualified_name(name)));
            if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                faults.push(FieldError::invalid(&path, name, why));
            }
        }
    }
    faults
}

/// What is wrong with `managedFields`.
pub fn managed_fields(entries: &Value, path: &FieldPath) -> FieldErrors {
    let mut faults = FieldErrors::new();
    for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
        let path = path.index(index);
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            let why = "must be `Apply` or `Update`";
            faults.push(FieldError::invalid(
                &path.child("operation"),
                text("operation"),
                why,
            ));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            let why = "must be `FieldsV1`";
            faults.push(FieldError::invalid(
                &path.child("fieldsType"),
                text("fieldsType"),
                why,
            ));
        }
        faults.append(field_manager_faults(text("manager"), &path.child("manager")));
        if text("subresource").len() > MAX_SUBRESOURCE {
            faults.push(FieldError::too_long(&path.child("subresource"), MAX_SUBRESOURCE));
        }
    }
    faults
}

fn name_faults(metadata: &Value, rule: NameRule, path: &FieldPath) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let (prefix, name) = (text("generateName"), text("name"));
    if !prefix.is_empty() {
        faults.extend(broken(
            &path.child("generateName"),
            prefix,
            rule.check_prefix(prefix),
        ));
    }
    match name {
        "" => faults.push(FieldError::required(
            &path.child("name"),
            "name or generateName is required",
        )),
        name => faults.extend(broken(&path.child("name"), name, rule.check(name))),
    }
    faults
}

fn namespace_faults(metadata: &Value, scope: Scope, path: &FieldPath) -> FieldErrors {
    match (scope, metadata["namespace"].as_str().unwrap_or_default()) {
        (Scope::Namespaced, "") => FieldError::required(path, "").into(),
        (Scope::Namespaced, namespace) => broken(path, namespace, dns1123_label(namespace)).collect(),
        (Scope::Cluster, "") => FieldErrors::new(),
        (Scope::Cluster, _) => FieldError::forbidden(path, "not allowed on this type").into(),
    }
}

fn common_faults(metadata: &Value, rules: &ObjectMetaRules, path: &FieldPath) -> FieldErrors {
    let mut faults = FieldErrors::new();
    let mut check = |field: &str, rule: &dyn Fn(&Value, &FieldPath) -> FieldErrors| {
        let value = &metadata[field];
        if !value.is_null() {
            faults.append(rule(value, &path.child(field)));
        }
    };
    check("labels", &labels);
    check("annotations", &annotations);
    check("ownerReferences", &owner_references);
    check("finalizers", &|list, path| {
        finalizers(list, rules.finalizers, path)
    });
    check("managedFields", &managed_fields);
    faults
}

fn new_finalizer_faults(new: &Value, old: &Value, path: &FieldPath) -> Option<FieldError> {
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

/// A fault per reason.
fn broken<'a>(
    path: &'a FieldPath,
    value: &'a str,
    reasons: Vec<String>,
) -> impl Iterator<Item = FieldError> + 'a {
    reasons
        .into_iter()
        .map(move |reason| FieldError::invalid(path, value, reason))
}

/// The entries of a map of text.
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

    /// Long texts are cut at the first reason they share with the tables of single rules.
    fn printed(faults: FieldErrors) -> Vec<String> {
        let short = |text: String| {
            text.split(", and must start")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        faults.iter().map(|fault| short(fault.to_string())).collect()
    }

    fn check(new: Value, faults: &[&str]) {
        assert_eq!(printed(object_meta(&new, &RULES, &metadata())), faults, "{new}");
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
        let faults = |list: Value, rule| printed(finalizers(&list, rule, &path));
        let bare = json!(["nope", "example.com/x", "kubernetes"]);
        assert!(faults(bare.clone(), FinalizerRule::AnyQualifiedName).is_empty());
        assert_eq!(
            faults(bare, FinalizerRule::WithDomain),
            [
                r#"metadata.finalizers[0]: Invalid value: "nope": name is neither a standard finalizer name nor is it fully qualified"#
            ]
        );
        assert_eq!(
            faults(json!(["orphan", "foregroundDeletion"]), FinalizerRule::WithDomain),
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
        let faults = |finalizers| printed(object_meta_update(&going(finalizers), &old, &RULES, &metadata()));
        assert!(faults(json!([])).is_empty());
        assert_eq!(
            faults(json!(["example.com/three", "example.com/one"])),
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
