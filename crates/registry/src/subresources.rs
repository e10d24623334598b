//! Subresources with semantics of their own: binding, eviction, scale, token.
//!
//! `status`, `ephemeralcontainers`, `resize` and `approval` are written like the object, as its
//! [`Part`](crate::Part).

mod binding;
mod eviction;
pub(crate) mod scale;
mod token;

use serde_json::Value;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;

use crate::Registry;
use crate::definition::Definition;

pub use token::TokenIssuer;

impl Registry {
    /// Rejects a resize if the pod's node does not exist.
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
