//! Stores over a real etcd: what one writes all see, and nothing is lost or invented whatever happens on the way.
//!
//! Skipped, with a word about it, on a machine without etcd. The promises that all engines make are in `conformance`.

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

/// Options for tests: history goes only when a test says so.
fn options(url: String) -> EtcdOptions {
    EtcdOptions {
        compaction_interval: Duration::ZERO,
        ..EtcdOptions::at([url])
    }
}

async fn open(url: String) -> Store {
    Store::etcd(options(url), StoreOptions::default()).await.unwrap()
}
