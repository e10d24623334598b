//! OpenAPI documents generated from the catalog and the schema: sufficient for validation, `explain` and merging.
//!
//! There is one document per group and version. Types and fields are described if the build carries the descriptions
//! (feature `descriptions`).

mod documents;
mod paths;
mod protobuf;
mod schemas;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use watchkeeper_wire::schema::Schema;

use crate::aggregation::merge_v2;
use crate::catalog::{ApiVersion, Catalog};
use crate::discovery::hex_of_sha512;
use crate::version::KUBERNETES_MINOR;

pub(crate) use documents::Documents;
use schemas::Definitions;

/// Documents whose response has no schema.
const PLAIN: [&str; 3] = [".well-known/openid-configuration", "openid/v1/jwks", "version"];

/// The index: the path of every document, with a hash that changes when the document may have changed, so that
/// clients can cache it.
pub(crate) fn index(catalog: &Catalog) -> Value {
    let mut paths = BTreeMap::new();
    for path in document_paths(catalog) {
        let remote = version_at(catalog, &path).and_then(|(_, version)| version.remote.as_ref());
        if let Some(remote) = remote {
            let url = remote.openapi_v3.as_ref();
            paths.extend(url.map(|url| (path.clone(), json!({ "serverRelativeURL": url }))));
            continue;
        }
        let hash = catalog.documents.hash(&path, || document_hash(catalog, &path));
        paths.insert(
            path.clone(),
            json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") }),
        );
    }
    json!({ "paths": paths })
}

/// The hash of a document: of everything it is generated from.
pub(crate) fn document_hash(catalog: &Catalog, path: &str) -> String {
    let made_from = match version_at(catalog, path) {
        Some((_, version)) => format!("{version:?}"),
        None => format!(
            "{:?}",
            catalog
                .groups()
                .iter()
                .map(|group| &group.name)
                .collect::<Vec<_>>()
        ),
    };
    let made_by = (env!("CARGO_PKG_VERSION"), watchkeeper_descriptions::INCLUDED);
    let text = format!("{made_by:?} {path} {made_from}");
    hex_of_sha512(text.as_bytes())
}

/// True if there is a document at a path.
pub(crate) fn has_document(catalog: &Catalog, path: &str) -> bool {
    version_at(catalog, path).is_some() || document_paths(catalog).iter().any(|known| known == path)
}

/// The document at a path of the index, if there is one.
pub(crate) fn document(catalog: &Catalog, schema: &Schema, path: &str) -> Option<Value> {
    if let Some((group, version)) = version_at(catalog, path) {
        return Some(version_document(schema, path, group, version));
    }
    let known = document_paths(catalog).iter().any(|known| known == path);
    known.then(|| discovery_document(schema, path))
}

/// The same content as one document of version 2, without the details of operations.
pub(crate) fn document_v2(catalog: &Catalog, schema: &Schema) -> Value {
    let mut definitions = Definitions::new(schema);
    let mut paths = Map::new();
    for group in catalog.groups() {
        for version in group.versions.iter().filter(|it| it.remote.is_none()) {
            let root = root_of(&group.name, &version.name);
            paths.append(&mut paths::of_version(
                &mut definitions,
                &format!("/{root}"),
                &group.name,
                version,
            ));
        }
    }
    let document = json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths::as_v2(paths),
        "definitions": as_v2(definitions.finish()),
        "parameters": {},
        "securityDefinitions": {
            "BearerToken": { "type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication" },
        },
        "security": [{ "BearerToken": [] }],
    });
    let mut document = with_references(document, "#/components/schemas/", "#/definitions/");
    for group in catalog.groups() {
        for version in &group.versions {
            if let Some(other) = version.remote.as_ref().and_then(|it| it.openapi_v2.as_ref()) {
                merge_v2(&mut document, other, &group.name, &version.name);
            }
        }
    }
    document
}

/// A version 2 document in its protobuf form.
pub(crate) fn to_protobuf(document: &Value) -> Vec<u8> {
    protobuf::encode(document)
}

/// Version 2 has no union types: a value that may be a string is a string.
fn as_v2(mut definitions: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for definition in definitions.values_mut() {
        if let Value::Object(members) = definition
            && members.remove("oneOf").is_some()
        {
            members.insert("type".to_owned(), json!("string"));
        }
        let properties = definition.get_mut("properties").and_then(Value::as_object_mut);
        properties
            .into_iter()
            .flat_map(Map::values_mut)
            .for_each(unwrap_reference);
    }
    definitions
}

/// Readers of version 2 take a property for a reference only if it is one itself; other members stand beside it.
fn unwrap_reference(property: &mut Value) {
    let reference = property.pointer_mut("/allOf/0/$ref").map(Value::take);
    if let (Value::Object(members), Some(reference)) = (property, reference) {
        members.remove("allOf");
        members.insert("$ref".to_owned(), reference);
    }
}

fn version_document(schema: &Schema, path: &str, group: &str, version: &ApiVersion) -> Value {
    let mut definitions = Definitions::new(schema);
    let root = format!("/{path}");
    let is_custom = version.resources.iter().all(|resource| resource.is_custom());
    if is_custom {
        let paths = paths::of_custom_version(&mut definitions, &root, group, version);
        let info = json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" });
        return whole(info, paths, definitions);
    }
    let paths = paths::of_version(&mut definitions, &root, group, version);
    whole(info(), paths, definitions)
}

/// A document with the one path of a discovery endpoint.
fn discovery_document(schema: &Schema, path: &str) -> Value {
    let mut definitions = Definitions::new(schema);
    let answer = match path {
        "api" => "meta/v1.APIVersions",
        "apis" => "meta/v1.APIGroupList",
        _ => "meta/v1.APIGroup",
    };
    let (address, operation) = match path {
        path if PLAIN.contains(&path) => (format!("/{path}/"), paths::plain_get(path, None)),
        _ => (
            format!("/{path}/"),
            paths::plain_get(path, definitions.reference(answer)),
        ),
    };
    let mut paths = Map::new();
    paths.insert(address, json!({ "get": operation }));
    whole(info(), paths, definitions)
}

fn whole(info: Value, paths: Map<String, Value>, definitions: Definitions<'_>) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": info,
        "paths": paths,
        "components": {
            "schemas": definitions.finish(),
            "securitySchemes": {
                "BearerToken": { "type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication" },
            },
        },
    })
}

fn info() -> Value {
    json!({ "title": "Kubernetes", "version": format!("1.{KUBERNETES_MINOR}") })
}

/// Every path of the index.
fn document_paths(catalog: &Catalog) -> Vec<String> {
    let mut paths: Vec<String> = [&["api", "apis"][..], &PLAIN]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    for group in catalog.groups() {
        paths.extend((!group.name.is_empty()).then(|| format!("apis/{}", group.name)));
        paths.extend(
            group
                .versions
                .iter()
                .map(|version| root_of(&group.name, &version.name)),
        );
    }
    paths
}

/// `api/v1`, `apis/apps/v1`.
fn root_of(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

fn version_at<'a>(catalog: &'a Catalog, path: &'a str) -> Option<(&'a str, &'a ApiVersion)> {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["api", version] => Some(("", catalog.version("", version)?)),
        ["apis", group, version] => Some((*group, catalog.version(group, version)?)),
        _ => None,
    }
}

/// Replaces the prefix of every reference.
fn with_references(value: Value, old: &str, new: &str) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .map(|(name, value)| (name, with_references(value, old, new)))
                .collect(),
        ),
        Value::Array(items) => items
            .into_iter()
            .map(|item| with_references(item, old, new))
            .collect(),
        Value::String(text) => match text.strip_prefix(old) {
            Some(name) => Value::String(format!("{new}{name}")),
            None => Value::String(text),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ServedResource;

    fn coordination() -> Value {
        let catalog = Catalog::new(ServedResource::built_in());
        document(&catalog, Schema::builtin(), "apis/coordination.k8s.io/v1").unwrap()
    }

    #[test]
    fn patch_operations_have_the_field_validation_parameter() {
        let document = coordination();
        let patch =
            &document["paths"]["/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Lease");
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(parameters.iter().any(|it| it["name"] == "fieldValidation"));
    }

    #[test]
    fn version_2_has_one_type_per_value() {
        let document = document_v2(&Catalog::new(ServedResource::built_in()), Schema::builtin());
        let definition = |name: &str| {
            let mut definition = document["definitions"][name].clone();
            definition.as_object_mut().unwrap().remove("description");
            definition
        };
        assert_eq!(
            definition("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
            json!({ "format": "int-or-string", "type": "string" })
        );
        assert_eq!(
            definition("io.k8s.apimachinery.pkg.api.resource.Quantity"),
            json!({ "type": "string" })
        );
    }

    #[test]
    fn references_of_version_2_are_not_wrapped() {
        let document = document_v2(&Catalog::new(ServedResource::built_in()), Schema::builtin());
        let owner = &document["definitions"]["io.k8s.api.core.v1.EnvVarSource"]["properties"]["fieldRef"];
        assert_eq!(
            owner["$ref"],
            "#/definitions/io.k8s.api.core.v1.ObjectFieldSelector"
        );
        let wrapped = document["definitions"].as_object().unwrap().values();
        let wrapped = wrapped.filter_map(|it| it["properties"].as_object());
        assert!(wrapped.flat_map(Map::values).all(|it| it.get("allOf").is_none()));
    }

    /// Without texts: lists and a few types that no kind of k8s-openapi refers to, and fields Kubernetes does not describe.
    #[cfg(feature = "descriptions")]
    const UNDESCRIBED: [&str; 8] = [
        "CertificateSigningRequest metadata",
        "ExternalDocumentation ",
        "GroupResource ",
        "JSONSchemaProps ",
        "List ",
        "Options ",
        "Patch ",
        "WatchEvent ",
    ];

    #[cfg(feature = "descriptions")]
    #[test]
    fn built_in_types_and_their_fields_are_described() {
        let catalog = Catalog::new(ServedResource::built_in());
        let mut without = Vec::new();
        for path in document_paths(&catalog) {
            let document = document(&catalog, Schema::builtin(), &path).unwrap();
            for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
                let fields = schema["properties"].as_object().into_iter().flatten();
                let fields = fields.map(|(field, schema)| (&**field, schema));
                let bare = std::iter::once(("", schema)).chain(fields);
                let bare = bare.filter(|(_, schema)| schema.get("description").is_none());
                without.extend(bare.map(|(field, _)| format!("{name} {field}")));
            }
        }
        without.retain(|name| !UNDESCRIBED.iter().any(|part| name.contains(part)));
        assert_eq!(without, Vec::<String>::new());
    }

    #[test]
    fn every_reference_has_a_definition() {
        fn check(value: &Value, schemas: &Value) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(reference)) = members.get("$ref") {
                        let name = reference.strip_prefix("#/components/schemas/").unwrap();
                        assert!(schemas.get(name).is_some(), "{name}");
                    }
                    members.values().for_each(|value| check(value, schemas));
                }
                Value::Array(items) => items.iter().for_each(|item| check(item, schemas)),
                _ => {}
            }
        }
        let catalog = Catalog::new(ServedResource::built_in());
        for path in document_paths(&catalog) {
            let document = document(&catalog, Schema::builtin(), &path).unwrap();
            check(&document, &document["components"]["schemas"]);
        }
    }

    #[test]
    fn lists_have_their_merge_keys() {
        let catalog = Catalog::new(ServedResource::built_in());
        let document = document(&catalog, Schema::builtin(), "api/v1").unwrap();
        let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
        let containers = &spec["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert!(
            spec["required"]
                .as_array()
                .unwrap()
                .contains(&json!("containers"))
        );
    }
}
