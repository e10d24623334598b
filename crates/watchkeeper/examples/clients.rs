//! Four clients on one connection: REST, typed, dynamic and discovery. In a pod, `Config::in_cluster` finds the
//! cluster.
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::Namespace;
use watchkeeper::client::config::{Config, Environment};
use watchkeeper::client::{DiscoveryClient, ResourceType};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let client = sandbox.client();

    println!("REST, any path and its bytes:");
    let bytes = client.get_raw("/version", 1 << 20).await?;
    println!("{}", String::from_utf8_lossy(&bytes));

    println!("\nTyped, a struct for each kind:");
    let namespaces = client.api::<Namespace>();
    let system = namespaces.get("kube-system").await?;
    println!("{:?}", system.status.and_then(|status| status.phase));

    println!("\nDynamic, any kind and no struct:");
    let namespaces = client.dynamic(Namespace::resource());
    let system = namespaces.get("kube-system").await?;
    println!("{}", system.to_value()?["status"]["phase"]);

    println!("\nDiscovery, what the server is and has:");
    let version = client.server_version().await?;
    println!("{}", serde_json::to_string_pretty(&version)?);
    let discovery = DiscoveryClient::new(client.clone(), Default::default());
    let deploy = discovery.resource("deploy").await?;
    println!("{}", deploy.resource.group_resource());

    println!("\nIn a pod:");
    match Config::in_cluster(&Environment::default()) {
        Ok(config) => println!("{}", config.server),
        Err(error) => println!("{error}"),
    }
    sandbox.close().await?;
    Ok(())
}
