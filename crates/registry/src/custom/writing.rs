//! Keeps writes of custom objects and changes of their kinds apart.
//!
//! What was written since a schema came into force is sent as it is stored, so nothing may be stored by an older schema
//! after that; and a kind that is to go loses the objects that are there, so none may come after the look at them. A
//! write therefore begins with the definition that is in force, which then stays until the object is stored. Kubernetes
//! lets such a write end under the older schema, and prunes all that it reads.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use watchkeeper_meta::Status;

use crate::definition::Definition;
use crate::{Registry, metadata};

/// Held by whoever writes a custom object, and alone by whoever puts other definitions into force.
#[derive(Default)]
pub(crate) struct InForce(RwLock<()>);

/// What keeps definitions in force; nothing does for built-in kinds, which stay anyway.
pub(crate) type Writing<'r> = Option<RwLockReadGuard<'r, ()>>;

impl InForce {
    /// Waits for the writes under way, and keeps others from beginning.
    pub(super) async fn change(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write().await
    }
}

impl Registry {
    /// Begins a write: the resource as it is served now, which may be by a later definition than the one that the
    /// request was understood by. Whoever holds one of these must not begin another, nor settle definitions.
    pub(crate) async fn begin_write(
        &self,
        definition: &Arc<Definition>,
    ) -> Result<(Arc<Definition>, Writing<'_>), Status> {
        if !definition.is_custom() {
            return Ok((definition.clone(), None));
        }
        let writing = self.custom_kinds().in_force.0.read().await;
        let resource = definition.resource.group_version_resource();
        let served = self.custom_kinds().find(&resource);
        let served = served.ok_or_else(Status::path_not_found)?;
        Ok((served, Some(writing)))
    }

    /// Refuses a new object of a kind that is to go.
    pub(crate) fn check_kind_stays(&self, definition: &Definition, object: &Value) -> Result<(), Status> {
        let custom = definition.custom.as_ref();
        if custom.is_none_or(|custom| !custom.is_terminating) {
            return Ok(());
        }
        // The name is made up later.
        let name = match metadata::text(object, "name") {
            "" => metadata::text(object, "generateName"),
            name => name,
        };
        let why = "create not allowed while custom resource definition is terminating";
        Err(Status::forbidden(&definition.group_resource(), name, why))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use serde_json::json;
    use watchkeeper_meta::GroupVersionResource;
    use watchkeeper_storage::{Store, StoreOptions};

    use super::*;
    use crate::{Body, Format, WriteContext};

    #[tokio::test]
    async fn a_schema_comes_into_force_when_the_writes_by_the_last_one_are_done() {
        let registry = Registry::open(Store::memory(StoreOptions::default()))
            .await
            .unwrap();
        let defining = registry.builtin("apiextensions.k8s.io", "customresourcedefinitions");
        let (defining, context) = (defining.unwrap(), WriteContext::default());
        let define = |plural: &str| {
            let schema = json!({"openAPIV3Schema": {"type": "object"}});
            json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.example.com")},
                "spec": {
                    "group": "example.com",
                    "scope": "Cluster",
                    "names": {"plural": plural, "kind": plural},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
                },
            })
            .to_string()
        };
        let create = async |body: String| {
            let (format, bytes) = (Format::Json, body.as_bytes());
            registry
                .create(&defining, "", Body { format, bytes }, &context)
                .await
        };
        create(define("widgets")).await.unwrap();
        let widgets = GroupVersionResource::new("example.com", "v1", "widgets");
        let widgets = registry.definition(&widgets).unwrap();

        let (_, writing) = registry.begin_write(&widgets).await.unwrap();
        let mut defined = pin!(create(define("gadgets")));
        assert!(defined.as_mut().now_or_never().is_none());
        drop(writing);
        defined.await.unwrap();
    }
}
