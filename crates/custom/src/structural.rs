//! Converts the JSON Schema of a Rust type to a structural schema.
//!
//! The input is the output of `schemars` (draft 2020-12, with `$ref`s); the result can be used in a
//! CustomResourceDefinition: each field has one type, stated once, outside of `oneOf` and the like. References are
//! inlined, `Option`s become `nullable`, enums are [hoisted](variants): their fields move to the schema around the
//! variants, which keep only their restrictions.
//!
//! Types that Kubernetes cannot express are errors that name the field, never a looser schema; the crate's
//! documentation lists them. Two things are looser than serde: unknown fields are pruned or refused as the request
//! asks, even with `deny_unknown_fields`, and the keys of a map are any text.

mod descriptions;
mod keywords;
mod variants;

use schemars::Schema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use keywords::{finish, insert_conjoined};

/// A schema under construction. It may lack a type until it is [finished](finish).
type Node = Map<String, Value>;

/// Marks a schema that allows no other fields. Used only within this module.
const CLOSED: &str = "closed";

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Keywords that describe without restricting and are dropped by Kubernetes.
const DROPPED: [&str; 13] = [
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "$comment",
    "title",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "unevaluatedProperties",
];

/// A type without a structural schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct SchemaError {
    /// The field, from the object's root: `spec.source.git`, with `[]` for the items of a list and `[*]` for the
    /// values of a map.
    pub path: String,
    /// The problem, and an alternative.
    pub problem: String,
}

/// The structural schema of the type of a field.
pub(crate) fn structural(
    field: &str,
    of_type: fn(&mut SchemaGenerator) -> Schema,
) -> Result<Value, SchemaError> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let schema = of_type(&mut generator).to_value();
    let mut reader = Reader {
        definitions: generator.take_definitions(false),
        inlined: Vec::new(),
        path: field.to_owned(),
    };
    reader.field(&schema)
}

/// Walks a schema and keeps track of the path.
struct Reader {
    definitions: Map<String, Value>,
    /// The references that led here.
    inlined: Vec<String>,
    path: String,
}

impl Reader {
    fn error(&self, problem: impl Into<String>) -> SchemaError {
        SchemaError {
            path: self.path.clone(),
            problem: problem.into(),
        }
    }

    /// Calls a function with one more step on the path.
    fn within<T>(
        &mut self,
        step: &str,
        read: impl FnOnce(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<T, SchemaError> {
        let length = self.path.len();
        self.path.push_str(step);
        let found = read(self);
        self.path.truncate(length);
        found
    }

    /// A complete schema: it has a type.
    fn field(&mut self, schema: &Value) -> Result<Value, SchemaError> {
        let node = self.schema(schema)?;
        finish(node)
            .map(Value::Object)
            .map_err(|problem| self.error(problem))
    }

    /// A schema that may be part of another one.
    fn schema(&mut self, schema: &Value) -> Result<Node, SchemaError> {
        match schema {
            Value::Bool(true) => Ok(Node::new()),
            Value::Object(words) => self.words(words),
            _ => Err(self.error("no value is valid")),
        }
    }

    fn words(&mut self, words: &Map<String, Value>) -> Result<Node, SchemaError> {
        let mut node = Node::new();
        for (word, value) in words {
            self.word(word, value, words, &mut node)?;
        }
        keywords::bounds(&mut node);
        if let Some(reference) = words.get("$ref") {
            let target = self.reference(reference.as_str().unwrap_or_default())?;
            self.conjoin(&mut node, target)?;
        }
        for word in ["allOf", "oneOf", "anyOf"] {
            if let Some(Value::Array(schemas)) = words.get(word) {
                self.junctor(word, schemas, &mut node)?;
            }
        }
        Ok(node)
    }

    fn word(
        &mut self,
        word: &str,
        value: &Value,
        words: &Map<String, Value>,
        node: &mut Node,
    ) -> Result<(), SchemaError> {
        match word {
            "$ref" | "allOf" | "oneOf" | "anyOf" => {}
            "type" => self.types(value, node)?,
            "const" => drop(node.insert("enum".into(), json!([value]))),
            "properties" => {
                let mut properties = Node::new();
                for (name, schema) in value.as_object().into_iter().flatten() {
                    let field = self.within(&format!(".{name}"), |reader| reader.field(schema))?;
                    properties.insert(name.clone(), field);
                }
                node.insert(word.into(), properties.into());
            }
            "items" => drop(node.insert(word.into(), self.within("[]", |reader| reader.field(value))?)),
            "prefixItems" => drop(node.insert("items".into(), self.tuple(value)?)),
            "additionalProperties" => self.additional(value, words, node)?,
            "patternProperties" => self.pattern_properties(value, words, node)?,
            "not" => {
                let not = self.schema(value)?;
                if not.keys().any(|word| !keywords::is_restriction(word)) {
                    return Err(self.error("`not` cannot contain types"));
                }
                node.insert(word.into(), not.into());
            }
            "default" if value.is_null() => {}
            "nullable" if *value == false => {}
            "uniqueItems" if *value == true => keywords::set(node, words),
            _ if DROPPED.contains(&word) || word == "uniqueItems" => {}
            _ if keywords::is_kept(word) => drop(node.insert(word.into(), value.clone())),
            _ if word.starts_with("x-") => {}
            _ => return Err(self.error(format!("`{word}` has no counterpart in a structural schema"))),
        }
        Ok(())
    }

    fn types(&self, value: &Value, node: &mut Node) -> Result<(), SchemaError> {
        let stated = match value {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            one => Vec::from_iter(one.as_str()),
        };
        if stated.contains(&"null") {
            node.insert("nullable".into(), true.into());
        }
        let types: Vec<&str> = stated.into_iter().filter(|name| *name != "null").collect();
        keywords::set_type(node, &types).map_err(|problem| self.error(problem))
    }

    fn tuple(&mut self, value: &Value) -> Result<Value, SchemaError> {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if items.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(self.error("the items of a tuple must have one type; use a struct"));
        }
        let item = items.first().unwrap_or(&Value::Bool(true)).clone();
        self.within("[]", |reader| reader.field(&item))
    }

    fn additional(
        &mut self,
        value: &Value,
        words: &Map<String, Value>,
        node: &mut Node,
    ) -> Result<(), SchemaError> {
        let has_fields = words.contains_key("properties") || words.contains_key("$ref");
        match value {
            Value::Bool(false) if words.contains_key("patternProperties") => {}
            Value::Bool(false) => drop(node.insert(CLOSED.into(), true.into())),
            Value::Bool(true) => drop(node.insert(PRESERVE.into(), true.into())),
            Value::Object(schema) if schema.is_empty() => drop(node.insert(PRESERVE.into(), true.into())),
            _ if has_fields => {
                return Err(self.error(
                    "an object has named fields or is a map, not both; give the map a field of its own",
                ));
            }
            schema => {
                let values = self.within("[*]", |reader| reader.field(schema))?;
                node.insert("additionalProperties".into(), values);
            }
        }
        Ok(())
    }

    /// Maps whose keys are numbers, or match a pattern, become maps with any text as keys.
    fn pattern_properties(
        &mut self,
        value: &Value,
        words: &Map<String, Value>,
        node: &mut Node,
    ) -> Result<(), SchemaError> {
        let schemas: Vec<&Value> = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, schema)| schema)
            .collect();
        match schemas[..] {
            [schema] if !words.contains_key("properties") => self.additional(schema, &Map::new(), node),
            _ => Err(self.error("the values of a map must have one type, whatever the key")),
        }
    }

    fn reference(&mut self, reference: &str) -> Result<Node, SchemaError> {
        let name = reference.rsplit('/').next().unwrap_or_default();
        if self.inlined.iter().any(|outer| outer == name) {
            return Err(self.error(format!(
                "`{name}` contains itself, and a structural schema has an end; use a `serde_json::Value` here"
            )));
        }
        let Some(schema) = self.definitions.get(name).cloned() else {
            return Err(self.error(format!("`{reference}` is not defined")));
        };
        self.inlined.push(name.to_owned());
        let found = self.schema(&schema);
        self.inlined.pop();
        found
    }

    /// Combines two schemas: everything required by `other` is added to `node`. Descriptions of `node` take
    /// precedence.
    fn conjoin(&self, node: &mut Node, other: Node) -> Result<(), SchemaError> {
        for (word, value) in other {
            insert_conjoined(node, &word, value).map_err(|problem| self.error(problem))?;
        }
        Ok(())
    }
}
