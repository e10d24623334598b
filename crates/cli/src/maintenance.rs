//! Common parts of the store commands: ask a running server, or open a data directory.

use std::path::Path;

use bytes::Bytes;
use http::{Method, Request, Response};
use serde::Deserialize;
use watchkeeper_client::{Body, SendOptions};
use watchkeeper_storage::{BackupError, OpenError, Store, StoreOptions};

use crate::cluster::Cluster;
use crate::failure::Failure;

/// The largest status document.
const MAX_STATUS: usize = 1 << 16;

/// The size of a store, as a server reports it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) compacted_revision: u64,
    pub(crate) used_bytes: u64,
    pub(crate) file_bytes: u64,
}

impl Status {
    /// The status of a store in this process.
    pub(crate) fn of(store: &Store) -> Self {
        let usage = store.usage();
        Self {
            compacted_revision: store.compacted_revision().get(),
            used_bytes: usage.used_bytes,
            file_bytes: usage.file_bytes,
        }
    }
}

/// Sends a request below `/maintenance/v1/`, without a time limit.
pub(crate) async fn send(cluster: &Cluster, method: Method, what: &str) -> Result<Response<Body>, Failure> {
    let request = Request::builder()
        .method(method)
        .uri(format!("/maintenance/v1/{what}"))
        .body(Bytes::new())
        .map_err(Failure::other)?;
    let options = SendOptions {
        watch: true,
        ..SendOptions::default()
    };
    Ok(cluster.client.send(request, &options).await?)
}

/// Asks a server to maintain its store; returns the size afterwards.
pub(crate) async fn post(cluster: &Cluster, what: &str) -> Result<Status, Failure> {
    let mut body = send(cluster, Method::POST, what).await?.into_body();
    let bytes = body.collect(MAX_STATUS).await.map_err(Failure::other)?;
    serde_json::from_slice(&bytes).map_err(Failure::other)
}

/// Opens a data directory that is not in use and has a store.
pub(crate) async fn open(dir: &Path) -> Result<Store, Failure> {
    watchkeeper_storage::verify_directory(dir).map_err(not_opened)?;
    Store::open(dir, StoreOptions::default())
        .await
        .map_err(not_opened)
}

/// The reason a data directory cannot be used, and what to do about it.
pub(crate) fn not_opened(error: OpenError) -> Failure {
    let advice = error.advice();
    Failure::text(format!("{:#}; {advice}", anyhow::Error::from(error)))
}

/// The reason a backup failed, and what to do about it.
pub(crate) fn no_backup(error: BackupError) -> Failure {
    match error {
        BackupError::Store(error) => not_opened(error),
        error => Failure::other(error),
    }
}
