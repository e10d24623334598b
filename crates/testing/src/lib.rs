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
//! maps.patch("settings", PatchKind::Merge, &patch, &PatchOptions::default()).await?;
//!
//! let changed = maps.get("settings", &GetOptions::default()).await?.to_value()?;
//! assert_eq!(changed["data"]["colour"], "red");
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```

pub mod sandbox;
pub mod time;
pub mod webhook;

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_client::config::Credentials;
use watchkeeper_client::{Client, ClientOptions, Config, ConfigError, InProcess, Secret};
use watchkeeper_meta::{ApplyOptions, GroupVersionKind, Resource, Scope, Time};
use watchkeeper_server::{Handle, Server, StartError};
use watchkeeper_simulator::{Simulator, SimulatorOptions};
use watchkeeper_wire::schema::resources;
use watchkeeper_wire::yaml;

use self::webhook::Webhook;
pub use sandbox::{Sandbox, SandboxError};

/// Who loads objects.
const MANAGER: &str = "watchkeeper-testing";

/// What a test wants besides a server.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// Nodes and controllers, so that deployments run and namespaces go; none by default.
    pub simulator: Option<SimulatorOptions>,
    /// The time of day when the cluster starts; by default the machine's. It holds for all that runs on the same
    /// runtime.
    pub start_time: Option<Time>,
    /// Time stands still while anything has work to do, and jumps to the next timer when nothing has: see [`time`].
    pub paused: bool,
}

/// A server, a client of it, and perhaps a simulated control plane.
pub struct TestCluster {
    server: Handle,
    client: Client,
    simulator: Option<Simulator>,
    _clock: Option<watchkeeper_clock::Setting>,
}

/// Why a cluster cannot be had, or not loaded.
#[derive(Debug, thiserror::Error)]
pub enum TestClusterError {
    /// The server did not start.
    #[error("the embedded server cannot start")]
    Start(#[from] StartError),
    /// The client's settings were refused.
    #[error("the client of the embedded server cannot be made")]
    Client(#[from] ConfigError),
    /// A manifest cannot be read.
    #[error("the manifest cannot be read")]
    Manifest(#[from] yaml::YamlError),
    /// A document is of a kind the server does not have.
    #[error("document {index}: the server has no {api_version} {kind}")]
    UnknownKind {
        /// Which document, from 0.
        index: usize,
        /// Its API version.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// The server did not say what it serves.
    #[error("the server cannot be asked for its kinds")]
    Discovery(#[source] Box<watchkeeper_client::Error>),
    /// The server refused an object.
    #[error("{object} was refused")]
    Refused {
        /// Which.
        object: String,
        /// Why.
        source: Box<watchkeeper_client::Error>,
    },
}

/// Futures are boxed: a test that awaits them compiles none of what is behind.
impl TestCluster {
    /// Starts a server with nothing but what every cluster has.
    pub fn start() -> BoxFuture<'static, Result<Self, TestClusterError>> {
        Self::start_with(TestOptions::default())
    }

    /// Starts a server with more.
    pub fn start_with(options: TestOptions) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        Box::pin(async move {
            if options.paused {
                time::pause();
            }
            let clock = options
                .start_time
                .map(|start| watchkeeper_clock::set(start.into()));
            let server = Server::builder().in_memory().start().await?;
            let client = client_of(&server, unlimited())?;
            let simulator = options
                .simulator
                .map(|options| Simulator::start(client.clone(), options));
            Ok(Self {
                server,
                client,
                simulator,
                _clock: clock,
            })
        })
    }

    /// A client with all rights and no rate limit.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The server: its registry, and the faults it can be given.
    pub fn server(&self) -> &Handle {
        &self.server
    }

    /// Applies every document of a manifest, in order; namespaced ones go to `default` unless they say otherwise. A
    /// document may be of a kind that one before it defines.
    pub fn load<'a>(&'a self, manifest: &'a str) -> BoxFuture<'a, Result<(), TestClusterError>> {
        Box::pin(self.load_changed(manifest, |_| ()))
    }

    /// Does the same, and makes the webhook configurations among the documents lead to this webhook instead of to the
    /// services that they name.
    pub fn load_webhooks<'a>(
        &'a self,
        manifest: &'a str,
        webhook: &'a Webhook,
    ) -> BoxFuture<'a, Result<(), TestClusterError>> {
        Box::pin(self.load_changed(manifest, |document| webhook.stand_in(document)))
    }

    async fn load_changed(
        &self,
        manifest: &str,
        change: impl Fn(&mut Value),
    ) -> Result<(), TestClusterError> {
        for document in yaml::documents(manifest.as_bytes(), yaml::Mode::Strict) {
            let mut document = document?;
            change(&mut document.value);
            let text = |pointer: &str| {
                document
                    .value
                    .pointer(pointer)
                    .and_then(|value| value.as_str())
                    .unwrap_or_default()
                    .to_owned()
            };
            let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            let wanted = GroupVersionKind::new(group.to_owned(), version.to_owned(), kind.clone());
            let Some(resource) = self.resource_of(&wanted).await? else {
                return Err(TestClusterError::UnknownKind {
                    index: document.index,
                    api_version,
                    kind,
                });
            };
            let is_namespaced = resource.scope == Scope::Namespaced;
            let mut api = self.client.dynamic(resource);
            if is_namespaced {
                let namespace = text("/metadata/namespace");
                api = api.namespace(if namespace.is_empty() {
                    "default".to_owned()
                } else {
                    namespace
                });
            }
            let options = ApplyOptions {
                field_manager: MANAGER.to_owned(),
                force: true,
                ..Default::default()
            };
            api.apply(&name, &document.value, &options)
                .await
                .map_err(|source| TestClusterError::Refused {
                    object: format!("{kind} {name}"),
                    source: Box::new(source),
                })?;
        }
        Ok(())
    }

    /// The resource of a kind: built in, or one that a manifest before has defined.
    async fn resource_of(&self, kind: &GroupVersionKind) -> Result<Option<Resource>, TestClusterError> {
        if let Some(known) = resources::by_kind(&kind.group, &kind.version, &kind.kind) {
            return Ok(Some(known.resource.clone()));
        }
        let served = self.client.discover().await;
        let served = served.map_err(|error| TestClusterError::Discovery(Box::new(error)))?;
        let found = served.resource_of_kind(kind);
        Ok(found.map(|found| found.resource.clone()))
    }

    /// Stops everything and waits for it.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Some(simulator) = self.simulator {
                simulator.stop().await;
            }
            drop(self.client);
            self.server.shutdown().await;
        })
    }
}

/// A client of a server in this process, as its administrator.
pub fn client_of(server: &Handle, options: ClientOptions) -> Result<Client, ConfigError> {
    let connector = server.connector();
    let pipes = InProcess::new(move || {
        let connector = connector.clone();
        async move { connector.connect().await }
    });
    let mut config = Config::new(http::Uri::from_static("http://localhost"));
    config.credentials = Credentials::Token(Secret::new(server.admin_token().reveal()));
    Client::in_process_as(pipes, &config, options)
}

/// Options for a client that waits for nobody: a server in this process is not overrun by its own tests.
pub fn unlimited() -> ClientOptions {
    ClientOptions {
        rate_limit: None,
        ..Default::default()
    }
}
