//! The definition of a kind by `#[resource(…)]`, and its CustomResourceDefinition.

use schemars::Schema;
use schemars::generate::SchemaGenerator;
use serde_json::{Map, Value, json};
use watchkeeper_client::{Identity, ResourceType};
use watchkeeper_meta::{ObjectMeta, Resource, Scope};

use crate::paths;
use crate::structural::{SchemaError, structural};

/// A kind made by `#[derive(Resource)]`.
pub trait CustomResource: ResourceType {
    /// The desired state.
    type Spec;
    /// The observed state; `()` if the kind has none.
    type Status;

    /// The attributes of the kind.
    fn definition() -> Definition;
}

/// The metadata type of a derived kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the metadata of a kind",
    note = "it is `ObjectMeta` of `watchkeeper::meta` or, with the feature `k8s-openapi`, that of `k8s-openapi`"
)]
pub trait Metadata {
    /// The metadata of an object with this name.
    fn named(name: String) -> Self;

    /// The identity of the object.
    fn identity(&self) -> Identity;
}

impl Metadata for ObjectMeta {
    fn named(name: String) -> Self {
        ObjectMeta::named(name)
    }

    fn identity(&self) -> Identity {
        self.into()
    }
}

#[cfg(feature = "k8s-openapi")]
impl Metadata for k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    fn named(name: String) -> Self {
        Self {
            name: Some(name),
            ..Self::default()
        }
    }

    fn identity(&self) -> Identity {
        self.into()
    }
}

/// A kind in one version.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Group, version, kind, plural name and scope.
    pub resource: Resource,
    /// The singular name.
    pub singular: String,
    /// The description of the kind.
    pub description: &'static str,
    /// Abbreviations: `ws`.
    pub short_names: &'static [&'static str],
    /// The categories it belongs to: `all`.
    pub categories: &'static [&'static str],
    /// The printer columns of `kubectl get`.
    pub columns: &'static [Column],
    /// The paths of the `scale` subresource.
    pub scale: Option<Scale>,
    /// The paths that field selectors may use.
    pub selectable: &'static [&'static str],
    /// The CEL rules for the whole object.
    pub rules: &'static [Rule],
    /// True if the version is served.
    pub served: bool,
    /// True if objects are stored in this version.
    pub storage: bool,
    /// The deprecation warning. An empty one is the server's default.
    pub deprecated: Option<&'static str>,
    /// The JSON Schema of the spec.
    pub spec: fn(&mut SchemaGenerator) -> Schema,
    /// The JSON Schema of the status subresource.
    pub status: Option<fn(&mut SchemaGenerator) -> Schema>,
}

/// A printer column.
#[derive(Clone, Debug)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`. If empty, the type of the field in the schema.
    pub column_type: &'static str,
    /// `.spec.domain`.
    pub path: &'static str,
    /// May be empty.
    pub description: &'static str,
    /// May be empty.
    pub format: &'static str,
    /// Columns with a priority other than 0 are shown in wide output only.
    pub priority: i32,
}

/// The `scale` subresource.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The path of the desired number.
    pub spec: &'static str,
    /// The path of the current number.
    pub status: &'static str,
    /// The path of the pod selector; may be empty.
    pub selector: &'static str,
}

/// A CEL rule; empty texts are omitted.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `self.spec.replicas <= 10`.
    pub rule: &'static str,
    /// The error message.
    pub message: &'static str,
    /// An expression that computes the message.
    pub message_expression: &'static str,
    /// `FieldValueInvalid` and the like.
    pub reason: &'static str,
    /// The field named in the error.
    pub field_path: &'static str,
}

impl Definition {
    /// The CustomResourceDefinition with only this version.
    pub fn crd(&self) -> Result<Value, SchemaError> {
        let Resource {
            group, kind, plural, ..
        } = &self.resource;
        let scope = match self.resource.scope {
            Scope::Cluster => "Cluster",
            Scope::Namespaced => "Namespaced",
        };
        Ok(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": scope,
                "names": stated([
                    ("kind", json!(kind)),
                    ("listKind", json!(format!("{kind}List"))),
                    ("plural", json!(plural)),
                    ("singular", json!(self.singular)),
                    ("shortNames", json!(self.short_names)),
                    ("categories", json!(self.categories)),
                ]),
                "versions": [self.version()?],
            },
        }))
    }

    fn version(&self) -> Result<Value, SchemaError> {
        let schema = self.schema()?;
        self.check_paths(&schema)?;
        let columns: Vec<Value> = self
            .columns
            .iter()
            .map(|column| column.to_value(&schema))
            .collect();
        let selectable: Vec<Value> = self
            .selectable
            .iter()
            .map(|path| json!({"jsonPath": path}))
            .collect();
        let mut version = stated([
            ("name", json!(self.resource.version)),
            ("deprecationWarning", json!(self.deprecated.unwrap_or_default())),
            ("additionalPrinterColumns", json!(columns)),
            ("selectableFields", json!(selectable)),
            ("subresources", self.subresources()),
        ]);
        version["served"] = self.served.into();
        version["storage"] = self.storage.into();
        if self.deprecated.is_some() {
            version["deprecated"] = true.into();
        }
        version["schema"] = json!({"openAPIV3Schema": schema});
        Ok(version)
    }

    /// Every path leads to a field.
    fn check_paths(&self, schema: &Value) -> Result<(), SchemaError> {
        let columns = self.columns.iter();
        let columns = columns.map(|column| (format!("the column {:?}", column.name), column.path));
        let selectable = self.selectable.iter();
        let selectable = selectable.map(|path| ("`selectable`".to_owned(), *path));
        let scale = self.scale.iter();
        let scale = scale.flat_map(|scale| [scale.spec, scale.status, scale.selector]);
        let scale = scale.map(|path| ("`scale`".to_owned(), path));
        let rules = self.rules.iter();
        let rules = rules.map(|rule| (format!("the rule {:?}", rule.rule), rule.field_path));
        let mut paths = columns.chain(selectable).chain(scale).chain(rules);
        paths.try_for_each(|(attribute, path)| paths::check(&attribute, path, schema))
    }

    fn subresources(&self) -> Value {
        let mut subresources = Map::new();
        if self.status.is_some() {
            subresources.insert("status".into(), json!({}));
        }
        if let Some(scale) = &self.scale {
            subresources.insert("scale".into(), scale.to_value());
        }
        subresources.into()
    }

    fn schema(&self) -> Result<Value, SchemaError> {
        let rules: Vec<Value> = self.rules.iter().map(Rule::to_value).collect();
        let mut properties = Map::from_iter([("spec".to_owned(), structural("spec", self.spec)?)]);
        if let Some(status) = self.status {
            properties.insert("status".into(), structural("status", status)?);
        }
        Ok(stated([
            ("type", json!("object")),
            ("description", json!(self.description)),
            ("properties", properties.into()),
            ("required", json!(["spec"])),
            ("x-kubernetes-validations", json!(rules)),
        ]))
    }
}

impl Column {
    fn to_value(&self, schema: &Value) -> Value {
        let column_type = match self.column_type {
            "" => type_of(self.path, schema),
            stated => stated,
        };
        let mut column = stated([
            ("name", json!(self.name)),
            ("type", json!(column_type)),
            ("jsonPath", json!(self.path)),
            ("description", json!(self.description)),
            ("format", json!(self.format)),
        ]);
        if self.priority != 0 {
            column["priority"] = self.priority.into();
        }
        column
    }
}

impl Scale {
    fn to_value(&self) -> Value {
        stated([
            ("specReplicasPath", json!(self.spec)),
            ("statusReplicasPath", json!(self.status)),
            ("labelSelectorPath", json!(self.selector)),
        ])
    }
}

impl Rule {
    fn to_value(&self) -> Value {
        stated([
            ("rule", json!(self.rule)),
            ("message", json!(self.message)),
            ("messageExpression", json!(self.message_expression)),
            ("reason", json!(self.reason)),
            ("fieldPath", json!(self.field_path)),
        ])
    }
}

/// The type of a column that shows the field at this path. Paths with more than field names, such as list filters,
/// are `string`.
fn type_of(path: &str, schema: &Value) -> &'static str {
    if let ".metadata.creationTimestamp" | ".metadata.deletionTimestamp" = path {
        return "date";
    }
    let steps = path.split('.').skip(1);
    let field = steps.fold(schema, |field, step| &field["properties"][step]);
    match (field["type"].as_str(), field["format"].as_str()) {
        (Some("integer"), _) => "integer",
        (Some("number"), _) => "number",
        (Some("boolean"), _) => "boolean",
        (_, Some("date-time")) => "date",
        _ => "string",
    }
}

/// An object of the non-empty members.
fn stated<const N: usize>(members: [(&str, Value); N]) -> Value {
    let is_stated = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    };
    let members = members.into_iter().filter(|(_, value)| is_stated(value));
    members.map(|(name, value)| (name.to_owned(), value)).collect()
}
