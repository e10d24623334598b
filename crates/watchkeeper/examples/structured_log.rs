//! Structured logging: a message, then keys and values. Objects are referred to by name, not printed.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde_json::json;
use tracing::{error, info};
use watchkeeper_logging::{ObjectRef, bare, init};
use watchkeeper_testing::Sandbox;

#[derive(Debug)]
#[allow(dead_code, reason = "printed by Debug")]
struct Request {
    method: &'static str,
    timeout: u32,
    secret: &'static str,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    init(&Default::default())?;
    let latency = Duration::from_secs(1);
    info!(
        method = "GET",
        URL = "/metrics",
        ?latency,
        "Received HTTP request"
    );

    // `%` uses `Display`, `?` uses `Debug`.
    let request = Request {
        method: "GET",
        timeout: 30,
        secret: "pony",
    };
    info!(%request, "Request finished");
    info!(?request, "Request finished");

    let sandbox = Sandbox::open(Default::default()).await?;
    let version = sandbox.client().server_version().await?;
    let (version, platform, go) = (version.git_version, version.platform, version.go_version);
    info!(%version, %platform, goVersion = %go, "Kubernetes server info");
    let pods = sandbox.client().api::<Pod>().default_namespace();
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "web"}]}});
    let pod = pods.objects().create(&pod).await?;
    let status = &pod.to_value()?["status"]["phase"];
    info!(pod = %pod.key(), status = ?bare(status.as_str().unwrap_or_default()), "Random pod");
    let namespaces = sandbox.client().api::<Namespace>();
    let namespace = namespaces.objects().get("default").await?;
    info!(namespace = %ObjectRef::new("", namespace.name()), "Random namespace");

    let timeout = std::io::Error::other("timeout");
    error!(
        error = &timeout as &dyn std::error::Error,
        "Failed to update pod status"
    );
    sandbox.close().await?;
    Ok(())
}
