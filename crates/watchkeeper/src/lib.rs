//! Kubernetes' list/watch machinery in Rust: what users import.
//!
//! | module | what is in it |
//! |---|---|
//! | [`client`] | configuration, credentials, transport; REST, typed, dynamic, metadata and discovery clients; watch streams |
//! | [`runtime`] | watcher, reflector, indexed store, shared informers, work queues, controllers, leader election |
//! | [`meta`] | names, versions, selectors, options per verb, `Status` |
//! | [`wire`] | objects as bytes: JSON, protobuf and YAML, the schema of every built-in kind |
//! | `server`, `simulator`, `testing` | an API server in this process and a cluster around it (feature `server`) |
//!
//! An informer keeps a local copy of a resource and tells what changes:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Namespace;
//! use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
//! # use watchkeeper_testing::TestCluster;
//!
//! # let cluster = TestCluster::start().await?;
//! # let client = cluster.client().clone();
//! let informer = Factory::new(client, FactoryOptions::default()).informer(Selection::of::<Namespace>());
//! let snapshot = informer.store().synced().await?;
//! let names: Vec<&str> = snapshot.iter().map(|namespace| namespace.name()).collect();
//! assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
//! # informer.stop().await;
//! # cluster.stop().await;
//! # Ok(())
//! # }
//! ```

pub use watchkeeper_client as client;
pub use watchkeeper_meta as meta;
pub use watchkeeper_runtime as runtime;
#[cfg(feature = "server")]
pub use watchkeeper_server as server;
#[cfg(feature = "server")]
pub use watchkeeper_simulator as simulator;
#[cfg(feature = "server")]
pub use watchkeeper_testing as testing;
pub use watchkeeper_wire as wire;

/// The programs of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
