//! Manifests: objects in YAML or JSON documents, to be applied to a cluster.
//!
//! Each document becomes one or more [`Manifest`]s, which find their resource by discovery and are applied there. A
//! document that cannot be parsed does not affect the others. Reading the text is left to the caller.
//!
//! ```no_run
//! # use watchkeeper_client::{Client, DiscoveryClient, Manifest};
//! # use watchkeeper_meta::ApplyOptions;
//! # async fn example(client: Client, text: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let discovery = DiscoveryClient::new(client, Default::default());
//! let options = ApplyOptions { field_manager: "me".into(), ..Default::default() };
//! for manifest in Manifest::parse(text) {
//!     let manifest = manifest?;
//!     let api = manifest.api(&discovery, "default").await?;
//!     println!("{}", manifest.apply(&api, &options).await?); // service/demo created
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;

use serde_json::Value;
use watchkeeper_meta::{ApplyOptions, GroupVersionKind, ParseGroupVersionError};
use watchkeeper_wire::Object;
use watchkeeper_wire::yaml::{self, Mode, YamlError};

use crate::discovery::{DiscoveryClient, MapError};
use crate::dynamic::DynamicApi;
use crate::error::Error;

/// An object in a manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Its kind.
    pub kind: GroupVersionKind,
    /// Its name; empty if the server generates it.
    pub name: String,
    /// Its namespace; empty if it states none.
    pub namespace: String,
    /// The whole object.
    pub object: Value,
    /// Its place in the text.
    pub place: Place,
}

/// The place of an object in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The index among the non-empty documents, from 0.
    pub document: usize,
    /// The first line of its document, from 1.
    pub line: usize,
    /// The index of the item, from 0, if its document is a list.
    pub item: Option<usize>,
}

/// The reason a document is not a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is neither YAML nor JSON, or has a duplicate field.
    #[error(transparent)]
    Syntax(#[from] YamlError),
    /// `apiVersion` or `kind` is missing.
    #[error("the object at line {line} has no {field}")]
    Missing {
        /// The first line of its document, from 1.
        line: usize,
        /// `apiVersion` or `kind`.
        field: &'static str,
    },
    /// A field that must be text has another type.
    #[error("the object at line {line}: {field} is {found}, not text{hint}", hint = hint(found))]
    NotText {
        /// The first line of its document, from 1.
        line: usize,
        /// `apiVersion`, `kind`, `metadata.name` or `metadata.namespace`.
        field: &'static str,
        /// The value: `the boolean false`.
        found: String,
    },
    /// An invalid `apiVersion`.
    #[error("line {line}: {source}")]
    ApiVersion {
        /// The first line of its document, from 1.
        line: usize,
        /// The error.
        source: ParseGroupVersionError,
    },
}

/// An object after its manifest was applied. Prints as in kubectl: `service/demo created`.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The object.
    pub object: Object,
    /// The outcome.
    pub outcome: ApplyOutcome,
    /// `service/demo`.
    pub name: String,
}

/// The outcome of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The object was created.
    Created,
    /// The object was changed.
    Configured,
    /// The object already matched.
    Unchanged,
}

impl ManifestError {
    /// The line of the error, from 1.
    pub fn line(&self) -> usize {
        match self {
            Self::Syntax(error) => error.line,
            Self::Missing { line, .. } | Self::NotText { line, .. } | Self::ApiVersion { line, .. } => *line,
        }
    }
}

impl Manifest {
    /// Parses the documents of a text, in order; a list becomes its objects.
    pub fn parse(text: &[u8]) -> Vec<Result<Self, ManifestError>> {
        let mut found = Vec::new();
        for document in yaml::documents(text, Mode::Strict) {
            match document {
                Ok(document) => {
                    let place = Place {
                        document: document.index,
                        line: document.line,
                        item: None,
                    };
                    objects(place, document.value, &mut found);
                }
                Err(error) => found.push(Err(error.into())),
            }
        }
        found
    }

    /// The API of its resource, in its own namespace or else in `namespace`.
    pub async fn api(&self, discovery: &DiscoveryClient, namespace: &str) -> Result<DynamicApi, MapError> {
        let found = discovery.resource_of_kind(&self.kind).await?;
        let namespace = match self.namespace.is_empty() {
            true => namespace,
            false => &self.namespace,
        };
        Ok(discovery.client().dynamic(found.resource).namespace(namespace))
    }

    /// Applies the manifest (server-side apply).
    pub async fn apply(&self, api: &DynamicApi, options: &ApplyOptions) -> Result<Applied, Error> {
        let before = api.find(&self.name).await?;
        let applied = api.apply(&self.name, &self.object, &options.field_manager);
        let object = applied.with(options).await?;
        let outcome = match before {
            None => ApplyOutcome::Created,
            // A dry run keeps the version, whatever it would change.
            Some(before) if before.is_same_version(&object) && !options.dry_run => ApplyOutcome::Unchanged,
            Some(before) => match (before.to_value(), object.to_value()) {
                (Ok(before), Ok(after)) if self.leaves(&before, &after, &options.field_manager) => {
                    ApplyOutcome::Unchanged
                }
                _ => ApplyOutcome::Configured,
            },
        };
        Ok(Applied {
            name: api.resource().display_name(&self.name),
            object,
            outcome,
        })
    }

    /// True if the fields of the manifest, and those its manager owns, are unchanged by an apply. A controller may
    /// have written other fields in between.
    fn leaves(&self, before: &Value, after: &Value, manager: &str) -> bool {
        agree_on(&self.object, before, after) && owned_by(manager, before) == owned_by(manager, after)
    }

    fn read(place: Place, object: Value) -> Result<Self, ManifestError> {
        let line = place.line;
        let text = |field, value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Null => Ok(String::new()),
            other => Err(ManifestError::NotText {
                line,
                field,
                found: named(other),
            }),
        };
        let (api_version, kind) = (
            text("apiVersion", &object["apiVersion"])?,
            text("kind", &object["kind"])?,
        );
        for (field, value) in [("apiVersion", &api_version), ("kind", &kind)] {
            if value.is_empty() {
                return Err(ManifestError::Missing { line, field });
            }
        }
        let kind = GroupVersionKind::from_api_version(&api_version, &kind)
            .map_err(|source| ManifestError::ApiVersion { line, source })?;
        Ok(Self {
            kind,
            name: text("metadata.name", &object["metadata"]["name"])?,
            namespace: text("metadata.namespace", &object["metadata"]["namespace"])?,
            object,
            place,
        })
    }
}

/// A description of a value that should have been text.
fn named(value: &Value) -> String {
    match value {
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(value) => format!("the number {value}"),
        Value::Array(_) => "a list".to_owned(),
        _ => "a map".to_owned(),
    }
}

/// A hint at the fix: the author most likely meant the word.
fn hint(found: &str) -> &'static str {
    match found {
        _ if found.starts_with("the boolean") => {
            " (YAML reads y, n, yes, no, on, off, true and false as booleans unless they are in quotes)"
        }
        _ if found.starts_with("the number") => " (put it in quotes)",
        _ => "",
    }
}

/// True if two objects agree in every field of `named`.
fn agree_on(named: &Value, one: &Value, other: &Value) -> bool {
    match named {
        Value::Object(fields) => fields
            .iter()
            .all(|(name, named)| agree_on(named, &one[name], &other[name])),
        _ => one == other,
    }
}

/// The fields a manager has applied.
fn owned_by<'a>(manager: &str, object: &'a Value) -> Option<&'a Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let applied = |entry: &&Value| entry["manager"] == manager && entry["operation"] == "Apply";
    entries.iter().find(applied).map(|entry| &entry["fieldsV1"])
}

/// A document is an object, or a list of objects.
fn objects(place: Place, mut value: Value, found: &mut Vec<Result<Manifest, ManifestError>>) {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => {
            let item = |(index, item)| {
                let item_place = Place {
                    item: Some(index),
                    ..place
                };
                Manifest::read(item_place, item)
            };
            found.extend(items.into_iter().enumerate().map(item));
        }
        Some(items) => {
            value["items"] = items;
            found.push(Manifest::read(place, value));
        }
        None => found.push(Manifest::read(place, value)),
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.outcome)
    }
}

impl fmt::Display for ApplyOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_yaml_reads_as_another_type_is_an_error_with_a_hint() {
        let check = |metadata: &str, expected: &str| {
            let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n");
            let error = Manifest::parse(text.as_bytes()).remove(0).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            "{name: n}",
            "the object at line 1: metadata.name is the boolean false, not text (YAML reads y, n, yes, no, on, off, true \
             and false as booleans unless they are in quotes)",
        );
        check(
            "{name: a, namespace: 12}",
            "the object at line 1: metadata.namespace is the number 12, not text (put it in quotes)",
        );
        check(
            "{name: [a]}",
            "the object at line 1: metadata.name is a list, not text",
        );
    }

    #[test]
    fn concurrent_writes_to_other_fields_do_not_count_as_a_change() {
        let text =
            "{apiVersion: v1, kind: Service, metadata: {name: a, labels: {x: '1'}}, spec: {type: ClusterIP}}";
        let manifest = Manifest::parse(text.as_bytes()).remove(0).unwrap();
        let object = |label: &str, status: &str, owned: &str| {
            let mut object = manifest.object.clone();
            object["metadata"]["labels"]["x"] = label.into();
            object["metadata"]["resourceVersion"] = status.into();
            object["metadata"]["managedFields"] = json!([
                {"manager": "controller", "operation": "Update", "fieldsV1": status},
                {"manager": "me", "operation": "Apply", "fieldsV1": owned},
            ]);
            object["status"] = status.into();
            object
        };
        let check = |after: Value, unchanged: bool| {
            assert_eq!(
                manifest.leaves(&object("1", "old", "f"), &after, "me"),
                unchanged,
                "{after}"
            );
        };
        check(object("1", "old", "f"), true);
        check(object("1", "new", "f"), true);
        check(object("2", "old", "f"), false);
        check(object("1", "old", "fewer"), false);
    }

    #[test]
    fn an_invalid_document_does_not_affect_the_others() {
        let text = "apiVersion: v1
kind: Service
metadata: {name: demo}
---
kind: Service
---
apiVersion: v1
kind: List
items:
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: demo, namespace: shop}}
- {apiVersion: a/b/c, kind: Deployment}
";
        let read: Vec<String> = Manifest::parse(text.as_bytes())
            .into_iter()
            .map(|manifest| match manifest {
                Ok(manifest) => format!("{} {}/{}", manifest.kind, manifest.namespace, manifest.name),
                Err(error) => error.to_string(),
            })
            .collect();
        assert_eq!(
            read,
            [
                "/v1, Kind=Service /demo",
                "the object at line 5 has no apiVersion",
                "apps/v1, Kind=Deployment shop/demo",
                "line 7: unexpected GroupVersion string: a/b/c",
            ]
        );
    }
}
