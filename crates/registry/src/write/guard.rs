//! The guard of a write, held until its object is stored: the definition of its kind, and the allocator's lock.
//!
//! Writes of custom objects and changes of their kinds exclude each other. Objects written under the current schema
//! are sent as stored, so no write under an older schema may follow; and a deleted kind loses its objects, so no
//! object may be created after they were listed. A write therefore takes the current definition and holds it until
//! the object is stored. Kubernetes lets such a write finish under the older schema, and prunes everything it reads.

use std::sync::Arc;

use tokio::sync::RwLockReadGuard;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;

use crate::Registry;
use crate::allocate::Allocating;
use crate::definition::Definition;

/// The `Retry-After` of a write that a change of its kind prevented.
const RETRY_SECONDS: i32 = 1;

/// The locks of a write. A cancelled write may have been stored; its consequences are still carried out.
pub(crate) struct Guard<'r> {
    registry: &'r Registry,
    /// Prevents changes of definitions; `None` for built-in kinds.
    definitions_lock: Option<RwLockReadGuard<'r, ()>>,
    /// Prevents other allocations, from picking an address until the object is stored.
    pub(crate) allocating: Option<Allocating<'r>>,
    /// The guard was released during a webhook call: others may have written.
    was_released: bool,
    /// The served kinds must be updated afterwards: the write concerns a definition, or possibly the last object of a
    /// deleted kind.
    settles: bool,
}

impl<'r> Guard<'r> {
    /// Takes the guard and returns the current definition, which may be newer than the given one.
    pub(super) async fn take(
        registry: &'r Registry,
        definition: &Arc<Definition>,
    ) -> Result<(Arc<Definition>, Self), Status> {
        let mut guard = Self::nothing(registry);
        guard.settles = definition.is(&builtin::CUSTOM_RESOURCE_DEFINITION);
        if !definition.is_custom() {
            return Ok((definition.clone(), guard));
        }
        guard.definitions_lock = Some(registry.catalog().lock_definitions().await);
        let resource = definition.resource.group_version_resource();
        let served = registry.catalog().find_custom(&resource);
        let served = served.ok_or_else(Status::path_not_found)?;
        guard.settles = served.is_terminating();
        Ok((served, guard))
    }

    /// An empty guard, without follow-up work.
    pub(crate) fn nothing(registry: &'r Registry) -> Self {
        Self {
            registry,
            definitions_lock: None,
            allocating: None,
            was_released: false,
            settles: false,
        }
    }

    /// Releases all locks during a webhook call, which can take as long as a request.
    pub(crate) fn release_locks(&mut self) {
        self.definitions_lock = None;
        self.allocating = None;
        self.was_released = true;
    }

    /// True if the guard was released, so that earlier checks must be repeated.
    pub(crate) fn was_released(&self) -> bool {
        self.was_released
    }

    /// Takes the definition's lock again; an error if the definition has changed.
    pub(crate) async fn retake(&mut self, definition: &Definition) -> Result<(), Status> {
        if !definition.is_custom() {
            return Ok(());
        }
        self.definitions_lock = Some(self.registry.catalog().lock_definitions().await);
        let served = self
            .registry
            .catalog()
            .find_custom(&definition.resource.group_version_resource());
        match served.is_some_and(|served| std::ptr::eq(&*served, definition)) {
            true => Ok(()),
            false => Err(Status::server_timeout(
                &definition.group_resource(),
                "write",
                RETRY_SECONDS,
            )),
        }
    }

    /// Takes the allocator's lock until the object is stored.
    pub(crate) async fn begin_allocation(&mut self) -> &Allocating<'r> {
        let held = match self.allocating.take() {
            Some(held) => held,
            None => self.registry.allocator().lock(self.registry).await,
        };
        self.allocating.insert(held)
    }

    /// Releases the guard after the object is stored, and carries out the consequences.
    pub(super) async fn release(mut self) -> Result<(), Status> {
        self.definitions_lock = None;
        if self.settles {
            // Boxed: rare and large.
            self.registry.settle_custom_kinds().await?;
            self.settles = false;
        }
        Ok(())
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.settles {
            self.registry.settle_later();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use futures_util::FutureExt;
    use serde_json::json;
    use watchkeeper_meta::GroupVersionResource;
    use watchkeeper_storage::{Store, StoreOptions};

    use super::*;
    use crate::{Body, Format, WriteContext};

    /// Far longer than necessary.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn kind(plural: &str) -> GroupVersionResource {
        GroupVersionResource::new("example.com", "v1", plural.to_owned())
    }

    async fn define(registry: &Registry, plural: &str) {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com",
                "scope": "Cluster",
                "names": {"plural": plural, "kind": plural},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        let (format, text) = (Format::Json, definition.to_string());
        let bytes = text.as_bytes();
        let defining = registry.builtin(&builtin::CUSTOM_RESOURCE_DEFINITION);
        let (defining, context) = (defining.unwrap(), WriteContext::default());
        let created = registry.create(&defining, "", Body { format, bytes }, &context);
        created.await.unwrap();
    }

    /// A registry with a custom kind.
    async fn registry() -> (Registry, Arc<Definition>) {
        let registry = Registry::open(Store::memory(StoreOptions::default()))
            .await
            .unwrap();
        define(&registry, "widgets").await;
        let widgets = registry.definition(&kind("widgets")).unwrap();
        (registry, widgets)
    }

    #[tokio::test]
    async fn a_schema_takes_effect_after_the_writes_under_the_previous_one() {
        let (registry, widgets) = registry().await;
        let (_, guard) = Guard::take(&registry, &widgets).await.unwrap();
        let mut defined = pin!(define(&registry, "gadgets"));
        assert!(defined.as_mut().now_or_never().is_none());
        drop(guard);
        defined.await;
    }

    #[tokio::test]
    async fn a_definition_takes_effect_even_if_its_writer_is_cancelled() {
        let (registry, widgets) = registry().await;
        let (_, guard) = Guard::take(&registry, &widgets).await.unwrap();
        // It is stored, and waits for the other write.
        assert!(define(&registry, "gadgets").now_or_never().is_none());
        drop(guard);
        let served = async {
            while registry.definition(&kind("gadgets")).is_none() {
                tokio::task::yield_now().await;
            }
        };
        let served = tokio::time::timeout(PATIENCE, served).await;
        served.expect("the definition was not processed");
    }
}
