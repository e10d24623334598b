//! The service account `default` and the ConfigMap `kube-root-ca.crt` of every namespace. They are restored when
//! deleted or changed.

use std::sync::Arc;

use serde_json::json;
use watchkeeper_client::Error;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::controller::{Action, Mapping, Request};
use watchkeeper_wire::Object;

use crate::cluster::{Cluster, Task, ignore_gone};
use crate::item::Item;
use crate::kinds::{config_maps, namespaces, service_accounts};

const ACCOUNT: &str = "default";
const CERTIFICATE: &str = "kube-root-ca.crt";

/// Kubernetes' description of the ConfigMap.
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                           endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                           guaranteed across distributions of Kubernetes clusters.";

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster, root_ca: Option<String>) -> Task {
    let controller = cluster
        .controller("accounts", &namespaces())
        .watches(cluster.informer(&service_accounts()), namespace_of(ACCOUNT), None)
        .watches(cluster.informer(&config_maps()), namespace_of(CERTIFICATE), None);
    let root_ca: Arc<str> = root_ca.unwrap_or_default().into();
    cluster.run(controller, move |cluster, request| {
        complete(cluster, root_ca.clone(), request)
    })
}

/// Maps the object of this name to its namespace.
fn namespace_of(name: &'static str) -> Mapping {
    Arc::new(move |object: &Object| {
        let namespace = (object.name() == name).then(|| ObjectKey::new("", object.namespace()));
        namespace.into_iter().collect()
    })
}

async fn complete(cluster: Cluster, root_ca: Arc<str>, request: Request) -> Result<Action, Error> {
    let Some(namespace) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    ensure_account(&cluster, namespace.name()).await?;
    ensure_certificate(&cluster, namespace.name(), &root_ca).await?;
    Ok(Action::Done)
}

async fn ensure_account(cluster: &Cluster, namespace: &str) -> Result<(), Error> {
    let accounts = cluster.snapshot(&service_accounts());
    if accounts.find(namespace, ACCOUNT).is_some() {
        return Ok(());
    }
    let account = json!({"metadata": {"name": ACCOUNT}});
    ignore_refused(cluster.create(&service_accounts(), namespace, account).await)
}

async fn ensure_certificate(cluster: &Cluster, namespace: &str, root_ca: &str) -> Result<(), Error> {
    let annotations = json!({"kubernetes.io/description": DESCRIPTION});
    let data = json!({"ca.crt": root_ca});
    let maps = cluster.snapshot(&config_maps());
    let Some(known) = maps.find(namespace, CERTIFICATE).map(Item::read) else {
        let map = json!({"metadata": {"name": CERTIFICATE, "annotations": annotations}, "data": data});
        return ignore_refused(cluster.create(&config_maps(), namespace, map).await);
    };
    if known["data"] == data && known.annotation("kubernetes.io/description").is_some() {
        return Ok(());
    }
    // A patch would keep the changes of others.
    let replaced = cluster
        .replace(&config_maps(), &known, |map| {
            map["data"] = data;
            map["metadata"]["annotations"]["kubernetes.io/description"] = json!(DESCRIPTION);
        })
        .await;
    ignore_gone(replaced.map(drop))
}

/// Ignores that it exists already, or that the namespace is being deleted.
fn ignore_refused(created: Result<Object, Error>) -> Result<(), Error> {
    match created {
        Err(error) if error.is_already_exists() || error.is_forbidden() || error.is_not_found() => Ok(()),
        created => created.map(drop),
    }
}
