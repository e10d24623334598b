//! Which fields a configuration sets, in the form in which managers keep them: the text of a field set.
//!
//! The text is written while the configuration is read. Nearly every apply sets the fields that it set the last time:
//! then two texts are the same, and no set is made of either.

use std::ops::Range;

use serde_json::{Map, Value};
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::field_set::{FieldSet, PathElement, write_field, write_text};
use crate::go_text::go_value;
use crate::structure::{Place, Structure, Wants, identity};

static NO_FIELDS: FieldSet = FieldSet::new();

/// What is not written of the fields that a configuration sets.
#[derive(Clone, Copy)]
pub(crate) struct LeftOut<'s> {
    /// Paths that are not, though what is below them is.
    pub(crate) paths: &'s FieldSet,
    /// Paths that are not, with all that is below them.
    pub(crate) subtrees: &'s FieldSet,
}

impl<'s> LeftOut<'s> {
    /// As it is below most steps.
    const NOTHING: LeftOut<'static> = LeftOut {
        paths: &NO_FIELDS,
        subtrees: &NO_FIELDS,
    };

    /// Whether the path of a field is left out, whether all below it is, and what is further below.
    fn descend(self, name: &str) -> (bool, bool, Self) {
        if self.paths.is_empty() && self.subtrees.is_empty() {
            return (false, false, self);
        }
        let element = PathElement::field(name);
        let descend = |fields: &'s FieldSet| fields.descend(&element).unwrap_or((false, &NO_FIELDS));
        let ((path, paths), (subtree, subtrees)) = (descend(self.paths), descend(self.subtrees));
        (path, subtree, Self { paths, subtrees })
    }
}

/// A configuration that does not fit the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ConfigurationError {
    /// Where, as `.spec.ports`.
    pub path: String,
    /// What is wrong there, in Kubernetes' words.
    pub problem: String,
}

/// The fields that a configuration sets.
///
/// A struct is not a field it sets, only what stands in it; keys of maps and items of keyed lists are. An empty
/// object or a `null` is set as such.
pub fn field_set(schema: &Schema, root: TypeId, config: &Value) -> Result<FieldSet, ConfigurationError> {
    let text = field_text(schema, root, config, LeftOut::NOTHING)?;
    // A text of ours can be read.
    Ok(FieldSet::read_json(&text).unwrap_or_default())
}

/// The [`field_set`] without what is left out, as [`FieldSet::write_json`] writes it.
pub(crate) fn field_text(
    schema: &Schema,
    root: TypeId,
    config: &Value,
    left_out: LeftOut<'_>,
) -> Result<Vec<u8>, ConfigurationError> {
    let mut out = Vec::with_capacity(TEXT_BYTES);
    write(Place::root(schema, root), config, false, left_out, &mut out)?;
    Ok(out)
}

/// Room for the fields of most configurations.
const TEXT_BYTES: usize = 2048;

/// What was written of a value.
enum Written {
    /// That it is set, as one thing.
    Whole,
    /// Parts of it that are set.
    Parts,
    /// No part of it, and it is set only if whoever holds it says so.
    Nothing,
}

/// Writes the object of one step; `member` says that a value made of parts is itself set.
fn write(
    place: Place<'_>,
    value: &Value,
    member: bool,
    left_out: LeftOut<'_>,
    out: &mut Vec<u8>,
) -> Result<Written, ConfigurationError> {
    check_type(place, value)?;
    let structure = place.structure();
    let is_whole = match structure {
        Structure::Scalar | Structure::Atomic => true,
        Structure::Deduced => !value.is_object(),
        _ => false,
    };
    if is_whole {
        out.extend_from_slice(b"{}");
        return Ok(Written::Whole);
    }
    out.push(b'{');
    let start = out.len();
    if member {
        out.extend_from_slice(b"\".\":{},");
    }
    let first_part = out.len();
    match (&structure, value) {
        (Structure::Struct(_) | Structure::Map(_) | Structure::Deduced, Value::Object(fields)) => {
            write_fields(place, &structure, fields, left_out, out)?;
        }
        (Structure::Set(item), Value::Array(items)) => write_items(*item, &structure, items, out)?,
        (Structure::Keyed(list), Value::Array(items)) => write_items(list.item, &structure, items, out)?,
        // What stands in for a struct, map or keyed list as null is set by whoever holds it.
        _ => {}
    }
    let has_parts = out.len() > first_part;
    match has_parts {
        // In place of the last comma.
        true => out.truncate(out.len() - 1),
        false => out.truncate(start),
    }
    out.push(b'}');
    Ok(if has_parts {
        Written::Parts
    } else {
        Written::Nothing
    })
}

/// Writes fields, each with a comma behind it.
fn write_fields(
    place: Place<'_>,
    structure: &Structure<'_>,
    fields: &Map<String, Value>,
    left_out: LeftOut<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ConfigurationError> {
    for (name, value) in fields {
        let (is_left_out, is_all_left_out, below) = left_out.descend(name);
        let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let is_map = matches!(structure, Structure::Map(_) | Structure::Deduced);
        let member = !is_left_out && (is_empty || is_map);
        let start = out.len();
        match structure {
            // What a built-in type declares needs no escapes, and nothing else gets far.
            Structure::Struct(id) if !place.is_structural(*id) => {
                out.extend_from_slice(b"\"f:");
                out.extend_from_slice(name.as_bytes());
                out.push(b'"');
            }
            _ => write_field(name, out),
        }
        out.push(b':');
        let child = place.child(structure, name);
        let child = child.ok_or_else(|| ConfigurationError::new("field not declared in schema"));
        let written = child.and_then(|child| write(child, value, member, below, out));
        let is_set = match written.map_err(|error| error.within(&PathElement::field(name)))? {
            _ if is_all_left_out => false,
            Written::Whole => !is_left_out,
            Written::Parts => true,
            Written::Nothing => member,
        };
        match is_set {
            true => out.push(b','),
            false => out.truncate(start),
        }
    }
    Ok(())
}

/// Writes items, each with a comma behind it, in the order of their steps.
fn write_items(
    item: Place<'_>,
    structure: &Structure<'_>,
    items: &[Value],
    out: &mut Vec<u8>,
) -> Result<(), ConfigurationError> {
    let first = out.len();
    let mut written: Vec<(PathElement, Range<usize>)> = Vec::with_capacity(items.len());
    for (index, value) in items.iter().enumerate() {
        let Some(element) = identity(structure, value) else {
            let Structure::Keyed(list) = structure else {
                continue;
            };
            return Err(ConfigurationError::new(format!(
                "element {index}: associative list with keys has an element that omits all key fields \
                 [{}] (and doesn't have default values for any key fields)",
                list.keys().join(" "),
            )));
        };
        let start = out.len() - first;
        write_text(element.as_str(), out);
        out.push(b':');
        write(item, value, true, LeftOut::NOTHING, out).map_err(|error| error.within(&element))?;
        out.push(b',');
        written.push((element, start..out.len() - first));
    }
    if written.is_sorted_by(|(one, _), (other, _)| one < other) {
        return Ok(());
    }
    written.sort_by(|(one, _), (other, _)| one.cmp(other));
    if let Some([(element, _), _]) = written
        .array_windows()
        .find(|[(one, _), (other, _)]| one == other)
    {
        return Err(ConfigurationError::new(format!(
            "duplicate entries for key {element}"
        )));
    }
    let as_given = out.split_off(first);
    for (_, range) in written {
        out.extend_from_slice(&as_given[range]);
    }
    Ok(())
}

fn check_type(place: Place<'_>, value: &Value) -> Result<(), ConfigurationError> {
    let expected = match (place.wants(), value) {
        (_, Value::Null) | (Wants::Anything, _) => return Ok(()),
        (Wants::Map, Value::Object(_)) | (Wants::List, Value::Array(_)) => return Ok(()),
        (Wants::Map, _) => "map",
        (Wants::List, _) => "list",
    };
    let found = go_value(value);
    Err(ConfigurationError::new(format!(
        "expected {expected}, got &{{{found}}}"
    )))
}

impl ConfigurationError {
    fn new(problem: impl Into<String>) -> Self {
        Self {
            path: String::new(),
            problem: problem.into(),
        }
    }

    /// The same error, seen from one step above.
    fn within(mut self, element: &PathElement) -> Self {
        self.path = format!("{element}{}", self.path);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Writes the text twice: with all fields, and without the paths of the second.
    fn check(config: Value, without: Value, wanted: Value, left: Value) {
        let schema = Schema::builtin();
        let root = schema.kind("apps/v1", "Deployment").unwrap();
        let left_out = LeftOut {
            paths: &FieldSet::from_value(&without).unwrap(),
            ..LeftOut::NOTHING
        };
        for (left_out, wanted) in [(LeftOut::NOTHING, wanted), (left_out, left)] {
            let text = field_text(schema, root, &config, left_out).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text, wanted.to_string(), "{config}");
            let set = FieldSet::read_json(text.as_bytes()).unwrap();
            assert_eq!(set, FieldSet::from_value(&wanted).unwrap());
        }
    }

    #[test]
    fn texts_are_those_of_sets() {
        check(
            json!({"kind": "Deployment", "metadata": {"name": "a", "labels": {"x": "1"}, "annotations": {}}}),
            json!({"f:kind": {}, "f:metadata": {".": {}, "f:name": {}, "f:labels": {}}}),
            json!({"f:kind": {}, "f:metadata": {"f:annotations": {}, "f:labels": {"f:x": {}}, "f:name": {}}}),
            json!({"f:metadata": {"f:annotations": {}, "f:labels": {"f:x": {}}}}),
        );
        // Items are put in order, keys escaped, and what is empty is set as such.
        let containers = json!([{"name": "b\"", "env": []}, {"name": "a", "ports": [{"containerPort": 2}, {"containerPort": 1}]}]);
        let ports = json!({
            "k:{\"containerPort\":1,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
            "k:{\"containerPort\":2,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
        });
        let set = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:ports": ports},
            "k:{\"name\":\"b\\\"\"}": {".": {}, "f:name": {}},
        }}}}});
        let spec = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        check(spec, json!({"f:metadata": {}}), set.clone(), set);
        let empty = json!({"spec": {"strategy": {}, "selector": null, "template": {"metadata": {"labels": {"a b": ""}}}}});
        let set = json!({"f:spec": {
            "f:selector": {}, "f:strategy": {}, "f:template": {"f:metadata": {"f:labels": {"f:a b": {}}}},
        }});
        check(empty, json!({}), set.clone(), set);
        check(
            json!({"metadata": {}}),
            json!({"f:metadata": {}}),
            json!({"f:metadata": {}}),
            json!({}),
        );
    }
}
