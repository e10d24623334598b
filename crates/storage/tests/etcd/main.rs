//! Stores over a real etcd: a write of one is visible to all, and nothing is lost or invented, whatever fails.
//!
//! Skipped with a message if etcd is not installed. The guarantees of all engines are tested in `conformance`.

mod access;
mod cuts;
#[path = "../support/etcd.rs"]
mod etcd;
#[path = "../support/proxy.rs"]
mod proxy;
mod same_as_memory;
mod several;

use std::time::Duration;

use watchkeeper_storage::{EtcdOptions, Store, StoreOptions};

/// Options for tests: only the test compacts.
fn options(url: String) -> EtcdOptions {
    EtcdOptions {
        compaction_interval: Duration::ZERO,
        ..EtcdOptions::at([url])
    }
}

async fn open(url: String) -> Store {
    Store::etcd(options(url), StoreOptions::default()).await.unwrap()
}
