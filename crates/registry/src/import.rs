//! Converts objects of another cluster to the form stored here.
//!
//! Takes an object as it was served; returns its key and its bytes. Nothing is validated or defaulted: the other
//! cluster did that.

use bytes::Bytes;
use serde_json::Value;
use watchkeeper_meta::{GroupVersionResource, Resource, Status};
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::schema::resources;

use crate::catalog::builtin_definition;
use crate::definition::Definition;
use crate::metadata;
use crate::object::StoredObject;

/// A stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Bytes,
}

/// The reason an object cannot be stored here.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A built-in resource that this server does not support.
    #[error("this server has no {0}")]
    NoResource(String),
    /// The object does not match the schema of its kind.
    #[error("{0} cannot be stored")]
    Encoding(String, #[source] Box<Status>),
}

/// The key under which an object of a resource is stored.
pub fn key_of(resource: &Resource, namespace: &str, name: &str) -> Result<String, ImportError> {
    Ok(match definition_of(resource)? {
        Some(definition) => definition.key(namespace, name),
        None if namespace.is_empty() => format!("{}{name}", custom_prefix(resource)),
        None => format!("{}{namespace}/{name}", custom_prefix(resource)),
    })
}

/// The key prefix of a resource.
pub fn prefix_of(resource: &Resource) -> Result<String, ImportError> {
    Ok(match definition_of(resource)? {
        Some(definition) => definition.prefix(""),
        None => custom_prefix(resource),
    })
}

/// Converts an object of another cluster to its stored form.
pub fn stored_form(resource: &Resource, mut object: Value) -> Result<Imported, ImportError> {
    let (namespace, name) = (
        metadata::text(&object, "namespace").to_owned(),
        metadata::text(&object, "name").to_owned(),
    );
    let key = key_of(resource, &namespace, &name)?;
    let failed = |status| ImportError::Encoding(format!("{} {name:?}", resource.kind), Box::new(status));
    let value = match definition_of(resource)? {
        Some(definition) => {
            let managers = Managers::of(&object).unwrap_or_default();
            metadata::take_managed_fields(&mut object);
            StoredObject::encode(definition, &object, &managers).map_err(failed)?
        }
        None => {
            metadata::of(&mut object).remove("resourceVersion");
            object.to_string().into()
        }
    };
    Ok(Imported { key, value })
}

/// True for the key of a definition of a custom kind.
pub(crate) fn is_definition(key: &str) -> bool {
    let named = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    builtin_definition(&named).is_some_and(|definition| key.starts_with(&definition.prefix("")))
}

/// The definition of a built-in resource; `None` for a custom one.
fn definition_of(resource: &Resource) -> Result<Option<&'static Definition>, ImportError> {
    let named: GroupVersionResource = resource.group_version_resource();
    match builtin_definition(&named) {
        Some(definition) => Ok(Some(definition)),
        None if is_builtin_group(&resource.group) => Err(ImportError::NoResource(
            resource.group_version_kind().api_version() + " " + &resource.kind,
        )),
        None => Ok(None),
    }
}

/// True for a group with built-in resources; it cannot have custom kinds.
fn is_builtin_group(group: &str) -> bool {
    resources::all().iter().any(|known| known.resource.group == group)
}

fn custom_prefix(resource: &Resource) -> String {
    format!("/registry/{}/{}/", resource.group, resource.plural)
}
