//! What must be true of the cluster before a write: first of all, that its namespace is there and stays.

use std::sync::Arc;

use serde_json::Value;
use watchkeeper_meta::{GroupResource, GroupVersionResource, Status, StatusCause};

use crate::Registry;
use crate::allocate::is_service;
use crate::definition::Definition;
use crate::metadata;
use crate::write::WriteContext;

/// Namespaces that a cluster cannot do without.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

impl Registry {
    /// Admits a create, or says why not.
    pub(crate) async fn admit_create(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        object: &mut Value,
        _context: &WriteContext,
    ) -> Result<(), Status> {
        if definition.is_namespaced() {
            self.check_namespace(definition, namespace, metadata::text(object, "name"))
                .await?;
        }
        if is_service(definition) {
            self.allocate_service(definition, object, None).await?;
        }
        Ok(())
    }

    /// Admits a change, or says why not.
    pub(crate) async fn admit_update(
        &self,
        _definition: &Arc<Definition>,
        _live: &Value,
        _new: &mut Value,
        _context: &WriteContext,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Admits a delete, or says why not.
    pub(crate) fn admit_delete(&self, definition: &Definition, name: &str) -> Result<(), Status> {
        let is_namespace = definition.resource.plural == "namespaces" && definition.resource.group.is_empty();
        if is_namespace && IMMORTAL.contains(&name) {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden(&definition.group_resource(), name, why));
        }
        Ok(())
    }

    /// The namespace must be there, and must not be going away.
    async fn check_namespace(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        let namespaces = GroupVersionResource::new("", "v1", "namespaces");
        let missing = || Status::not_found(&GroupResource::new("", "namespaces"), namespace);
        let namespaces = self.definition(&namespaces).ok_or_else(missing)?;
        let found = self.find(&namespaces, "", namespace).await?.ok_or_else(missing)?;
        if found.header(&namespaces)?.deletion_timestamp.is_none() {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = StatusCause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        };
        Err(Status::forbidden(&definition.group_resource(), name, why).with_cause(cause))
    }
}
