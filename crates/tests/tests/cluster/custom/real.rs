//! A real apiextensions-apiserver for comparison, from the kubeconfig in `WATCHKEEPER_APIEXTENSIONS`. Comparisons are
//! skipped with a message if it is not set.

// The message about skipped comparisons is meant for the terminal.
#![allow(clippy::print_stderr)]

use std::time::Duration;

use serde_json::Value;
use watchkeeper_client::{Client, Config, DynamicApi, LoadOptions};
use watchkeeper_meta::Resource;
use watchkeeper_testing::unlimited;

const VARIABLE: &str = "WATCHKEEPER_APIEXTENSIONS";

/// The number of polls until a definition is served, and the pause before each.
const POLLS: u32 = 300;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A client of the real server, if one is configured.
pub(crate) fn apiextensions() -> Option<Client> {
    let Some(kubeconfig) = std::env::var_os(VARIABLE) else {
        eprintln!("skipped: {VARIABLE} names no kubeconfig of a real apiextensions-apiserver");
        return None;
    };
    let options = LoadOptions {
        path: Some(kubeconfig.into()),
        ..Default::default()
    };
    let config = Config::load(&options).expect("a kubeconfig");
    Some(Client::new(&config, unlimited()).expect("a client"))
}

/// Installs a definition, replacing one of the same name, and returns its stored spec.
pub(crate) async fn install(client: &Client, crd: &Value) -> Value {
    let (definitions, name) = (definitions(client), name(crd));
    let _ = definitions.delete(name).await;
    eventually(async || definitions.get(name).await.err()).await;
    definitions.create(crd).await.expect("the real server accepts it");
    eventually(async || {
        let kept = definitions.get(name).await.ok()?.to_value().ok()?;
        let conditions = kept["status"]["conditions"].as_array()?;
        let status = |wanted: &str| {
            let found = conditions.iter().find(|condition| condition["type"] == wanted);
            found.is_some_and(|condition| condition["status"] == "True")
        };
        assert!(!status("NonStructuralSchema"), "{kept:#}");
        status("Established").then_some(())
    })
    .await;
    stored(client, crd).await
}

/// The stored spec of a definition.
pub(crate) async fn stored(client: &Client, crd: &Value) -> Value {
    let kept = definitions(client).get(name(crd)).await.expect("it is there");
    kept.to_value().expect("JSON")["spec"].clone()
}

fn definitions(client: &Client) -> DynamicApi {
    client.dynamic(Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ))
}

fn name(crd: &Value) -> &str {
    crd["metadata"]["name"].as_str().expect("a name")
}

async fn eventually<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..POLLS {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    panic!("it never came")
}
