//! A custom kind: its definition is installed, its rules are enforced, and it has a status.
#![allow(clippy::print_stdout)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watchkeeper::Resource;
use watchkeeper::client::install_crds;
use watchkeeper::meta;
use watchkeeper_testing::Sandbox;

/// A site that is served under a domain.
#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "watchkeeper.example", version = "v1", namespaced, status = WebsiteStatus, shortname = "ws")]
#[resource(rule("self.spec.replicas <= 10", message = "ten replicas are enough"))]
struct WebsiteSpec {
    #[schemars(length(max = 63))]
    domain: String,
    replicas: u32,
    source: Source,
}

/// Where the pages come from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
enum Source {
    Git { url: String },
    Image { name: String },
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct WebsiteStatus {
    ready: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let client = sandbox.client();
    install_crds(client, &[Website::crd()]).await?;
    let websites = client.api::<Website>().namespace(sandbox.namespace());

    let source = Source::Image {
        name: "pages:1".into(),
    };
    let spec = WebsiteSpec {
        domain: "example.com".into(),
        replicas: 2,
        source,
    };
    let mut home = websites.create(&Website::new("home", spec.clone())).await?;
    println!("created {} for {}", home.metadata.name, home.spec.domain);

    home.status = Some(WebsiteStatus { ready: 2 });
    let home = websites.status().update(&home).await?;
    println!("ready: {}", home.status.map_or(0, |status| status.ready));

    let large = Website::new("large", WebsiteSpec { replicas: 11, ..spec });
    if let Err(error) = websites.create(&large).await {
        println!("refused: {}", error.status().map_or("", |status| &status.message));
    }
    client
        .dynamic(definitions())
        .delete("websites.watchkeeper.example")
        .await?;
    sandbox.close().await?;
    Ok(())
}

fn definitions() -> meta::Resource {
    meta::Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
}
