//! A real API server inside a test: no cluster, no container, no port.
//!
//! A [`TestCluster`] is an embedded server with a client, connected by an in-memory pipe. Every test has its own. The
//! server behaves like a cluster's: versions, conflicts, watches, finalizers, apply.
//!
//! ```
//! use watchkeeper_meta::{PatchKind, Resource};
//! use watchkeeper_testing::TestCluster;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = TestCluster::start().await?;
//! cluster.load("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: blue}\n").await?;
//!
//! let maps = Resource::namespaced("", "v1", "ConfigMap", "configmaps");
//! let maps = cluster.client().dynamic(maps).namespace("default");
//! let patch = serde_json::json!({"data": {"colour": "red"}});
//! maps.patch("settings", PatchKind::Merge, &patch).await?;
//!
//! let changed = maps.get("settings").await?.to_value()?;
//! assert_eq!(changed["data"]["colour"], "red");
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A test can also drive the cluster:
//!
//! - [`time`]: move the cluster's clock, and wait until nothing is left to do.
//! - [`TestCluster::faults`]: requests fail, are delayed, or are applied while their answer is lost; reads are stale.
//! - [`snapshot`]: save, fork, reset, print a cluster, and read its past.
//! - [`TestCluster::writes`]: the record of writes. "The second reconcile writes nothing" is one line.
//! - [`webhook`]: admission webhooks served by a test.
//! - [`simulation`]: runs controllers through thousands of reproducible histories of faults and crashes.
//!
//! ```
//! # use watchkeeper_testing::TestCluster;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cluster = TestCluster::start().await?;
//! # let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: blue}\n";
//! let reconcile = async || cluster.load(settings).await; // your controller
//! reconcile().await?;
//! assert_eq!(cluster.take_writes().to_string(), "admin patch ConfigMap default/settings: created\n");
//! reconcile().await?;
//! assert_eq!(cluster.take_writes().effective().len(), 0);
//! # cluster.stop().await;
//! # Ok(())
//! # }
//! ```

mod cluster;
mod manifests;
pub mod replay;
pub mod sandbox;
pub mod simulation;
pub mod snapshot;
pub mod time;
pub mod webhook;

pub use cluster::{TestCluster, TestClusterError, TestOptions, client_of, signing_authority_of, unlimited};
pub use sandbox::{Sandbox, SandboxError};
pub use simulation::Simulation;
pub use snapshot::{Past, Snapshot};

/// Runs the program of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
