//! Parts of objects with an address and a meaning of their own.
//!
//! Those that are a part of the object and nothing else, `status`, `ephemeralcontainers`, `resize` and `approval`, are
//! written like the object, with the [`Part`](crate::Part) they are.

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
