//! Optimistic locking: an update based on an old version is refused, and has to be repeated on the latest one.
#![allow(clippy::print_stdout)]

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use watchkeeper::client::{ResourceType, retry_on_conflict};
use watchkeeper_testing::Sandbox;

const NAME: &str = "demo-deployment";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let deployments = sandbox.client().dynamic(Deployment::resource());
    let deployments = deployments.namespace(sandbox.namespace());
    let demo = json!({
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "demo"}},
            "template": {
                "metadata": {"labels": {"app": "demo"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.12"}]},
            },
        },
    });
    let origin = deployments.create(&demo).await?;
    println!("origin ResourceVersion:  {}", origin.resource_version());

    // A controller may write the status meanwhile, so each attempt reads the latest version.
    let updated = retry_on_conflict(|| async {
        let latest = deployments.get(NAME).await?;
        let changed = with_image(latest.to_value().unwrap_or_default(), "nginx:1.13");
        deployments.update(NAME, &changed).await
    });
    println!("updated ResourceVersion:  {}", updated.await?.resource_version());

    let stale = with_image(origin.to_value()?, "nginx:1.14");
    let refused = deployments.update(NAME, &stale).await;
    if let Err(error) = refused {
        println!("[s] Failed to update Deployment: {}", error.kind());
    }
    sandbox.close().await?;
    Ok(())
}

fn with_image(mut deployment: Value, image: &str) -> Value {
    deployment["spec"]["replicas"] = json!(2);
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    deployment
}
