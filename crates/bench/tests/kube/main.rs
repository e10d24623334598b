//! Tests the embedded server with [kube](https://kube.rs), an independent client, over TLS, with the kubeconfig of the
//! server. Each test has its own server.

mod beside;
mod controllers;
mod custom_kinds;
mod discovery;
mod objects;
mod under_faults;
mod watching;

use std::fmt::Debug;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::Value;
use watchkeeper_server::{Handle, Server};

/// A timeout longer than anything that succeeds.
const FOREVER: Duration = Duration::from_secs(60);

/// Starts a server, and a kube client as its administrator.
async fn start() -> (Handle, Client) {
    let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::builder()
        .in_memory()
        .listen(free_port)
        .start()
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig().unwrap()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    (server, Client::try_from(config).unwrap())
}

/// Waits for a result, with a timeout.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(FOREVER, future)
        .await
        .expect("it never came")
}

/// A typed object from its JSON.
fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// The error of a refused request.
fn refusal<T: Debug>(result: kube::Result<T>) -> Box<kube::core::Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        other => panic!("the server should have refused: {other:?}"),
    }
}
