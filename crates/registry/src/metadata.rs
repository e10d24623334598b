//! Metadata rules common to all kinds: checks what a client may set, and sets what the server owns.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{
    FinalizerRule, MAX_ANNOTATIONS, ObjectMetaRules, annotations, finalizers, labels, managed_fields,
    object_meta, object_meta_update,
};
use watchkeeper_meta::{FieldErrors, FieldPath, Status};
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::difference::Difference;

pub(crate) use watchkeeper_kinds::metadata::{of, text};

use crate::definition::Definition;
use watchkeeper_kinds::Warnings;
use watchkeeper_kinds::names;

/// Fields a client cannot set on a new object.
const SYSTEM_FIELDS: &[&str] = &["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// Checks the body's namespace against that of the path, or sets it.
pub(crate) fn match_namespace(
    definition: &Definition,
    object: &mut Value,
    namespace: &str,
) -> Result<(), Status> {
    let stated = text(object, "namespace");
    if !definition.is_namespaced() {
        of(object).remove("namespace");
    } else if stated.is_empty() {
        of(object).insert("namespace".to_owned(), json!(namespace));
    } else if stated != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The phase in which a duplicate owner reference was found.
#[derive(Clone, Copy)]
pub(crate) enum Repeated {
    /// In the request.
    InRequest,
    /// After mutating admission.
    AfterAdmission,
}

/// Removes duplicate owner references, with a warning.
pub(crate) fn drop_repeated_owners(object: &mut Value, place: Repeated, warnings: &Warnings) {
    let owners = object.pointer_mut("/metadata/ownerReferences");
    let Some(owners) = owners.and_then(Value::as_array_mut) else {
        return;
    };
    if owners.len() < 2 {
        return;
    }
    let (mut seen, mut repeated) = (HashSet::with_capacity(owners.len()), Vec::new());
    owners.retain(|owner| {
        let is_new = seen.insert(owner.clone());
        if !is_new {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_new
    });
    if !repeated.is_empty() {
        let place = match place {
            Repeated::InRequest => "",
            Repeated::AfterAdmission => " after mutating admission happens",
        };
        warnings.add(format!(
            ".metadata.ownerReferences contains duplicate entries{place}; API server dedups owner references in \
             1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) \
             observed: {}",
            repeated.join(", ")
        ));
    }
}

/// Checks the body's name against that of the path.
pub(crate) fn match_name(object: &Value, name: &str) -> Result<(), Status> {
    match text(object, "name") {
        stated if stated == name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        stated => Err(Status::bad_request(format!(
            "the name of the object ({stated}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Removes fields that only the server sets.
pub(crate) fn drop_system_fields(object: &mut Value) {
    let metadata = of(object);
    for owned in SYSTEM_FIELDS {
        metadata.remove(*owned);
    }
}

/// Removes and returns the managed fields of the request.
pub(crate) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object
        .get_mut("metadata")?
        .as_object_mut()?
        .remove("managedFields")
}

/// The validation errors of managed fields in the request. Their field sets were already parsed.
pub(crate) fn manager_errors(managers: &Managers) -> FieldErrors {
    let entries = managers.entries().iter().map(|manager| {
        json!({
            "manager": manager.name.as_str(),
            "operation": manager.operation.as_str(),
            "subresource": manager.subresource.as_str(),
        })
    });
    let path = FieldPath::new("metadata").child("managedFields");
    managed_fields(&entries.collect(), &path)
}

/// Sets the uid and creationTimestamp of a new object, and its name if only `generateName` is given; returns that
/// prefix.
pub(crate) fn begin(object: &mut Value, now: &str) -> Option<String> {
    let prefix = names::wanted_prefix(object).map(str::to_owned);
    drop_system_fields(object);
    let metadata = of(object);
    metadata.insert("uid".to_owned(), json!(names::uid()));
    metadata.insert("creationTimestamp".to_owned(), json!(now));
    if let Some(prefix) = &prefix {
        metadata.insert("name".to_owned(), json!(names::generate(prefix)));
    }
    prefix
}

/// Restores server-owned metadata of a changed object.
pub(crate) fn keep(object: &mut Value, live: &Value) {
    let kept = |name: &str| live["metadata"].get(name).cloned();
    let uid_is_empty = text(object, "uid").is_empty();
    let metadata = of(object);
    let mut copy = |name: &str| match kept(name) {
        Some(value) => drop(metadata.insert(name.to_owned(), value)),
        None => drop(metadata.remove(name)),
    };
    copy("creationTimestamp");
    copy("generation");
    copy("selfLink");
    copy("deletionGracePeriodSeconds");
    if uid_is_empty {
        copy("uid");
    }
    if metadata.get("deletionTimestamp").is_none_or(Value::is_null)
        && let Some(deleting) = live["metadata"].get("deletionTimestamp")
    {
        metadata.insert("deletionTimestamp".to_owned(), deleting.clone());
    }
}

/// The metadata errors of a new object.
pub(crate) fn errors(definition: &Definition, object: &Value) -> FieldErrors {
    object_meta(
        &object["metadata"],
        &rules(definition),
        &FieldPath::new("metadata"),
    )
}

/// The metadata errors of a changed object.
pub(crate) fn update_errors(definition: &Definition, object: &Value, live: &Value) -> FieldErrors {
    let (new, old) = (&object["metadata"], &live["metadata"]);
    object_meta_update(new, old, &rules(definition), &FieldPath::new("metadata"))
}

/// True if the changed labels, annotations and finalizers are valid.
pub(crate) fn is_in_order(object: &Value, difference: &Difference) -> bool {
    let Difference::Members { changed, .. } = difference.member("metadata") else {
        return difference.is_nowhere();
    };
    let path = FieldPath::new("metadata");
    changed.iter().all(|(name, below)| {
        let found = &object["metadata"][name];
        let changed = changed_part(found, below);
        match name.as_str() {
            "labels" => labels(&changed, &path).is_empty(),
            "annotations" => annotations(&changed, &path).is_empty() && size_of(found) <= MAX_ANNOTATIONS,
            "finalizers" => finalizers(&changed, FinalizerRule::WithDomain, &path).is_empty(),
            _ => false,
        }
    })
}

/// The changed entries of a map; the whole value if it is not a map.
fn changed_part<'v>(found: &'v Value, difference: &Difference) -> Cow<'v, Value> {
    let Difference::Members { changed, .. } = difference else {
        return Cow::Borrowed(found);
    };
    let entries = changed.iter().map(|(key, _)| (key.clone(), found[key].clone()));
    Cow::Owned(Value::Object(entries.collect()))
}

/// The total size of the keys and values of a map.
fn size_of(map: &Value) -> usize {
    let entries = map.as_object().into_iter().flatten();
    entries
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}

fn rules(definition: &Definition) -> ObjectMetaRules {
    ObjectMetaRules {
        scope: definition.resource.scope,
        name: definition.kind.names,
        finalizers: definition.kind.finalizers,
    }
}
