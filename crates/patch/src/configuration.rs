//! Computes the fields a configuration sets, in the stored form of a manager's fields: the text of a field set.
//!
//! The text is written while the configuration is read. Nearly every apply sets the same fields as the last one; then
//! the two texts are equal and no set is built.

use std::ops::Range;

use serde_json::{Map, Value};
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::field_set::{FieldSet, PathElement, write_field, write_text};
use crate::go_text::{go_syntax, go_type, go_value};
use crate::structure::{Place, Structure, Wants, identity};

static NO_FIELDS: FieldSet = FieldSet::new();

/// The fields omitted from the fields of a configuration.
#[derive(Clone, Copy)]
pub(crate) struct LeftOut<'s> {
    /// Omitted paths; the paths below them are kept.
    pub(crate) paths: &'s FieldSet,
    /// Paths omitted with everything below them.
    pub(crate) subtrees: &'s FieldSet,
}

impl<'s> LeftOut<'s> {
    /// Nothing is omitted below most steps.
    const NOTHING: LeftOut<'static> = LeftOut {
        paths: &NO_FIELDS,
        subtrees: &NO_FIELDS,
    };

    /// Returns whether the path of a field is omitted, whether everything below it is, and the omissions further
    /// below.
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

/// A configuration that does not match the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ConfigurationError {
    /// The path, as `.spec.ports`.
    pub path: String,
    /// The error, with Kubernetes' text.
    pub problem: String,
}

/// The fields a configuration sets.
///
/// A struct itself is not a field; its fields are. Keys of maps and items of keyed lists are fields, and so are an
/// empty object and a `null`.
pub fn field_set(schema: &Schema, root: TypeId, config: &Value) -> Result<FieldSet, ConfigurationError> {
    let text = field_text(schema, root, config, LeftOut::NOTHING)?;
    // Text written by this module can be read.
    Ok(FieldSet::read_json(&text).unwrap_or_default())
}

/// The [`field_set`] without the omitted fields, as text of [`FieldSet::write_json`].
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

/// Initial capacity, enough for most configurations.
const TEXT_BYTES: usize = 2048;

/// The part of a value that was written.
enum Written {
    /// The value as a whole.
    Whole,
    /// Some of its parts.
    Parts,
    /// Nothing; the value is set only if its parent says so.
    Nothing,
}

/// Writes the object of one step; `member` if a value with parts is itself set.
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
        // A null in place of a struct, map or keyed list is set by its parent.
        _ => {}
    }
    let has_parts = out.len() > first_part;
    match has_parts {
        // Replaces the last comma.
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

/// Writes fields, each followed by a comma.
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
            // Names that a built-in type declares need no escapes; other names are refused.
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

/// Writes items, each followed by a comma, sorted by step.
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
    let problem = match (place.wants(), value) {
        (_, Value::Null) | (Wants::Anything, _) => return Ok(()),
        (Wants::Map, Value::Object(_)) | (Wants::List, Value::Array(_)) => return Ok(()),
        (Wants::Text, Value::String(_)) | (Wants::Number, Value::Number(_)) => return Ok(()),
        (Wants::Boolean, Value::Bool(_)) => return Ok(()),
        (Wants::Map, _) => format!("expected map, got &{{{}}}", go_value(value)),
        (Wants::List, _) => format!("expected list, got &{{{}}}", go_value(value)),
        (Wants::Boolean, _) => format!("expected boolean, got &{{{}}}", go_value(value)),
        (Wants::Number, _) => format!("expected numeric (int or float), got {}", go_type(value)),
        (Wants::Text, _) => {
            let found = go_syntax(value);
            format!("expected string, got &value.valueUnstructured{{Value:{found}}}")
        }
    };
    Err(ConfigurationError::new(problem))
}

impl ConfigurationError {
    fn new(problem: impl Into<String>) -> Self {
        Self {
            path: String::new(),
            problem: problem.into(),
        }
    }

    /// Prepends one step to the path of the error.
    fn within(mut self, element: &PathElement) -> Self {
        self.path = format!("{element}{}", self.path);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Writes the text twice: with all fields, and without the paths of `without`.
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
        // Items are sorted, keys escaped, and empty values are set.
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
