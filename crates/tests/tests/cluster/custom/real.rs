//! A real apiextensions-apiserver, to compare with: the one of the kubeconfig that `WATCHKEEPER_APIEXTENSIONS` names.
//! Without it nothing is compared, which is said.

// Why nothing was compared is for whoever reads the output.
#![allow(clippy::print_stderr)]

use std::time::Duration;

use serde_json::Value;
use watchkeeper_client::{Client, Config, DynamicApi, LoadOptions};
use watchkeeper_meta::Resource;
use watchkeeper_testing::unlimited;

const VARIABLE: &str = "WATCHKEEPER_APIEXTENSIONS";

/// How often a server may be asked whether it serves a definition, and the pause before each.
const LOOKS: u32 = 300;
const LOOK: Duration = Duration::from_millis(100);

/// A client of the real server, if one is named.
pub(crate) fn apiextensions() -> Option<Client> {
    let Some(kubeconfig) = std::env::var_os(VARIABLE) else {
        eprintln!("{VARIABLE} names no kubeconfig: no real apiextensions-apiserver was asked");
        return None;
    };
    let options = LoadOptions {
        path: Some(kubeconfig.into()),
        ..Default::default()
    };
    let config = Config::load(&options).expect("a kubeconfig");
    Some(Client::new(&config, unlimited()).expect("a client"))
}

/// Installs a definition in place of one of the same name, and returns its spec as the server keeps it.
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

/// The spec of a definition as a server keeps it.
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
    for _ in 0..LOOKS {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("it never came")
}
