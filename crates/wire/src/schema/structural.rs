//! Compiles the `openAPIV3Schema` of a custom kind's versions into the same structure as built-in kinds, for pruning,
//! apply and defaulting.
//!
//! ```text
//! {"type": "object", "properties": {"spec": {"type": "object", "properties": {
//!     "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
//!     "more": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}
//! ⇒ Widget {apiVersion: String, kind: String, metadata: ObjectMeta, spec: Struct}
//!   Widget.spec {tags: List(String), a set; more: Struct that keeps unknown fields}
//! ```
//!
//! This module does not check that Kubernetes would accept the schema; parts it cannot interpret allow any value.

use serde_json::{Map, Value};

use super::{
    Builder, Field, Granularity, ListType, Schema, SchemaError, Shape, Text, Type, TypeId, UnknownFields,
};
use crate::limits::NESTING_LIMIT;

/// The largest number of fields of one object: positions of fields are 16 bits wide.
pub const MAX_PROPERTIES: usize = 10_000;

/// Compiles the versions of one custom kind into one schema.
///
/// ```
/// use serde_json::json;
/// use watchkeeper_wire::canonical::canonicalize;
/// use watchkeeper_wire::schema::structural::Compiler;
///
/// let mut compiler = Compiler::new();
/// let properties = json!({"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}});
/// let schema = json!({"type": "object", "properties": properties});
/// let id = compiler.version("example.com/v1", "Widget", &schema)?;
/// let schema = compiler.finish()?;
/// let read = canonicalize(&schema, id, json!({"spec": {"size": 1, "nope": 2}})).unwrap();
/// assert_eq!(read.value, json!({"spec": {"size": 1}}));
/// assert_eq!(read.unknown[0].to_string(), r#"unknown field "spec.nope""#);
/// # Ok::<(), watchkeeper_wire::schema::SchemaError>(())
/// ```
#[derive(Debug, Default)]
pub struct Compiler {
    builder: Builder,
}

impl Compiler {
    /// A compiler without versions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a version of the kind.
    pub fn version(&mut self, api_version: &str, kind: &str, schema: &Value) -> Result<TypeId, SchemaError> {
        let name = format!("{}.{kind}", api_version.replace('.', "-"));
        let own = properties(schema).into_iter().flatten();
        let own = own.filter(|(name, _)| !matches!(&***name, "apiVersion" | "kind" | "metadata"));
        let mut fields = vec![
            text_field("apiVersion"),
            text_field("kind"),
            self.metadata(false)?,
        ];
        fields.extend(self.fields(own, &name, 0)?);
        let id = self.add(name, fields, schema);
        self.builder.kind(api_version.to_owned(), kind.to_owned(), id);
        Ok(id)
    }

    /// All versions in one schema.
    pub fn finish(self) -> Result<Schema, SchemaError> {
        self.builder.build()
    }

    fn metadata(&mut self, is_within: bool) -> Result<Field, SchemaError> {
        let builtin = Schema::builtin();
        let id = builtin.type_named("meta/v1.ObjectMeta");
        let id = id.ok_or_else(|| SchemaError("there is no ObjectMeta".to_owned()))?;
        Ok(Field {
            name: "metadata".into(),
            shape: Shape::Struct(self.builder.import(builtin, id)),
            // Every object has metadata; an embedded one only if it is present.
            pointer: is_within,
            omit_empty: is_within,
            ..Field::default()
        })
    }

    fn add(&mut self, name: String, fields: Vec<Field>, schema: &Value) -> TypeId {
        let mut it = Type::new(name, fields);
        it.structural = true;
        it.atomic = schema["x-kubernetes-map-type"] == "atomic";
        if is_set(schema, "x-kubernetes-preserve-unknown-fields") {
            it.unknown_fields = UnknownFields::Keep;
        }
        self.builder.add(it)
    }

    fn fields<'a>(
        &mut self,
        properties: impl Iterator<Item = (&'a String, &'a Value)>,
        owner: &str,
        depth: u32,
    ) -> Result<Vec<Field>, SchemaError> {
        let mut fields = Vec::new();
        for (name, schema) in properties {
            if fields.len() == MAX_PROPERTIES {
                return Err(SchemaError(format!(
                    "{owner} has more than {MAX_PROPERTIES} properties"
                )));
            }
            fields.push(self.field(name, schema, owner, depth + 1)?);
        }
        Ok(fields)
    }

    fn field(&mut self, name: &str, schema: &Value, owner: &str, depth: u32) -> Result<Field, SchemaError> {
        let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter();
        let keys = keys.flatten().filter_map(Value::as_str);
        let default = schema.get("default").filter(|default| !default.is_null());
        let type_name = format!("{owner}.{name}");
        if depth > NESTING_LIMIT {
            return Err(SchemaError(format!(
                "{type_name} is nested deeper than {NESTING_LIMIT} levels"
            )));
        }
        let item = self.item(schema, &type_name, depth)?;
        let shape = match &item {
            // Its types are compiled once.
            Some(item) => container(schema, item.shape.clone()),
            None => self.shape(schema, &type_name, depth)?,
        };
        Ok(Field {
            name: name.to_owned().into(),
            shape,
            // Absent always differs from zero.
            pointer: true,
            omit_empty: true,
            nullable: is_set(schema, "nullable"),
            list_type: list_type(schema),
            list_map_keys: keys.map(|key| Text::from(key.to_owned())).collect(),
            map_type: (schema["x-kubernetes-map-type"] == "atomic").then_some(Granularity::Atomic),
            item,
            default: default.map(|default| Text::from(default.to_string())),
            ..Field::default()
        })
    }

    /// The items of a list or the values of a map, if they are lists or maps: they may have markers of their own.
    fn item(&mut self, schema: &Value, owner: &str, depth: u32) -> Result<Option<Box<Field>>, SchemaError> {
        let item = match schema["type"].as_str() {
            Some("array") => &schema["items"],
            Some("object") => &schema["additionalProperties"],
            _ => return Ok(None),
        };
        if is_set(schema, "x-kubernetes-int-or-string") {
            return Ok(None);
        }
        let is_container = item["type"] == "array" || item["additionalProperties"].is_object();
        match is_container {
            true => Ok(Some(Box::new(self.field("", item, owner, depth + 1)?))),
            false => Ok(None),
        }
    }

    fn shape(&mut self, schema: &Value, name: &str, depth: u32) -> Result<Shape, SchemaError> {
        if is_set(schema, "x-kubernetes-int-or-string") {
            return Ok(Shape::IntOrString);
        }
        Ok(match schema["type"].as_str().unwrap_or_default() {
            "string" => Shape::String(None),
            "boolean" => Shape::Bool,
            "integer" => Shape::Int64,
            "number" => Shape::Float64,
            "array" => container(schema, self.shape(&schema["items"], name, depth + 1)?),
            "object" => match &schema["additionalProperties"] {
                Value::Bool(true) => container(schema, Shape::Any),
                additional @ Value::Object(_) => container(schema, self.shape(additional, name, depth + 1)?),
                _ => self.object(schema, name, depth)?,
            },
            _ => Shape::Any,
        })
    }

    fn object(&mut self, schema: &Value, name: &str, depth: u32) -> Result<Shape, SchemaError> {
        let is_resource = is_set(schema, "x-kubernetes-embedded-resource");
        let own = properties(schema).into_iter().flatten();
        let own = own.filter(|(name, _)| !is_resource || *name != "metadata");
        let mut fields = self.fields(own, name, depth)?;
        if is_resource {
            fields.push(self.metadata(true)?);
            for name in ["apiVersion", "kind"] {
                if !fields.iter().any(|field| field.name == name) {
                    fields.push(text_field(name));
                }
            }
        }
        Ok(Shape::Struct(self.add(name.to_owned(), fields, schema)))
    }
}

/// A list or a map of these items.
fn container(schema: &Value, item: Shape) -> Shape {
    match schema["type"] == "array" {
        true => Shape::List(Box::new(item)),
        false => Shape::Map(Box::new(item)),
    }
}

fn text_field(name: &'static str) -> Field {
    Field {
        name: name.into(),
        shape: Shape::String(None),
        pointer: true,
        omit_empty: true,
        ..Field::default()
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

fn is_set(schema: &Value, name: &str) -> bool {
    schema[name] == true
}

fn list_type(schema: &Value) -> Option<ListType> {
    match schema["x-kubernetes-list-type"].as_str()? {
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map),
        "atomic" => Some(ListType::Atomic),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::canonical::canonicalize;

    fn check(spec: Value, object: Value, kept: Value, unknown: &[&str]) {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let mut compiler = Compiler::new();
        let id = compiler.version("example.com/v1", "Widget", &schema).unwrap();
        let schema = compiler.finish().unwrap();
        let read = canonicalize(&schema, id, object).unwrap();
        assert_eq!(read.value, kept);
        let found: Vec<&str> = read.unknown.iter().map(|error| error.path()).collect();
        assert_eq!(found, unknown);
    }

    #[test]
    fn what_the_schema_does_not_know_is_pruned() {
        let spec = json!({"type": "object", "properties": {
            "known": {"type": "string"},
            "half": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "inner": {"type": "object", "properties": {"k": {"type": "string"}}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object"}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true},
        }});
        check(
            spec,
            json!({"metadata": {"name": "a", "nope": 1}, "top": 1, "spec": {
                "known": 5, "other": 1,
                "half": {"extra": 2.0, "inner": {"k": "v", "gone": 1}},
                "list": [{"a": null, "b": 1}, 7],
                "map": {"m": {"x": 1}},
                "pod": {"kind": "Pod", "metadata": {"name": "n", "no": 1}, "spec": {}},
            }}),
            json!({"metadata": {"name": "a"}, "spec": {
                "known": 5,
                "half": {"extra": 2, "inner": {"k": "v"}},
                "list": [{"a": null}, 7],
                "map": {"m": {}},
                "pod": {"kind": "Pod", "metadata": {"name": "n"}},
            }}),
            &[
                "spec.half.inner.gone",
                "spec.list[0].b",
                "spec.map.m.x",
                "spec.other",
                "spec.pod.spec",
                "top",
                "metadata.nope",
                "spec.pod.metadata.no",
            ],
        );
    }

    #[test]
    fn metadata_is_read_into_a_struct() {
        let mut compiler = Compiler::new();
        let id = compiler.version("example.com/v1", "Widget", &json!({})).unwrap();
        let schema = compiler.finish().unwrap();
        let error = canonicalize(&schema, id, json!({"metadata": {"labels": {"a": 1}}})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
        );
    }

    /// Arbitrary JSON with the keywords of a schema.
    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop::sample::select(vec![
                "object", "array", "string", "integer", "map", "set", "atomic", "a"
            ])
            .prop_map(Value::from),
        ];
        let words = vec![
            "type",
            "properties",
            "additionalProperties",
            "items",
            "default",
            "nullable",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "a",
            "metadata",
        ];
        leaf.prop_recursive(6, 64, 6, move |inner| {
            let members = prop::collection::btree_map(
                prop::sample::select(words.clone()).prop_map(str::to_owned),
                inner.clone(),
                0..6,
            );
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_schema_compiles_or_is_refused_and_prunes_once(schema in any_schema(), spec in any_schema()) {
            let mut compiler = Compiler::new();
            let schema = json!({"type": "object", "properties": {"a": schema}});
            let id = compiler.version("example.com/v1", "Widget", &schema).unwrap();
            let schema = compiler.finish().unwrap();
            if let Ok(once) = canonicalize(&schema, id, json!({"a": spec})) {
                let twice = canonicalize(&schema, id, once.value.clone()).unwrap();
                prop_assert_eq!(&twice.value, &once.value);
                prop_assert!(twice.unknown.is_empty());
            }
        }
    }
}
