//! Creates a deployment from a YAML file, decoded into its struct.
#![allow(clippy::print_stdout)]

use k8s_openapi::api::apps::v1::Deployment;
use watchkeeper::client::Manifest;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let deployments = sandbox.client().api::<Deployment>().default_namespace();
    let manifests = Manifest::parse(include_bytes!("demo.yaml"));
    for manifest in manifests.into_iter().filter_map(Result::ok) {
        if manifest.kind.kind != "Deployment" {
            continue;
        }
        let deployment: Deployment = serde_json::from_value(manifest.object)?;
        for _ in 0..2 {
            match deployments.create(&deployment).await {
                Ok(_) => println!("Deployment created: {}", manifest.name),
                Err(error) if error.is_already_exists() => println!("Deployment exists: {}", manifest.name),
                Err(error) => println!("Deployment not created: {error}"),
            }
        }
    }
    sandbox.close().await?;
    Ok(())
}
