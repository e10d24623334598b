//! Every namespace has a service account and the certificate that the server is known by.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watchkeeper_client::Error;
use watchkeeper_meta::Resource;
use watchkeeper_runtime::controller::{Action, Request};

use crate::cluster::{Cluster, Reconcile, namespaces, resource};
use crate::futures::Task;

/// Completes namespaces.
pub(crate) fn run(cluster: Cluster, stop: CancellationToken) -> Task {
    Box::pin(async move {
        let reconciler = {
            let cluster = cluster.clone();
            Reconcile(move |request| complete(cluster.clone(), request))
        };
        cluster
            .control("accounts", &namespaces(), &[], reconciler, stop)
            .await;
    })
}

async fn complete(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(namespace) = request.object.filter(|namespace| !namespace.is_deleting()) else {
        return Ok(Action::Done);
    };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    ensure(
        &cluster,
        &resource("", "v1", "serviceaccounts"),
        namespace.name(),
        account,
    )
    .await?;
    let certificate = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-root-ca.crt"},
        "data": {"ca.crt": ""},
    });
    ensure(
        &cluster,
        &resource("", "v1", "configmaps"),
        namespace.name(),
        certificate,
    )
    .await?;
    Ok(Action::Done)
}

async fn ensure(cluster: &Cluster, resource: &Resource, namespace: &str, object: Value) -> Result<(), Error> {
    match cluster.create(resource, namespace, object).await {
        // There already, or the namespace is on its way out.
        Err(error) if error.is_already_exists() || error.is_forbidden() || error.is_not_found() => Ok(()),
        created => created.map(drop),
    }
}
