//! What needs a node to answer: logs, and streams to a container. Nodes do not run behind this server, so it answers as
//! a Kubernetes server does whose nodes cannot be reached.

use serde_json::Value;
use watchkeeper_meta::{GroupResource, LogOptions, Status};

use crate::Registry;

impl Registry {
    /// Whether a pod has logs to show. `Ok` means that it has none yet, because it runs nowhere.
    pub async fn pod_log(&self, namespace: &str, name: &str, options: &LogOptions) -> Result<(), Status> {
        let pod = self
            .pod_with_container(namespace, name, &options.container)
            .await?;
        match node_of(&pod) {
            "" => Ok(()),
            node => Err(self.unreachable(node).await?),
        }
    }

    /// Why nobody can talk to a container of a pod: `exec`, `attach`, `portforward` and `proxy` end here. A stream
    /// to the pod as a whole names no container.
    pub async fn pod_stream(
        &self,
        namespace: &str,
        name: &str,
        container: Option<&str>,
    ) -> Result<std::convert::Infallible, Status> {
        let pod = match container {
            Some(container) => self.pod_with_container(namespace, name, container).await?,
            None => self.present(&*self.builtin("", "pods")?, namespace, name).await?,
        };
        match node_of(&pod) {
            "" => {
                let why = format!("pod {name} does not have a host assigned");
                Err(Status::bad_request(why))
            }
            node => Err(self.unreachable(node).await?),
        }
    }

    async fn pod_with_container(
        &self,
        namespace: &str,
        name: &str,
        container: &str,
    ) -> Result<Value, Status> {
        let pods = self.builtin("", "pods")?;
        let pod = self.present(&pods, namespace, name).await?;
        let of = |list: &str| -> Vec<String> {
            let containers = pod["spec"][list].as_array().into_iter().flatten();
            let names = containers.filter_map(|container| container["name"].as_str());
            names.map(str::to_owned).collect()
        };
        let names = of("containers");
        if container.is_empty() && names.len() > 1 {
            let names = names.join(" ");
            let why = format!("a container name must be specified for pod {name}, choose one of: [{names}]");
            return Err(Status::bad_request(why));
        }
        let lists = ["containers", "initContainers", "ephemeralContainers"];
        let is_known = lists
            .iter()
            .any(|list| of(list).iter().any(|known| known == container));
        if !container.is_empty() && !is_known {
            let why = format!("container {container} is not valid for pod {name}");
            return Err(Status::bad_request(why));
        }
        Ok(pod)
    }

    /// What a client hears of a node that cannot be reached.
    async fn unreachable(&self, node: &str) -> Result<Status, Status> {
        let nodes = self.builtin("", "nodes")?;
        Ok(match self.find(&nodes, "", node).await? {
            // Kubernetes says it of pods, though it looked for a node.
            None => Status::not_found(&GroupResource::new("", "pods"), node),
            Some(_) => Status::internal_error(format_args!(
                "error dialing backend: node {node} cannot be reached"
            )),
        })
    }
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}
