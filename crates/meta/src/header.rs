//! The part of an object that generic machinery reads: identity, version, owners, deletion.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{ObjectKey, ResourceVersion, Time};

/// The fields read from an object's bytes without decoding the object.
///
/// Text borrows from those bytes; only escaped JSON text is copied. Annotations are left out because they are large
/// and rarely needed; the readers of bytes offer them on request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// `apiVersion` as the object states it; empty where it does not (items of built-in lists).
    pub api_version: Cow<'a, str>,
    /// `kind` as the object states it; empty where it does not.
    pub kind: Cow<'a, str>,
    /// `metadata.name`.
    pub name: Cow<'a, str>,
    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub namespace: Cow<'a, str>,
    /// `metadata.uid`.
    pub uid: Cow<'a, str>,
    /// `metadata.resourceVersion` as text; empty on objects that were never stored.
    pub resource_version: Cow<'a, str>,
    /// `metadata.generation`; 0 where the kind has none.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Option<Time>,
    /// `metadata.deletionTimestamp`: set while the object is being deleted.
    pub deletion_timestamp: Option<Time>,
    /// `metadata.labels`, in the order of the bytes.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// `metadata.ownerReferences`.
    pub owner_references: Vec<OwnerReference<'a>>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Cow<'a, str>>,
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference<'a> {
    /// API version of the owner.
    pub api_version: Cow<'a, str>,
    /// Kind of the owner.
    pub kind: Cow<'a, str>,
    /// Name of the owner.
    pub name: Cow<'a, str>,
    /// Uid of the owner: names are reused, uids are not.
    pub uid: Cow<'a, str>,
    /// True if the owner is this object's controller; at most one owner is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub controller: bool,
    /// True if foreground deletion of the owner waits for this object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub block_owner_deletion: bool,
}

impl<'a> Header<'a> {
    /// The object's namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// The object's resourceVersion.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::new(self.resource_version.as_ref())
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_ref())
    }

    /// The owner that is the object's controller, if any.
    pub fn controller(&self) -> Option<&OwnerReference<'a>> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_the_owner_that_says_so() {
        let header = Header {
            namespace: "ns".into(),
            name: "a".into(),
            owner_references: vec![
                OwnerReference {
                    name: "other".into(),
                    ..Default::default()
                },
                OwnerReference {
                    name: "boss".into(),
                    controller: true,
                    ..Default::default()
                },
            ],
            ..Default::default()
        };
        assert_eq!(header.controller().unwrap().name, "boss");
        assert_eq!(header.key().to_string(), "ns/a");
    }
}
