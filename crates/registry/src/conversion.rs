//! Conversion webhooks: external programs that convert objects between the versions of a custom kind.
//!
//! ```text
//! store ─▶ objects in the version they were written in ─▶ webhook ─▶ objects in the version of the request
//! write ─▶ object in the version of the request        ─▶ webhook ─▶ object in the version that is stored
//! ```
//!
//! Objects are converted when they are read from the store and before they are stored; all code in between sees one
//! version. Only objects of another version are sent, in batches. A webhook may change labels and annotations; all
//! other metadata is restored. The result is pruned and defaulted like a request body.

pub(crate) mod ledger;

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use watchkeeper_kinds::names;
use watchkeeper_meta::validation::{annotations, labels};
use watchkeeper_meta::{FieldErrors, FieldPath, Status, join_field_errors};
use watchkeeper_wire::json;

use crate::converter::{Converter, KIND};
use crate::definition::Definition;
use crate::object::StoredObject;
use crate::reader::Reader;

/// The time limit of a webhook call, as in Kubernetes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest number of objects in one review.
const MAX_OBJECTS: usize = 100;
/// The largest size of the objects in one review; the answer has about the same size and its own limit. A larger
/// object is sent alone.
const MAX_BYTES: usize = 1 << 20;
impl Reader {
    /// Converts stored objects to the version that a definition serves.
    pub(crate) fn in_served_version<'a>(
        &'a self,
        definition: &'a Definition,
        mut objects: Vec<StoredObject>,
    ) -> BoxFuture<'a, Result<Vec<StoredObject>, Status>> {
        Box::pin(async move {
            if definition.converter.is_none() {
                return Ok(objects);
            }
            let mut places = Vec::new();
            let mut values = Vec::new();
            for (place, object) in objects.iter().enumerate() {
                let header = json::header(&object.bytes).map_err(Status::internal_error)?;
                if header.api_version != definition.api_version {
                    places.push(place);
                    values.push(serde_json::from_slice(&object.bytes).map_err(Status::internal_error)?);
                }
            }
            let converted = self.convert(definition, values, &definition.api_version).await?;
            for (place, converted) in places.into_iter().zip(converted) {
                let bytes = serde_json::to_vec(&converted).map_err(Status::internal_error)?;
                objects[place].bytes = bytes.into();
            }
            Ok(objects)
        })
    }

    /// Like [`Reader::in_served_version`], for one object.
    pub(crate) fn one_in_served_version<'a>(
        &'a self,
        definition: &'a Definition,
        object: StoredObject,
    ) -> BoxFuture<'a, Result<StoredObject, Status>> {
        Box::pin(async move {
            if definition.converter.is_none() {
                return Ok(object);
            }
            let mut converted = self.in_served_version(definition, vec![object]).await?;
            converted
                .pop()
                .ok_or_else(|| Status::internal_error("no object was converted"))
        })
    }

    /// Converts objects to the wanted version, in order.
    pub(crate) fn convert<'a>(
        &'a self,
        definition: &'a Definition,
        objects: Vec<Value>,
        wanted: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async move {
            let Some(converter) = &definition.converter else {
                return Ok(objects);
            };
            let mut converted = Vec::with_capacity(objects.len());
            let mut left = &objects[..];
            while !left.is_empty() {
                let (batch, rest) = left.split_at(batch_len(left));
                converted.extend(self.convert_batch(converter, batch, wanted).await?);
                left = rest;
            }
            Ok(converted)
        })
    }

    async fn convert_batch(
        &self,
        converter: &Converter,
        objects: &[Value],
        wanted: &str,
    ) -> Result<Vec<Value>, Status> {
        let Some(api_version) = converter.api_version else {
            return Err(Status::unclassified("no supported conversion review versions"));
        };
        let uid = names::uid();
        let review = json!({
            "kind": KIND,
            "apiVersion": api_version,
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": objects},
        });
        let what = format!("conversion webhook for {}", named(&objects[0]));
        let answer = self
            .post_to(&converter.client, TIMEOUT, review.to_string().into())
            .await?;
        let answer = answer.and_then(|body| converter.answer(&uid, &body));
        let converted = answer.map_err(|why| Status::unclassified(format!("{what} failed: {why}")))?;
        if converted.len() != objects.len() {
            let (found, wanted) = (converted.len(), objects.len());
            return Err(Status::unclassified(format!(
                "{what} returned {found} objects, expected {wanted}"
            )));
        }
        let checked = objects.iter().zip(converted).map(|(original, converted)| {
            accepted(original, converted, wanted)
                .map_err(|why| Status::unclassified(format!("{what} returned invalid {why}")))
        });
        checked.collect()
    }
}

/// The number of objects in the next review.
fn batch_len(objects: &[Value]) -> usize {
    let mut bytes = 0;
    let fitting = objects.iter().take(MAX_OBJECTS).take_while(|object| {
        bytes += object.to_string().len();
        bytes <= MAX_BYTES
    });
    fitting.count().max(1)
}

/// Validates a converted object and restores its metadata.
fn accepted(original: &Value, mut converted: Value, wanted: &str) -> Result<Value, String> {
    let at = |object: &Value, name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let found = at(&converted, "apiVersion");
    if found != wanted {
        return Err(format!(
            "object at index 0: invalid groupVersion (expected {wanted}, received {found})"
        ));
    }
    let (expected, found) = (at(original, "kind"), at(&converted, "kind"));
    if expected != found {
        return Err(format!(
            "object at index 0: invalid kind (expected {expected}, received {found})"
        ));
    }
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, found) = (
            at(&original["metadata"], field),
            at(&converted["metadata"], field),
        );
        if expected != found {
            return Err(format!(
                "object: must have the same {name}: {expected} != {found}"
            ));
        }
    }
    let metadata = restored(&original["metadata"], &converted["metadata"]);
    converted["metadata"] = metadata.map_err(|why| format!("metadata: {why}"))?;
    Ok(converted)
}

/// The original metadata with the labels and annotations of the webhook.
fn restored(original: &Value, converted: &Value) -> Result<Value, String> {
    if !converted.is_object() {
        return Err("missing metadata in converted object".to_owned());
    }
    let mut restored = original.clone();
    for (field, named, check) in [
        (
            "labels",
            "labels",
            labels as fn(&Value, &FieldPath) -> FieldErrors,
        ),
        ("annotations", "annotation", annotations),
    ] {
        let set = &converted[field];
        let Some(members) = restored.as_object_mut() else {
            continue;
        };
        match set {
            Value::Null => drop(members.remove(field)),
            Value::Object(set) => {
                check_texts(field, set)?;
                let path = FieldPath::new("metadata").child(named);
                let errors = check(&converted[field], &path);
                if converted[field] != original[field] && !errors.is_empty() {
                    return Err(join_field_errors(&errors));
                }
                members.insert(field.to_owned(), converted[field].clone());
            }
            _ => return Err(format!("invalid metadata.{field} in converted object")),
        }
    }
    Ok(restored)
}

fn check_texts(field: &str, set: &Map<String, Value>) -> Result<(), String> {
    match set.iter().find(|(_, value)| !value.is_string()) {
        Some((key, _)) => Err(format!(
            "metadata.{field}[{key}] must be a string in converted object"
        )),
        None => Ok(()),
    }
}

/// `example.com/v1, Kind=Widget`.
fn named(object: &Value) -> String {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    format!("{}, Kind={}", text("apiVersion"), text("kind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, labels: Value) -> Value {
        json!({"apiVersion": "e.com/v1", "kind": "W",
            "metadata": {"name": name, "uid": "u", "generation": 3, "labels": labels}})
    }

    #[test]
    fn only_labels_and_annotations_of_metadata_change() {
        let mut converted = object("a", json!({"b": "c"}));
        converted["apiVersion"] = json!("e.com/v2");
        converted["metadata"]["generation"] = json!(7);
        converted["metadata"]["annotations"] = json!({"x": "y"});
        let accepted = accepted(&object("a", json!({"old": "1"})), converted, "e.com/v2").unwrap();
        assert_eq!(
            accepted["metadata"],
            json!({"name": "a", "uid": "u", "generation": 3, "labels": {"b": "c"}, "annotations": {"x": "y"}})
        );
    }

    #[test]
    fn a_different_object_is_rejected() {
        let original = object("a", json!({}));
        let check = |change: fn(&mut Value), expected: &str| {
            let mut converted = original.clone();
            converted["apiVersion"] = json!("e.com/v2");
            change(&mut converted);
            assert_eq!(accepted(&original, converted, "e.com/v2").unwrap_err(), expected);
        };
        check(
            |it| it["apiVersion"] = json!("e.com/v1"),
            "object at index 0: invalid groupVersion (expected e.com/v2, received e.com/v1)",
        );
        check(
            |it| it["kind"] = json!("X"),
            "object at index 0: invalid kind (expected W, received X)",
        );
        check(
            |it| it["metadata"]["name"] = json!("b"),
            "object: must have the same name: a != b",
        );
        check(
            |it| it["metadata"]["labels"] = json!({"a b": "c"}),
            "metadata: metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, \
             '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  \
             or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        );
    }

    #[test]
    fn reviews_are_limited_by_number_and_by_size() {
        let small = vec![object("a", json!({})); 150];
        assert_eq!(batch_len(&small), MAX_OBJECTS);
        let large = vec![json!({"data": "x".repeat(MAX_BYTES)}); 2];
        assert_eq!(batch_len(&large), 1);
    }
}
