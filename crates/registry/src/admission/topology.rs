//! Pods are labelled with the zone and the region of their node, when they get one: PodTopologyLabels.

use serde_json::Value;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;

use crate::Registry;

/// The labels that are copied. Others of the same domain are not.
const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

impl Registry {
    /// Labels a pod that comes with a node.
    pub(super) async fn take_topology(&self, pod: &mut Value) -> Result<(), Status> {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        self.label_by_node(&node, pod).await
    }

    /// Labels a pod, or what binds it, with what its node has of these labels. A node that is not there has none.
    pub(crate) async fn label_by_node(&self, node: &str, object: &mut Value) -> Result<(), Status> {
        if node.is_empty() {
            return Ok(());
        }
        let nodes = self.builtin(&builtin::NODE)?;
        let Some(found) = self.find(&nodes, "", node).await? else {
            return Ok(());
        };
        let header = found.header(&nodes)?;
        for (key, value) in header.labels.iter().filter(|(key, _)| LABELS.contains(&&**key)) {
            object["metadata"]["labels"][&**key] = Value::String(value.to_string());
        }
        Ok(())
    }
}
