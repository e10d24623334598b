//! The identity of a struct's object, and owner references to it.

use serde::Serialize;
use watchkeeper_meta::{Header, ObjectKey, OwnerReference, Resource, ResourceVersion};
use watchkeeper_wire::json;

/// The identity of a struct's object. Missing fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
}

impl Identity {
    /// Serializes an object and reads its metadata from the JSON, for structs with any type of metadata.
    pub(super) fn written(object: &impl Serialize) -> Self {
        let bytes = serde_json::to_vec(object).unwrap_or_default();
        Self::of(&json::header(&bytes).unwrap_or_default())
    }

    pub(super) fn of(header: &Header<'_>) -> Self {
        Self {
            namespace: header.namespace.to_string(),
            name: header.name.to_string(),
            uid: header.uid.to_string(),
            resource_version: header.version(),
        }
    }

    /// The object's namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }
}

/// An entry for the `ownerReferences` of a dependent.
///
/// It converts with `into()` to that of [`watchkeeper_meta::ObjectMeta`] or of `k8s-openapi`, and serializes as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Owner(OwnerReference<'static>);

impl Owner {
    /// The owner is the controller, and its foreground deletion waits for the dependent.
    pub(super) fn controlling(resource: Resource, identity: Identity) -> Self {
        let kind = resource.group_version_kind();
        Self(OwnerReference {
            api_version: kind.api_version().into(),
            kind: kind.kind,
            name: identity.name.into(),
            uid: identity.uid.into(),
            controller: true,
            block_owner_deletion: true,
        })
    }

    /// An owner that is not the controller.
    pub fn not_controlling(mut self) -> Self {
        self.0.controller = false;
        self
    }
}

impl From<Owner> for OwnerReference<'static> {
    fn from(owner: Owner) -> Self {
        owner.0
    }
}

#[cfg(feature = "k8s-openapi")]
impl From<Owner> for k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
    fn from(Owner(owner): Owner) -> Self {
        Self {
            api_version: owner.api_version.into_owned(),
            kind: owner.kind.into_owned(),
            name: owner.name.into_owned(),
            uid: owner.uid.into_owned(),
            controller: Some(owner.controller),
            block_owner_deletion: Some(owner.block_owner_deletion),
        }
    }
}

#[cfg(feature = "k8s-openapi")]
impl From<&k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta> for Identity {
    fn from(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: ResourceVersion::new(metadata.resource_version.as_deref().unwrap_or_default()),
        }
    }
}

impl From<&watchkeeper_meta::ObjectMeta> for Identity {
    fn from(metadata: &watchkeeper_meta::ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::ResourceType;

    #[derive(Serialize, Deserialize)]
    struct Widget {
        metadata: Value,
    }

    impl ResourceType for Widget {
        fn resource() -> Resource {
            Resource::namespaced("acme.example", "v1", "Widget", "widgets")
        }
    }

    #[test]
    fn a_struct_with_any_metadata_knows_which_object_it_is() {
        let metadata = json!({"name": "a", "namespace": "shop", "uid": "7", "resourceVersion": "12"});
        let widget = Widget { metadata };
        assert_eq!(widget.key().to_string(), "shop/a");
        assert_eq!(widget.identity().resource_version.as_str(), "12");
        let nameless = Widget { metadata: json!({}) };
        assert_eq!(nameless.identity(), Identity::default());
    }

    #[test]
    fn an_owner_controls_what_refers_to_it() {
        let widget = Widget {
            metadata: json!({"name": "a", "uid": "7"}),
        };
        let mut expected = json!({
            "apiVersion": "acme.example/v1", "kind": "Widget", "name": "a", "uid": "7",
            "controller": true, "blockOwnerDeletion": true,
        });
        assert_eq!(json!(widget.owner_reference()), expected);
        expected.as_object_mut().unwrap().remove("controller");
        assert_eq!(json!(widget.owner_reference().not_controlling()), expected);
    }
}
