//! The story: the actions of a user, each when the one before has taken effect.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{ApplyOptions, DeleteOptions, PatchKind, PropagationPolicy};

use super::NAMESPACE;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::manifests;
use crate::waiting::until;

const MANIFEST: &str = include_str!("web.yaml");
const NAME: &str = "web";

/// Runs all actions. `living` is true if the simulator runs.
pub(super) async fn tell(
    cluster: Cluster,
    living: bool,
    pace: Duration,
    sentences: mpsc::Sender<String>,
) -> Result<(), Failure> {
    let story = Story {
        deployments: cluster.objects(&cluster.resource("deployments").await?.resource, false),
        services: cluster.objects(&cluster.resource("services").await?.resource, false),
        pods: cluster.objects(&cluster.resource("pods").await?.resource, false),
        cluster,
        living,
        pace,
        sentences,
    };
    story.create_namespace().await?;
    story.apply().await?;
    story.update().await?;
    if living {
        story.lose_a_pod().await?;
    }
    story.delete().await
}

struct Story {
    cluster: Cluster,
    deployments: DynamicApi,
    services: DynamicApi,
    pods: DynamicApi,
    living: bool,
    pace: Duration,
    sentences: mpsc::Sender<String>,
}

impl Story {
    async fn create_namespace(&self) -> Result<(), Failure> {
        let namespaces = self
            .cluster
            .objects(&self.cluster.resource("namespaces").await?.resource, false);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        namespaces.create(&namespace).await?;
        Ok(())
    }

    async fn apply(&self) -> Result<(), Failure> {
        self.say("apply -f web.yaml: a deployment of 3 pods, and a service")
            .await;
        for manifest in manifests::parse("web.yaml", MANIFEST.as_bytes()) {
            let manifest = manifest?;
            let target = manifest.target(&self.cluster).await?;
            let options = ApplyOptions {
                field_manager: "watchkeeper-demo".to_owned(),
                ..Default::default()
            };
            manifest.wanted.apply(&target, &options).await?;
        }
        self.rolled_out().await
    }

    async fn update(&self) -> Result<(), Failure> {
        self.say("a new image: pods are replaced a few at a time").await;
        let patch = json!({"spec": {"template": {"spec": {"containers": [
            {"name": NAME, "image": "example.com/web:2.0"},
        ]}}}});
        self.deployments.patch(NAME, PatchKind::Strategic, &patch).await?;
        self.rolled_out().await
    }

    async fn lose_a_pod(&self) -> Result<(), Failure> {
        let pods = self.pods.list().await?;
        let Some(pod) = pods.items.iter().find(|pod| !pod.is_deleting()) else {
            return Ok(());
        };
        self.say("a pod is deleted: the replica set makes another").await;
        self.pods.delete(pod.name()).await?;
        until(&self.pods, pod.name(), |pod| Ok(pod.is_none())).await?;
        self.rolled_out().await
    }

    async fn delete(&self) -> Result<(), Failure> {
        self.say("everything is deleted: pods and replica sets follow their deployment")
            .await;
        let options = DeleteOptions {
            propagation_policy: Some(PropagationPolicy::Background),
            ..Default::default()
        };
        self.services.delete(NAME).with(&options).await?;
        self.deployments.delete(NAME).with(&options).await?;
        Ok(())
    }

    /// Completes when the deployment is rolled out, and the user has had time to look.
    async fn rolled_out(&self) -> Result<(), Failure> {
        if self.living {
            until(&self.deployments, NAME, |deployment| {
                Ok(deployment.is_some_and(is_rolled_out))
            })
            .await?;
        }
        tokio::time::sleep(self.pace).await;
        Ok(())
    }

    async fn say(&self, sentence: &str) {
        // If nobody reads the sentences, the story continues.
        let _ = self.sentences.send(sentence.to_owned()).await;
    }
}

/// The condition of `kubectl rollout status`.
fn is_rolled_out(deployment: &Value) -> bool {
    let status = &deployment["status"];
    let count = |name: &str| status[name].as_u64().unwrap_or(0);
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    status["observedGeneration"].as_u64() >= deployment["metadata"]["generation"].as_u64()
        && count("updatedReplicas") == wanted
        && count("replicas") == wanted
        && count("availableReplicas") == wanted
}
