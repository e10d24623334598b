//! A shared informer with a handler: the existing objects, then the changes. `informer -v=2` logs them.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::sync::Notify;
use watchkeeper::client::ResourceType;
use watchkeeper::runtime::delta::Cause;
use watchkeeper::runtime::factory::{Factory, Selection};
use watchkeeper::runtime::informer::Handler;
use watchkeeper::runtime::wait::{Condition, wait_for};
use watchkeeper_logging::{Options, init, vlog};
use watchkeeper_testing::Sandbox;

/// Logs the changes.
struct Log {
    deleted: Arc<Notify>,
}

impl Handler<Pod> for Log {
    async fn added(&mut self, pod: Arc<Pod>, _: Cause) {
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let node = spec
            .and_then(|spec| spec.node_name.as_deref())
            .unwrap_or_default();
        let pod_ip = status
            .and_then(|status| status.pod_ip.as_deref())
            .unwrap_or_default();
        let host_ip = status
            .and_then(|status| status.host_ip.as_deref())
            .unwrap_or_default();
        vlog!(2, name = %pod.key(), podIP = pod_ip, node, hostIP = host_ip, "Add new pod to Store");
    }

    async fn updated(&mut self, old: Arc<Pod>, new: Arc<Pod>, _: Cause) {
        vlog!(2, old = %old.key(), new = %new.key(), "Update pod");
    }

    async fn deleted(&mut self, pod: Arc<Pod>, _: bool) {
        vlog!(2, name = %pod.key(), "Delete pod");
        if pod.metadata.name.as_deref() == Some("web") {
            self.deleted.notify_one();
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    init(&Options::parse())?;
    let sandbox = Sandbox::open(Default::default()).await?;
    let pods = sandbox.client().dynamic(Pod::resource()).default_namespace();
    let deleted = Arc::new(Notify::new());
    let factory = Factory::new(sandbox.client().clone(), Default::default());
    let informer = factory.informer(Selection::of::<Pod>());
    let log = Log {
        deleted: deleted.clone(),
    };
    let handler = informer.handle(Default::default(), log);
    informer.synced(Duration::from_secs(10)).await?;

    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "web"}]}});
    let created = pods.create(&pod).await?;
    let running = Condition::field("/status/phase", "Running");
    wait_for(&informer, &created.key(), &running, Duration::from_secs(60)).await?;
    pods.delete("web").await?;
    deleted.notified().await;
    handler.stop().await;
    factory.stop().await;
    sandbox.close().await?;
    Ok(())
}
