//! The schemas of one OpenAPI document: look-up by kind, references and fields.

use serde_json::{Map, Value};
use watchkeeper_meta::GroupVersionKind;

const REFERENCE: &str = "#/components/schemas/";

/// The nesting of schemas that are not fields: a list of a map of a reference is three. More is a cycle.
const MAX_NESTING: usize = 32;

/// Named schemas that refer to each other.
#[derive(Debug)]
pub(super) struct Schemas(Map<String, Value>);

impl Schemas {
    pub(super) fn parse(document: &[u8]) -> Result<Self, serde_json::Error> {
        let mut document: Value = serde_json::from_slice(document)?;
        let schemas = document.pointer_mut("/components/schemas").map(Value::take);
        Ok(Self(match schemas {
            Some(Value::Object(schemas)) => schemas,
            _ => Map::new(),
        }))
    }

    pub(super) fn of_kind(&self, kind: &GroupVersionKind) -> Option<&Value> {
        let is_it = |own: &Value| {
            own["group"] == *kind.group && own["version"] == *kind.version && own["kind"] == *kind.kind
        };
        self.0.values().find(|schema| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(is_it))
        })
    }

    /// The name a schema refers to.
    pub(super) fn reference(schema: &Value) -> Option<&str> {
        schema["$ref"].as_str()?.strip_prefix(REFERENCE)
    }

    /// The referenced schema, or the schema itself.
    pub(super) fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let named = Self::reference(schema).and_then(|name| self.0.get(name));
        named.unwrap_or(schema)
    }

    /// The schema of a field, as its owner states it; the error is the name of a field that does not exist.
    pub(super) fn follow<'s, 'p>(
        &'s self,
        schema: &'s Value,
        path: &[&'p str],
    ) -> Result<&'s Value, &'p str> {
        path.iter().try_fold(schema, |schema, field| {
            self.field(schema, field, MAX_NESTING).ok_or(*field)
        })
    }

    /// The field of an object, or of its items or values.
    fn field<'s>(&'s self, schema: &'s Value, name: &str, nesting: usize) -> Option<&'s Value> {
        let resolved = self.resolve(schema);
        let nesting = nesting.checked_sub(1)?;
        resolved["properties"].get(name).or_else(|| {
            within(resolved)
                .into_iter()
                .find_map(|inner| self.field(inner, name, nesting))
        })
    }

    /// `string`, `[]Container`, `map[string]Quantity`.
    pub(super) fn type_name(&self, schema: &Value) -> String {
        if let Some(items) = schema.get("items") {
            return format!("[]{}", self.type_name(items));
        }
        if let Some(values) = values(schema) {
            return format!("map[string]{}", self.type_name(values));
        }
        if let (None, Some([only])) = (
            schema.get("properties"),
            schema["allOf"].as_array().map(Vec::as_slice),
        ) {
            return self.type_name(only);
        }
        let own = self.resolve(schema)["type"].as_str();
        match (Self::reference(schema), own) {
            (Some(name), None | Some("object")) => name.rsplit('.').next().unwrap_or(name).to_owned(),
            (None, None | Some("object")) => "Object".to_owned(),
            (_, Some(own)) => own.to_owned(),
        }
    }

    /// True if any type or field is described.
    pub(super) fn have_descriptions(&self) -> bool {
        let mut schemas = self.0.values();
        schemas.any(|schema| {
            let fields = schema["properties"].as_object().into_iter().flat_map(Map::values);
            std::iter::once(schema)
                .chain(fields)
                .any(|it| it["description"].is_string())
        })
    }

    /// The description of the schema, then those of its parts, a line each.
    pub(super) fn description(&self, schema: &Value) -> String {
        let mut text = String::new();
        self.describe(schema, MAX_NESTING, &mut text);
        text
    }

    fn describe(&self, schema: &Value, nesting: usize, text: &mut String) {
        let resolved = self.resolve(schema);
        if let Some(own) = resolved["description"].as_str().filter(|own| !own.is_empty()) {
            text.push_str(own);
            text.push('\n');
        }
        if let Some(nesting) = nesting.checked_sub(1) {
            for inner in within(resolved) {
                self.describe(inner, nesting, text);
            }
        }
    }
}

/// The nested schemas that are not fields: alternatives, items, values.
pub(super) fn within(schema: &Value) -> Vec<&Value> {
    let parts = schema["allOf"].as_array().into_iter().flatten();
    parts.chain(schema.get("items")).chain(values(schema)).collect()
}

/// The schema of a map's values; `true` states only that there are some.
fn values(schema: &Value) -> Option<&Value> {
    schema
        .get("additionalProperties")
        .filter(|values| values.is_object())
}
