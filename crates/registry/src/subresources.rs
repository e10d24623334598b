//! Parts of objects with an address and a meaning of their own.
//!
//! Those that are a part of the object and nothing else, `status`, `ephemeralcontainers`, `resize` and `approval`, are
//! written like the object, with the [`Part`](crate::Part) they are.

mod binding;
mod eviction;
pub(crate) mod scale;
mod token;

use std::sync::Arc;

use serde_json::Value;
use watchkeeper_kinds::{Kind, builtin};
use watchkeeper_meta::{GroupVersionResource, Status};

use crate::Registry;
use crate::definition::Definition;

pub use token::TokenIssuer;

impl Registry {
    /// A built-in kind, in its first stable version.
    pub(crate) fn builtin(&self, kind: &'static Kind) -> Result<Arc<Definition>, Status> {
        let resource = GroupVersionResource::new(kind.group, "v1", kind.plural);
        self.definition(&resource).ok_or_else(Status::path_not_found)
    }

    /// An object that must be there.
    async fn present(&self, definition: &Definition, namespace: &str, name: &str) -> Result<Value, Status> {
        let found = self.find(definition, namespace, name).await?;
        let missing = || Status::not_found(&definition.group_resource(), name);
        found.ok_or_else(missing)?.to_value(definition)
    }

    /// A pod that runs somewhere is resized where it runs.
    pub(crate) async fn admit_resize(
        &self,
        pods: &Definition,
        pod: &Value,
        live: &Value,
    ) -> Result<(), Status> {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() || pod["spec"] == live["spec"] {
            return Ok(());
        }
        let nodes = self.builtin(&builtin::NODE)?;
        if self.find(&nodes, "", node).await?.is_none() {
            let name = crate::metadata::text(pod, "name");
            let why = format!("node {node:?} not found");
            return Err(Status::forbidden(&pods.group_resource(), name, why));
        }
        Ok(())
    }
}
