//! Kubernetes' list/watch machinery in Rust: what users import.
//!
//! | module | contents |
//! |---|---|
//! | [`client`] | configuration, credentials, transport; REST, typed, dynamic, metadata and discovery clients; watch streams |
//! | [`runtime`] | watcher, reflector, indexed store, shared informers, work queues, controllers, leader election |
//! | [`custom`] | custom kinds from structs, their definitions and schemas, by `#[derive(Resource)]` (feature `derive`, on by default) |
//! | `manager` | an operator's process: leader election, probes, metrics, webhooks, ordered shutdown (feature `manager`) |
//! | [`meta`] | names, versions, selectors, options per verb, `Status` |
//! | [`wire`] | objects as bytes: JSON, protobuf and YAML, the schema of every built-in kind |
//! | `server`, `simulator`, `testing` | an API server in this process and a cluster around it (feature `server`) |
//!
//! [`prelude`] has what most programs import. Everything else has one path, in the module of its part. For users of
//! kube-rs, [`coming_from_kube`] maps the names that differ.
//!
//! An informer keeps a local copy of a resource and delivers its changes:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Namespace;
//! use watchkeeper::prelude::*;
//! # use watchkeeper_testing::TestCluster;
//!
//! # let cluster = TestCluster::start().await?;
//! # let client = cluster.client().clone();
//! let informer = Factory::new(client, Default::default()).informer(Selection::of::<Namespace>());
//! informer.store().synced().await?;
//! let namespaces = informer.store().list(); // an Arc<Namespace> for each
//! let names: Vec<String> = namespaces.iter().map(|namespace| namespace.key().to_string()).collect();
//! assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
//! # informer.stop().await;
//! # cluster.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A custom kind is a struct. Its schema is derived from it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use watchkeeper::prelude::*;
//! # use watchkeeper_testing::TestCluster;
//!
//! #[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! #[resource(group = "example.com", version = "v1", namespaced)]
//! struct WebsiteSpec {
//!     #[schemars(length(max = 63))]
//!     domain: String,
//! }
//!
//! # let cluster = TestCluster::start().await?;
//! # let client = cluster.client().clone();
//! install_crds(&client, &[Website::crd()]).await?;
//! let websites = client.api::<Website>().namespace("default");
//! let home = Website::new("home", WebsiteSpec { domain: "example.com".into() });
//! assert_eq!(websites.create(&home).await?.spec.domain, "example.com");
//! let long = Website::new("long", WebsiteSpec { domain: "x".repeat(64) });
//! assert!(websites.create(&long).await.is_err_and(|error| error.is_invalid()));
//! # cluster.stop().await;
//! # Ok(())
//! # }
//! ```

pub use watchkeeper_client as client;
#[cfg(feature = "derive")]
pub use watchkeeper_custom as custom;
#[cfg(feature = "derive")]
pub use watchkeeper_custom::Resource;
#[cfg(feature = "manager")]
pub use watchkeeper_manager as manager;
pub use watchkeeper_meta as meta;
pub use watchkeeper_runtime as runtime;
#[cfg(feature = "server")]
pub use watchkeeper_server as server;
#[cfg(feature = "server")]
pub use watchkeeper_simulator as simulator;
#[cfg(feature = "server")]
pub use watchkeeper_testing as testing;
pub use watchkeeper_wire as wire;

// Its programs need kube; they are tests of the benchmarks' crate, which has it.
#[cfg_attr(not(doctest), doc = include_str!("coming_from_kube.md"))]
#[cfg_attr(doctest, doc = "Coming from kube-rs.")]
pub mod coming_from_kube {}

/// The imports of most programs: `use watchkeeper::prelude::*;`.
///
/// Traits whose methods are needed, and the types of a controller.
pub mod prelude {
    pub use watchkeeper_client::{Api, Client, DynamicApi, ResourceType, install_crds};
    #[cfg(feature = "derive")]
    pub use watchkeeper_custom::{Condition, CustomResource, Resource, set_condition};
    #[cfg(feature = "manager")]
    pub use watchkeeper_manager::{Listen, Manager, signals};
    pub use watchkeeper_meta::ObjectKey;
    pub use watchkeeper_runtime::controller::{Action, BoxError, Context, Controller, ControllerOptions};
    pub use watchkeeper_runtime::factory::{Factory, Selection};
    pub use watchkeeper_runtime::finalizer::Phase;
    pub use watchkeeper_runtime::informer::{Handler, Informer, Notice};
    pub use watchkeeper_runtime::recorder::{Note, Recorder};
    pub use watchkeeper_runtime::store::Store;
    pub use watchkeeper_wire::Object;
}

/// Runs the programs of the README, of the pages in `docs`, and of a crate below this one, as tests.
#[cfg(doctest)]
mod pages {
    #[cfg(feature = "manager")]
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/start.md")]
    struct Start;
    #[doc = include_str!("../../../docs/coming-from-client-go.md")]
    struct ComingFromClientGo;
    #[doc = include_str!("../../../docs/coming-from-controller-runtime.md")]
    struct ComingFromControllerRuntime;
    #[doc = include_str!("../../../docs/coming-from-kwok.md")]
    struct ComingFromKwok;
    #[doc = include_str!("../../../docs/watching.md")]
    struct Watching;
    #[doc = include_str!("../../../docs/informers.md")]
    struct Informers;
    #[doc = include_str!("../../../docs/controllers.md")]
    struct Controllers;
    #[doc = include_str!("../../../docs/testing-controllers.md")]
    struct TestingControllers;
    #[cfg(feature = "manager")]
    #[doc = include_str!("../../../docs/operators.md")]
    struct Operators;
    #[cfg(feature = "manager")]
    #[doc = include_str!("../../../docs/scale.md")]
    struct Scale;
    #[doc = include_str!("../../../docs/record-and-replay.md")]
    struct RecordAndReplay;
    #[doc = include_str!("../../derive/src/example.md")]
    struct Derive;
}
