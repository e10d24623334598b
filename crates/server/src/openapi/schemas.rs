//! Schema types as OpenAPI schemas; only those a document refers to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use watchkeeper_descriptions as descriptions;
use watchkeeper_meta::Resource;
use watchkeeper_registry::Definition;
use watchkeeper_wire::schema::{Field, Granularity, ListType, Schema, Shape, TypeId};

/// The document that descriptions of lists refer to.
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// Collects the definitions of a document, with those they refer to.
pub(super) struct Definitions<'a> {
    schema: &'a Schema,
    done: BTreeMap<String, Value>,
}

impl<'a> Definitions<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        Self {
            schema,
            done: BTreeMap::new(),
        }
    }

    /// The definitions, by name.
    pub(super) fn finish(self) -> BTreeMap<String, Value> {
        self.done
    }

    /// A reference to a type by its schema name (`core/v1.Pod`).
    pub(super) fn reference(&mut self, type_name: &str) -> Option<Value> {
        let id = self.schema.type_named(type_name)?;
        Some(self.refer(id))
    }

    /// A reference to the type of a kind; the definition has its group, version and kind.
    pub(super) fn kind(&mut self, api_version: &str, kind: &str) -> Option<Value> {
        let id = self.schema.kind(api_version, kind)?;
        let reference = self.refer(id);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let name = public_name(&self.schema[id].name);
        if let Some(Value::Object(definition)) = self.done.get_mut(&name) {
            let is = json!([{ "group": group, "version": version, "kind": kind }]);
            definition.insert("x-kubernetes-group-version-kind".to_owned(), is);
        }
        Some(reference)
    }

    /// A reference to a custom kind: the schema of its definition, with the common object fields.
    pub(super) fn custom(&mut self, resource: &Resource, custom: &Definition) -> Value {
        let stated = custom.open_api().filter(|stated| stated.is_object());
        let mut definition = stated.cloned().unwrap_or_else(|| json!({ "type": "object" }));
        let metadata = self.reference("meta/v1.ObjectMeta");
        for field in ["apiVersion", "kind"] {
            definition["properties"][field] = described(text(), descriptions::of_common_field(field));
        }
        definition["properties"]["metadata"] = described(
            json!({ "allOf": [metadata] }),
            descriptions::of_common_field("metadata"),
        );
        self.custom_definition(resource, &resource.kind, definition)
    }

    /// A reference to a list of a custom kind.
    pub(super) fn custom_list(&mut self, resource: &Resource, custom: &Definition) -> Value {
        let (item, metadata) = (self.custom(resource, custom), self.reference("meta/v1.ListMeta"));
        let items = format!("List of {}. More info: {CONVENTIONS}", resource.plural);
        let definition = json!({
            "description": format!("{} is a list of {}", custom.list_kind, resource.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": described(text(), descriptions::of_common_field("apiVersion")),
                "kind": described(text(), descriptions::of_common_field("kind")),
                "metadata": { "allOf": [metadata] },
                "items": { "description": items, "type": "array", "items": item },
            },
        });
        self.custom_definition(resource, &custom.list_kind, definition)
    }

    fn custom_definition(&mut self, resource: &Resource, kind: &str, mut definition: Value) -> Value {
        let (group, version) = (&resource.group, &resource.version);
        definition["x-kubernetes-group-version-kind"] =
            json!([{ "group": group, "version": version, "kind": kind }]);
        let package: Vec<&str> = group.split('.').rev().collect();
        let name = format!("{}.{version}.{kind}", package.join("."));
        self.leaf(&name, definition)
    }

    fn refer(&mut self, id: TypeId) -> Value {
        let name = public_name(&self.schema[id].name);
        if !self.done.contains_key(&name) {
            // Recursive types find this entry.
            self.done.insert(name.clone(), Value::Null);
            let definition = self.define(id, &name);
            self.done.insert(name.clone(), definition);
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// A definition without a struct in the schema.
    fn leaf(&mut self, name: &str, definition: Value) -> Value {
        let described = || described(definition, descriptions::of_type(name));
        self.done.entry(name.to_owned()).or_insert_with(described);
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    fn define(&mut self, id: TypeId, name: &str) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in self.schema.fields(id) {
            if field.name.is_empty() {
                continue;
            }
            if field.is_required() {
                required.push(field.name.to_string());
            }
            properties.insert(field.name.to_string(), self.property(field, name));
        }
        let mut definition = described(json!({ "type": "object" }), descriptions::of_type(name));
        if !properties.is_empty() {
            definition["properties"] = Value::Object(properties);
        }
        if !required.is_empty() {
            required.sort();
            definition["required"] = json!(required);
        }
        if self.schema[id].atomic {
            definition["x-kubernetes-map-type"] = json!("atomic");
        }
        definition
    }

    fn property(&mut self, field: &Field, of_type: &str) -> Value {
        let mut property = self.shape(&field.shape);
        let mut extra = Map::new();
        if let Some(description) = description(of_type, &field.name) {
            extra.insert("description".to_owned(), json!(description));
        }
        if let Some(list_type) = field.list_type {
            extra.insert(
                "x-kubernetes-list-type".to_owned(),
                json!(list_type_word(list_type)),
            );
        }
        if !field.list_map_keys.is_empty() {
            extra.insert(
                "x-kubernetes-list-map-keys".to_owned(),
                json!(field.list_map_keys),
            );
        }
        if field.map_type == Some(Granularity::Atomic) || field.struct_type == Some(Granularity::Atomic) {
            extra.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        }
        if let Some(strategy) = patch_strategy(field) {
            extra.insert("x-kubernetes-patch-strategy".to_owned(), json!(strategy));
        }
        if let Some(key) = &field.patch_merge_key {
            extra.insert("x-kubernetes-patch-merge-key".to_owned(), json!(key));
        }
        if let Some(default) = field
            .default
            .as_ref()
            .and_then(|text| serde_json::from_str(text).ok())
        {
            extra.insert("default".to_owned(), default);
        }
        // Readers ignore members beside a reference, so the reference is wrapped.
        if !extra.is_empty() && property.get("$ref").is_some() {
            property = json!({ "allOf": [property] });
        }
        if let Value::Object(members) = &mut property {
            members.append(&mut extra);
        }
        property
    }

    fn shape(&mut self, shape: &Shape) -> Value {
        const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
        const CRD: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
        match shape {
            Shape::String(None) => json!({ "type": "string" }),
            Shape::String(Some(id)) => json!({ "type": "string", "enum": self.schema[*id].values }),
            Shape::Bool => json!({ "type": "boolean" }),
            Shape::Int32 => json!({ "type": "integer", "format": "int32" }),
            Shape::Int64 => json!({ "type": "integer", "format": "int64" }),
            Shape::Float64 => json!({ "type": "number", "format": "double" }),
            Shape::Bytes => json!({ "type": "string", "format": "byte" }),
            Shape::Struct(id) => self.refer(*id),
            Shape::List(item) | Shape::ListMessage(item) => {
                json!({ "type": "array", "items": self.shape(item) })
            }
            Shape::Map(item) => json!({ "type": "object", "additionalProperties": self.shape(item) }),
            Shape::Time => self.leaf(&format!("{META}.Time"), date_time()),
            Shape::MicroTime => self.leaf(&format!("{META}.MicroTime"), date_time()),
            Shape::Duration => self.leaf(&format!("{META}.Duration"), json!({ "type": "string" })),
            Shape::FieldsV1 => self.leaf(&format!("{META}.FieldsV1"), json!({ "type": "object" })),
            Shape::Quantity => self.leaf(
                "io.k8s.apimachinery.pkg.api.resource.Quantity",
                json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
            ),
            Shape::IntOrString => self.leaf(
                "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] }),
            ),
            Shape::RawExtension => self.leaf(
                "io.k8s.apimachinery.pkg.runtime.RawExtension",
                json!({ "type": "object" }),
            ),
            Shape::Json => self.leaf(&format!("{CRD}.JSON"), json!({})),
            Shape::SchemaOrBool(_) => self.leaf(&format!("{CRD}.JSONSchemaPropsOrBool"), json!({})),
            Shape::SchemaOrArray(_) => self.leaf(&format!("{CRD}.JSONSchemaPropsOrArray"), json!({})),
            Shape::SchemaOrStrings(_) => self.leaf(&format!("{CRD}.JSONSchemaPropsOrStringArray"), json!({})),
            Shape::Any => json!({}),
        }
    }
}

/// The description of a field. Types without texts of their own, such as lists, have those of all kinds.
fn description(of_type: &str, field: &str) -> Option<&'static str> {
    let own = descriptions::of_field(of_type, field);
    own.or_else(|| match field {
        "apiVersion" | "kind" => descriptions::of_common_field(field),
        _ => None,
    })
}

fn described(mut schema: Value, description: Option<&str>) -> Value {
    if let Some(description) = description {
        schema["description"] = json!(description);
    }
    schema
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn date_time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn list_type_word(list_type: ListType) -> &'static str {
    match list_type {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    }
}

fn patch_strategy(field: &Field) -> Option<String> {
    let words = [
        (field.patch.merge, "merge"),
        (field.patch.retain_keys, "retainKeys"),
        (field.patch.replace, "replace"),
    ];
    let set: Vec<&str> = words
        .into_iter()
        .filter(|(is, _)| *is)
        .map(|(_, word)| word)
        .collect();
    (!set.is_empty()).then(|| set.join(","))
}

/// The public name of a type: `core/v1.Pod` is `io.k8s.api.core.v1.Pod`.
fn public_name(name: &str) -> String {
    let (package, kind) = name.rsplit_once('.').unwrap_or(("", name));
    let package = match package {
        "runtime" => "io.k8s.apimachinery.pkg.runtime".to_owned(),
        "intstr" => "io.k8s.apimachinery.pkg.util.intstr".to_owned(),
        "resource" => "io.k8s.apimachinery.pkg.api.resource".to_owned(),
        "meta/v1" => "io.k8s.apimachinery.pkg.apis.meta.v1".to_owned(),
        "apiextensions/v1" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1".to_owned(),
        "apiregistration/v1" => "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1".to_owned(),
        package => format!("io.k8s.api.{}", package.replace('/', ".")),
    };
    format!("{package}.{kind}")
}
