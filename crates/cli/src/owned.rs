//! The revisions of a workload: the replica sets of a deployment, the controller revisions of the others.

use serde_json::Value;
use watchkeeper_meta::ListOptions;
use watchkeeper_wire::schema::resources;

use crate::cluster::Cluster;
use crate::failure::Failure;

/// The annotation with the number of a deployment's revision.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";

/// The replica sets of a deployment.
pub(crate) async fn replica_sets(deployment: &Value, cluster: &Cluster) -> Result<Vec<Value>, Failure> {
    owned_by(deployment, "replicasets", cluster).await
}

/// The controller revisions of a daemon set or stateful set.
pub(crate) async fn controller_revisions(owner: &Value, cluster: &Cluster) -> Result<Vec<Value>, Failure> {
    owned_by(owner, "controllerrevisions", cluster).await
}

/// The replica set with the deployment's own template.
pub(crate) fn current<'s>(deployment: &Value, sets: &'s [Value]) -> Option<&'s Value> {
    let wanted = without_hash(&deployment["spec"]["template"]);
    sets.iter()
        .find(|set| without_hash(&set["spec"]["template"]) == wanted)
}

/// A template without the label that the deployment controller adds.
pub(crate) fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    template
}

async fn owned_by(owner: &Value, plural: &str, cluster: &Cluster) -> Result<Vec<Value>, Failure> {
    let namespace = owner["metadata"]["namespace"].as_str().unwrap_or_default();
    let found = list(cluster, "apps", plural, namespace, &ListOptions::default()).await?;
    let is_owned = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| {
            owners
                .iter()
                .any(|one| one["controller"] == true && one["uid"] == owner["metadata"]["uid"])
        })
    };
    Ok(found.into_iter().filter(is_owned).collect())
}

/// The objects of a built-in resource of version v1.
pub(crate) async fn list(
    cluster: &Cluster,
    group: &str,
    plural: &str,
    namespace: &str,
    options: &ListOptions,
) -> Result<Vec<Value>, Failure> {
    let found = resources::by_plural(group, "v1", plural)
        .ok_or_else(|| Failure::text(format!("{plural} are no built-in resource")))?;
    let api = cluster.client.dynamic(found.resource.clone()).json_only();
    let api = match namespace {
        "" => api.all_namespaces(),
        namespace => api.namespace(namespace),
    };
    let list = api.pages().with(options).collect().await?;
    let values = list
        .items
        .iter()
        .map(|object| object.to_value().map_err(Failure::other));
    values.collect()
}
