//! What a write holds until its object is stored: the definition of its kind, and the right to give out addresses.
//!
//! Writes of custom objects and changes of their kinds are kept apart. What was written since a schema came into force is
//! sent as it is stored, so nothing may be stored by an older schema after that; and a kind that is to go loses the objects
//! that are there, so none may come after the look at them. A write therefore begins with the definition that is in force,
//! which then stays until the object is stored. Kubernetes lets such a write end under the older schema, and prunes all
//! that it reads.

use std::sync::Arc;

use tokio::sync::RwLockReadGuard;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;

use crate::Registry;
use crate::allocate::Allocating;
use crate::definition::Definition;

/// When to try again what a change of its kind has kept from being stored.
const RETRY_SECONDS: i32 = 1;

/// What a write holds. One that is given up before its end may have been stored, and is acted upon all the same.
pub(crate) struct Guard<'r> {
    registry: &'r Registry,
    /// Keeps definitions in force; nothing does for built-in kinds, which stay anyway.
    in_force: Option<RwLockReadGuard<'r, ()>>,
    /// Keeps others from giving out addresses, from when one was picked until the object is stored.
    pub(crate) allocating: Option<Allocating<'r>>,
    /// Others have written meanwhile: somebody outside was asked.
    has_let_go: bool,
    /// What is served depends on it: it is of a definition, or maybe of the last object of a kind that is going.
    settles: bool,
}

impl<'r> Guard<'r> {
    /// Keeps the definition of a custom kind in force, which is returned: it may be a later one than the given.
    pub(super) async fn take(
        registry: &'r Registry,
        definition: &Arc<Definition>,
    ) -> Result<(Arc<Definition>, Self), Status> {
        let mut guard = Self::nothing(registry);
        guard.settles = definition.is(&builtin::CUSTOM_RESOURCE_DEFINITION);
        if !definition.is_custom() {
            return Ok((definition.clone(), guard));
        }
        guard.in_force = Some(registry.catalog().keep_in_force().await);
        let resource = definition.resource.group_version_resource();
        let served = registry.catalog().find_custom(&resource);
        let served = served.ok_or_else(Status::path_not_found)?;
        guard.settles = served.is_terminating();
        Ok((served, guard))
    }

    /// Nothing is held, and nothing is to be done afterwards.
    pub(crate) fn nothing(registry: &'r Registry) -> Self {
        Self {
            registry,
            in_force: None,
            allocating: None,
            has_let_go: false,
            settles: false,
        }
    }

    /// Lets go of all that others may wait for, while somebody outside is asked: that can take as long as a request.
    pub(crate) fn let_go(&mut self) {
        self.in_force = None;
        self.allocating = None;
        self.has_let_go = true;
    }

    /// Whether others may have written since the write began, so that what was checked then must be checked again.
    pub(crate) fn has_let_go(&self) -> bool {
        self.has_let_go
    }

    /// Takes again what keeps the definition in force, unless it is not the one any more.
    pub(crate) async fn take_again(&mut self, definition: &Definition) -> Result<(), Status> {
        if !definition.is_custom() {
            return Ok(());
        }
        self.in_force = Some(self.registry.catalog().keep_in_force().await);
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

    /// Keeps others from giving out addresses, from now until the object is stored.
    pub(crate) async fn begin_allocation(&mut self) -> &Allocating<'r> {
        let held = match self.allocating.take() {
            Some(held) => held,
            None => self.registry.allocator().lock(self.registry).await,
        };
        self.allocating.insert(held)
    }

    /// The object is stored: acts upon that.
    pub(super) async fn release(mut self) -> Result<(), Status> {
        self.in_force = None;
        if self.settles {
            // Rare and long: no other write makes room for it.
            Box::pin(self.registry.settle_custom_kinds()).await?;
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

    /// Far more than it takes.
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

    /// A registry with a kind of objects.
    async fn registry() -> (Registry, Arc<Definition>) {
        let registry = Registry::open(Store::memory(StoreOptions::default()))
            .await
            .unwrap();
        define(&registry, "widgets").await;
        let widgets = registry.definition(&kind("widgets")).unwrap();
        (registry, widgets)
    }

    #[tokio::test]
    async fn a_schema_comes_into_force_when_the_writes_by_the_last_one_are_done() {
        let (registry, widgets) = registry().await;
        let (_, guard) = Guard::take(&registry, &widgets).await.unwrap();
        let mut defined = pin!(define(&registry, "gadgets"));
        assert!(defined.as_mut().now_or_never().is_none());
        drop(guard);
        defined.await;
    }

    #[tokio::test]
    async fn a_definition_comes_into_force_if_its_writer_has_given_up() {
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
        served.expect("nobody has looked at the definition");
    }
}
