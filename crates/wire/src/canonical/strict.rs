//! Strict field validation of a body: unknown and duplicate fields, in the order of the body.
//!
//! Parsing the body and [`canonicalize`](super::canonicalize) already tell whether there are any. This pass runs only
//! if there are, to name them in Go's order. It does not descend into unknown fields, nor into what Go decodes with
//! custom code: raw JSON, and the JSON schemas in a union.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{STRICT_LIMIT, StrictError};
use crate::schema::{Schema, Shape, TypeId};

/// Returns the strict errors of an object of the given type, at most [`STRICT_LIMIT`]. Stops at a value of the wrong
/// type.
///
/// ```
/// use watchkeeper_wire::canonical::strict_errors;
/// use watchkeeper_wire::schema::Schema;
///
/// let schema = Schema::builtin();
/// let id = schema.kind("v1", "ConfigMap").unwrap();
/// let body = br#"{"z":1,"metadata":{"name":"a","name":"b"},"a":1}"#;
/// let found = strict_errors(schema, id, &mut serde_json::Deserializer::from_slice(body));
/// let found: Vec<_> = found.iter().map(ToString::to_string).collect();
/// assert_eq!(found, [r#"unknown field "z""#, r#"duplicate field "metadata.name""#, r#"unknown field "a""#]);
/// ```
pub fn strict_errors<'de>(schema: &Schema, id: TypeId, body: impl Deserializer<'de>) -> Vec<StrictError> {
    let mut found = Found {
        schema,
        path: String::new(),
        errors: Vec::new(),
    };
    let root = Shape::Struct(id);
    // A wrong type was already an error before this pass.
    let _ = At(&mut found, &root).deserialize(body);
    found.errors
}

/// The position of the pass and its findings.
struct Found<'s> {
    schema: &'s Schema,
    path: String,
    errors: Vec<StrictError>,
}

impl Found<'_> {
    fn complain(&mut self, error: impl FnOnce(String) -> StrictError) {
        let error = error(self.path.clone());
        if self.errors.len() < STRICT_LIMIT && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }
}

/// A value with its expected shape.
struct At<'a, 's>(&'a mut Found<'s>, &'a Shape);

impl<'de> DeserializeSeed<'de> for At<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.1 {
            Shape::Struct(_) | Shape::Map(_) | Shape::List(_) | Shape::ListMessage(_) => {
                deserializer.deserialize_any(self)
            }
            _ => deserializer.deserialize_ignored_any(IgnoredAny).map(drop),
        }
    }
}

impl<'de> Visitor<'de> for At<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a list or an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self(found, shape) = self;
        let (Shape::List(shape) | Shape::ListMessage(shape)) = shape else {
            return Ok(());
        };
        let length = found.path.len();
        for index in 0.. {
            found.path.push_str(&format!("[{index}]"));
            let item = items.next_element_seed(At(found, shape))?;
            found.path.truncate(length);
            if item.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self(found, shape) = self;
        let (schema, length) = (found.schema, found.path.len());
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if length > 0 {
                found.path.push('.');
            }
            found.path.push_str(&name);
            let shape = match shape {
                Shape::Struct(id) => schema.field(*id, &name).map(|field| &field.shape),
                Shape::Map(value) => Some(&**value),
                _ => None,
            };
            match shape {
                None => {
                    found.complain(|path| StrictError::Unknown { path });
                    members.next_value::<IgnoredAny>()?;
                }
                Some(shape) => {
                    if !seen.insert(name) {
                        found.complain(|path| StrictError::Duplicate { path });
                    }
                    members.next_value_seed(At(found, shape))?;
                }
            }
            found.path.truncate(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(api_version: &str, kind: &str, body: &str, expected: &[&str]) {
        let schema = Schema::builtin();
        let id = schema.kind(api_version, kind).unwrap();
        let errors = strict_errors(schema, id, &mut serde_json::Deserializer::from_str(body));
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{body}");
    }

    #[test]
    fn complaints_come_in_the_order_of_the_body() {
        check(
            "v1",
            "Pod",
            r#"{"zz":1,"kind":"Pod","spec":{"containers":[{"y":1,"name":"a","image":"x","livenessProbe":{"httpGet":
            {"nope":1}},"image":"z","b":2}],"nodeSelector":{"k":"1","k":"2"}},"metadata":{"nope":{}},"aa":1,"zz":2}"#,
            &[
                r#"unknown field "zz""#,
                r#"unknown field "spec.containers[0].y""#,
                r#"unknown field "spec.containers[0].livenessProbe.httpGet.nope""#,
                r#"duplicate field "spec.containers[0].image""#,
                r#"unknown field "spec.containers[0].b""#,
                r#"duplicate field "spec.nodeSelector.k""#,
                r#"unknown field "metadata.nope""#,
                r#"unknown field "aa""#,
            ],
        );
    }

    #[test]
    fn what_go_does_not_look_into_is_not_named() {
        check(
            "v1",
            "Pod",
            r#"{"nope":{"a":1,"a":2},"metadata":{"managedFields":[{"fieldsV1":{"x":{},"x":{}}}]},"status":null}"#,
            &[r#"unknown field "nope""#],
        );
        check(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"nope":1},"default":{"a":1,"a":2},
            "properties":{"p":{"nope":1}}}}}]}}"#,
            &[r#"unknown field "spec.versions[0].schema.openAPIV3Schema.properties.p.nope""#],
        );
    }

    #[test]
    fn there_is_an_end_to_complaints() {
        let members: Vec<_> = (0..200).map(|number| format!(r#""x{number}":1"#)).collect();
        let schema = Schema::builtin();
        let id = schema.kind("v1", "ConfigMap").unwrap();
        let body = format!("{{{}}}", members.join(","));
        let errors = strict_errors(schema, id, &mut serde_json::Deserializer::from_str(&body));
        assert_eq!(errors.len(), STRICT_LIMIT);
    }
}
