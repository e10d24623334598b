//! Every namespace has a service account and the certificate that the server is known by.

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::Resource;
use watchkeeper_runtime::controller::{Action, Request};

use crate::cluster::{Cluster, Task};
use crate::kinds::{config_maps, namespaces, service_accounts};

/// Completes namespaces.
pub(crate) fn run(cluster: &Cluster) -> Task {
    cluster.run(cluster.controller("accounts", &namespaces()), complete)
}

async fn complete(cluster: Cluster, request: Request) -> Result<Action, Error> {
    let Some(namespace) = request.object.filter(|namespace| !namespace.is_deleting()) else {
        return Ok(Action::Done);
    };
    let account = json!({"metadata": {"name": "default"}});
    ensure(&cluster, &service_accounts(), namespace.name(), account).await?;
    let certificate = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": ""}});
    ensure(&cluster, &config_maps(), namespace.name(), certificate).await?;
    Ok(Action::Done)
}

async fn ensure(cluster: &Cluster, resource: &Resource, namespace: &str, object: Value) -> Result<(), Error> {
    match cluster.create(resource, namespace, object).await {
        // There already, or the namespace is on its way out.
        Err(error) if error.is_already_exists() || error.is_forbidden() || error.is_not_found() => Ok(()),
        created => created.map(drop),
    }
}
