//! A real API server inside a test: no cluster, no container, no port.
//!
//! A [`TestCluster`] is an embedded server and a client of it, connected by a pipe in memory. Every test has its
//! own. What the server does is what a cluster does: versions, conflicts, watches, finalizers, apply.
//!
//! ```
//! use watchkeeper_meta::{GetOptions, PatchKind, PatchOptions, Resource, Scope};
//! use watchkeeper_testing::TestCluster;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = TestCluster::start().await?;
//! cluster.load("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: blue}\n").await?;
//!
//! let maps = Resource {
//!     group: "".into(),
//!     version: "v1".into(),
//!     kind: "ConfigMap".into(),
//!     plural: "configmaps".into(),
//!     scope: Scope::Namespaced,
//! };
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
//! Besides, a test can drive it:
//!
//! - [`time`]: the cluster's clock is moved, and "nothing is left to do" is waited for.
//! - [`TestCluster::faults`]: requests fail, come late, are applied while their answer is lost; reads are stale.
//! - [`snapshot`]: a cluster is kept, forked, reset, read as it was, and printed.
//! - [`TestCluster::writes`]: who wrote what. "The second reconcile writes nothing" is one line.
//! - [`webhook`]: admission webhooks that a test serves.
//! - [`simulation`]: controllers run through thousands of histories of faults and crashes, each of them repeatable.
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
pub mod sandbox;
pub mod simulation;
pub mod snapshot;
pub mod time;
pub mod webhook;

pub use cluster::{TestCluster, TestClusterError, TestOptions, client_of, unlimited};
pub use sandbox::{Sandbox, SandboxError};
pub use simulation::Simulation;
pub use snapshot::{Past, Snapshot};

/// The programs of the guide run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing-controllers.md")]
struct Guide;
