//! Converts objects of another cluster to the form stored here.
//!
//! Takes an object as it was served; returns its key and its bytes. Nothing is validated or defaulted: the other
//! cluster did that.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::json;
use watchkeeper_meta::{GroupVersionResource, Resource, Status};
use watchkeeper_patch::managed_fields::Managers;
use watchkeeper_wire::schema::resources;
use watchkeeper_wire::{Encoding, Object, ObjectOptions, WireError};

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
    /// The object cannot be decoded.
    #[error("an object that cannot be read")]
    Unreadable(#[from] WireError),
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
pub fn stored_form(resource: &Resource, object: &Object) -> Result<Imported, ImportError> {
    let key = key_of(resource, object.namespace(), object.name())?;
    let definition = definition_of(resource)?;
    let mut value = match definition {
        Some(_) => without_managed_fields(object)?.to_value()?,
        None => object.to_value()?,
    };
    value["kind"] = json!(object.kind());
    value["apiVersion"] = json!(object.api_version());
    let value = match definition {
        Some(definition) => {
            let failed = |status| {
                ImportError::Encoding(format!("{} {:?}", resource.kind, object.name()), Box::new(status))
            };
            StoredObject::encode(definition, &value, &managers(object)?).map_err(failed)?
        }
        None => {
            metadata::of(&mut value).remove("resourceVersion");
            value.to_string().into()
        }
    };
    Ok(Imported { key, value })
}

/// Managed fields are half of many an object and stay text, so they are not read with the rest.
fn without_managed_fields(object: &Object) -> Result<Object, WireError> {
    let (encoding, kind) = (object.encoding(), object.group_version_kind());
    Object::from_item(encoding, object.bytes(), kind, &ObjectOptions::default())
}

/// The managers of an object; none if they are invalid.
fn managers(object: &Object) -> Result<Managers, WireError> {
    let json = match object.encoding() {
        Encoding::Json => Cow::Borrowed(object.bytes()),
        Encoding::Protobuf => object.to_json()?,
    };
    Ok(Managers::of_json(&json).unwrap_or_default())
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
