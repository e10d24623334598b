//! A server, its client, and short functions to write objects.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::{Client, ClientOptions, DynamicApi};
use watchkeeper_meta::{PatchKind, Resource};
use watchkeeper_runtime::informer::{Notice, Subscription};
use watchkeeper_server::{Handle, Server};
use watchkeeper_testing::client_of;
use watchkeeper_wire::Object;

/// A generous timeout; tests wait for results, never for time to pass.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// An hour of simulated time: longer than every backoff.
pub(crate) const IN_THE_END: Duration = Duration::from_secs(3600);

pub(crate) struct Cluster {
    pub(crate) server: Handle,
    pub(crate) client: Client,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let server = Server::builder().in_memory().start().await.expect("a server");
        let client = client_of(&server, ClientOptions::default()).expect("a client");
        Self { server, client }
    }

    pub(crate) fn maps(&self) -> DynamicApi {
        self.client.dynamic(config_maps()).namespace("default")
    }

    pub(crate) async fn create(&self, name: &str) -> Object {
        let object = config_map("default", name, "one");
        let created = self.maps().create(&object).await;
        created.expect("created")
    }

    pub(crate) async fn change(&self, name: &str, data: &str) -> Object {
        let patch = json!({"data": {"key": data}});
        let patched = self.maps().patch(name, PatchKind::Merge, &patch).await;
        patched.expect("patched")
    }

    pub(crate) async fn delete(&self, name: &str) {
        let deleted = self.maps().delete(name).await;
        deleted.expect("deleted");
    }
}

pub(crate) fn config_maps() -> Resource {
    resource("", "v1", "ConfigMap", "configmaps")
}

pub(crate) fn events() -> Resource {
    resource("", "v1", "Event", "events")
}

pub(crate) fn leases() -> Resource {
    resource("coordination.k8s.io", "v1", "Lease", "leases")
}

fn resource(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Resource {
    Resource::namespaced(group, version, kind, plural)
}

pub(crate) fn config_map(namespace: &str, name: &str, data: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"key": data},
    })
}

/// The next notice, abbreviated.
pub(crate) async fn told(subscription: &mut Subscription) -> String {
    use watchkeeper_runtime::delta::Delta;
    let notice = tokio::time::timeout(SOON, subscription.next())
        .await
        .expect("a notice");
    match notice.expect("not the end") {
        Notice::Synced => "synced".into(),
        Notice::Change(Delta::Added { object, cause }) => format!("+{} {cause:?}", object.name()),
        Notice::Change(Delta::Updated { new, cause, .. }) => format!("~{} {cause:?}", new.name()),
        Notice::Change(Delta::Deleted { last, cause, .. }) => format!("-{} {cause:?}", last.name()),
    }
}

/// The next notices about objects other than the default ones.
pub(crate) async fn told_about(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut notices = Vec::new();
    while notices.len() < count {
        let notice = told(subscription).await;
        if !notice.contains("kube-root-ca.crt") {
            notices.push(notice);
        }
    }
    notices
}
