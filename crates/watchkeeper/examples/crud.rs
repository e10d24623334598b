//! List, get, create, update and delete, and the classification of errors.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let namespaces = sandbox.client().api::<Namespace>();
    let name = format!("{}-test", sandbox.namespace());
    let mut test = Namespace {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..Default::default()
        },
        ..Default::default()
    };

    println!("Namespace.List:");
    for namespace in namespaces.list().await?.objects() {
        println!("  {}", namespace.name());
    }

    println!("Namespace.Get:");
    let found = namespaces.find("kube-system").await?;
    println!("  kube-system: {}", found.is_some());

    println!("Namespace.Create:");
    for _ in 0..2 {
        match namespaces.create(&test).await {
            Ok(_) => println!("  {name}: ok"),
            Err(error) if error.is_already_exists() => println!("  {name}: already exists"),
            Err(error) => println!("  {name}: {error}"),
        }
    }

    println!("Namespace.Update:");
    test.metadata.labels = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    match namespaces.update(&test).await {
        Ok(updated) => println!("  {name}: {:?}", updated.metadata.labels.unwrap_or_default()["a"]),
        Err(error) => println!("  {name}: {error}"),
    }

    println!("Namespace.Delete:");
    for name in [&name, "nobody"] {
        match namespaces.delete(name).await {
            Ok(_) => println!("  {name}: ok"),
            Err(error) if error.is_not_found() => println!("  {name}: already deleted"),
            Err(error) => println!("  {name}: {error}"),
        }
    }
    sandbox.close().await?;
    Ok(())
}
