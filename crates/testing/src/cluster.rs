//! A test cluster.

use std::sync::Arc;

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use watchkeeper_client::config::{Credentials, Impersonate};
use watchkeeper_client::{Client, ClientOptions, Config, ConfigError, InProcess, ManifestError, Secret};
use watchkeeper_meta::{Status, Time};
use watchkeeper_server::{Faults, FeatureGates, Handle, Server, StartError, Writes};
use watchkeeper_simulator::{SigningAuthority, Simulator, SimulatorOptions};

use crate::snapshot::Snapshot;

/// Options of a test cluster.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// Simulated nodes and controllers, so that deployments run and namespaces are deleted. By default none.
    pub simulator: Option<SimulatorOptions>,
    /// The time of day at the start; by default the machine's. It applies to everything on the same runtime.
    pub start_time: Option<Time>,
    /// Pauses time: it stands still while any task has work, and jumps to the next timer when all are idle. See
    /// [`time`](crate::time).
    pub paused: bool,
    /// Alpha features of the server; by default none.
    pub feature_gates: FeatureGates,
}

/// A server, its client, and optionally a simulated control plane.
pub struct TestCluster {
    server: Handle,
    client: Client,
    simulator: Option<(Simulator, SimulatorOptions)>,
    feature_gates: FeatureGates,
    /// The state of a new cluster.
    pub(crate) bare: Snapshot,
    /// The initial state of this cluster: the same, unless it is a fork.
    pub(crate) beginning: Snapshot,
    /// The rest of the recording, in a cluster that replays one.
    pub(crate) player: tokio::sync::Mutex<Option<watchkeeper_replay::Player>>,
    pub(crate) _clock: Option<watchkeeper_clock::Setting>,
}

/// The reason a cluster cannot be started or loaded.
#[derive(Debug, thiserror::Error)]
pub enum TestClusterError {
    /// The server did not start.
    #[error("the embedded server cannot start")]
    Start(#[from] StartError),
    /// The client's settings are invalid.
    #[error("cannot create the client of the embedded server")]
    Client(#[from] ConfigError),
    /// A file or a directory of manifests cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A manifest cannot be parsed.
    #[error("the manifest cannot be read")]
    Manifest(#[from] ManifestError),
    /// The server does not know the kind of a document.
    #[error("document {index}: the server has no {api_version} {kind}")]
    UnknownKind {
        /// The index of the document, from 0.
        index: usize,
        /// Its API version.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// Discovery failed.
    #[error("cannot discover the kinds of the server")]
    Discovery(#[source] Box<watchkeeper_client::Error>),
    /// The server refused an object.
    #[error("{object} was refused")]
    Refused {
        /// The object.
        object: String,
        /// The error.
        source: Box<watchkeeper_client::Error>,
    },
    /// No runtime could be created for the cluster.
    #[error("cannot create a runtime for the cluster")]
    Runtime(#[source] std::io::Error),
    /// The state could not be restored.
    #[error("cannot restore the cluster")]
    Restore(#[source] Status),
    /// A recording cannot be replayed.
    #[error("the recording cannot be replayed")]
    Replay(#[from] watchkeeper_replay::ReplayError),
    /// A recorded change cannot be played.
    #[error("a recorded change cannot be played")]
    Play(#[from] watchkeeper_storage::WriteError),
    /// A past revision cannot be read.
    #[error("revision {revision} cannot be read")]
    Past {
        /// The revision.
        revision: u64,
        /// The error.
        source: watchkeeper_storage::ReadError,
    },
}

/// The futures are boxed, so that a test that awaits them does not compile a server.
impl TestCluster {
    /// Starts a server with the initial objects of a cluster. A test that uses only this does not link the simulator.
    pub fn start() -> BoxFuture<'static, Result<Self, TestClusterError>> {
        Self::start_server(TestOptions::default())
    }

    /// Starts a server with options.
    pub fn start_with(mut options: TestOptions) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        Box::pin(async move {
            let simulator = options.simulator.take();
            Ok(Self::start_server(options).await?.simulated(simulator))
        })
    }

    /// Starts a server without nodes and controllers.
    fn start_server(options: TestOptions) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        Box::pin(async move {
            if options.paused {
                watchkeeper_clock::moving::pause();
            }
            let clock = options
                .start_time
                .map(|start| watchkeeper_clock::set(start.into()));
            let builder = Server::builder().in_memory().write_log(true);
            let server = builder.feature_gates(options.feature_gates).start().await?;
            let bare = Snapshot::of(&server);
            let cluster = Self::around(server, bare)?;
            Ok(Self {
                feature_gates: options.feature_gates,
                _clock: clock,
                ..cluster
            })
        })
    }

    /// A new cluster with the current state of this one, and with nodes and controllers if this one has them. It is
    /// independent from then on, except for the clock, which everything on one runtime shares.
    pub fn fork(&self) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        self.fork_of(&self.snapshot())
    }

    /// Like [`TestCluster::fork`], with the state of a snapshot of this cluster.
    pub fn fork_of(&self, snapshot: &Snapshot) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        let options = self.simulator.as_ref().map(|(_, options)| options.clone());
        let (snapshot, bare) = (snapshot.clone(), self.bare.clone());
        let feature_gates = self.feature_gates;
        Box::pin(async move {
            let builder = Server::builder().fork_of(&snapshot.0).write_log(true);
            let server = builder.feature_gates(feature_gates).start().await?;
            let cluster = Self {
                feature_gates,
                ..Self::around(server, bare)?
            };
            Ok(cluster.simulated(options))
        })
    }

    /// A cluster with the state of a snapshot, at a time of day.
    pub(crate) fn begin(
        snapshot: &Snapshot,
        bare: &Snapshot,
        start_time: Time,
    ) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        let (snapshot, bare) = (snapshot.clone(), bare.clone());
        Box::pin(async move {
            let clock = watchkeeper_clock::set(start_time.into());
            let server = Server::builder().fork_of(&snapshot.0).write_log(true);
            let cluster = Self::around(server.start().await?, bare)?;
            Ok(Self {
                _clock: Some(clock),
                ..cluster
            })
        })
    }

    pub(crate) fn around(server: Handle, bare: Snapshot) -> Result<Self, TestClusterError> {
        let client = client_of(&server, unlimited())?;
        let beginning = Snapshot::of(&server);
        Ok(Self {
            server,
            client,
            simulator: None,
            feature_gates: FeatureGates::default(),
            bare,
            beginning,
            player: tokio::sync::Mutex::default(),
            _clock: None,
        })
    }

    /// The cluster with nodes and controllers, if there are options for them.
    fn simulated(self, options: Option<SimulatorOptions>) -> Self {
        let start =
            |options: SimulatorOptions| (Simulator::start(self.client.clone(), options.clone()), options);
        Self {
            simulator: options.map(start),
            ..self
        }
    }

    /// A client with all permissions and no rate limit.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client that impersonates another user, with the permissions that RBAC grants: shows what an operator may not
    /// do.
    ///
    /// As `system:serviceaccount:NAMESPACE:NAME` it is the client of a pod with this service account: its default
    /// namespace, in which a manager keeps its lease and certificates, is NAMESPACE, and without `groups` it has the
    /// groups of service accounts.
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client, ConfigError> {
        let impersonate = Impersonate {
            user: user.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            ..Default::default()
        };
        connect(&self.server, impersonate, unlimited())
    }

    /// [kube](https://kube.rs)'s client with all permissions, for operators written with kube.
    #[cfg(feature = "kube")]
    pub fn kube_client(&self) -> kube::Client {
        self.server.kube_client()
    }

    /// The server handle.
    pub fn server(&self) -> &Handle {
        &self.server
    }

    /// Fault injection.
    pub fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// The writes since the start or the last [`TestCluster::take_writes`]. Objects the server created for itself
    /// before it served are not included.
    pub fn writes(&self) -> Writes {
        self.server.writes()
    }

    /// The same, and clears the record.
    pub fn take_writes(&self) -> Writes {
        let writes = self.server.writes();
        self.server.clear_writes();
        writes
    }

    /// Stops everything and waits until it has ended.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Some((simulator, _)) = self.simulator {
                simulator.stop().await;
            }
            drop(self.client);
            self.server.shutdown().await;
        })
    }
}

/// A client of a server in this process, as administrator.
pub fn client_of(server: &Handle, options: ClientOptions) -> Result<Client, ConfigError> {
    connect(server, Impersonate::default(), options)
}

fn connect(server: &Handle, impersonate: Impersonate, options: ClientOptions) -> Result<Client, ConfigError> {
    let connector = server.connector();
    let pipes = InProcess::new(move || {
        let connector = connector.clone();
        async move { connector.connect().await }
    });
    let mut config = Config::new(http::Uri::from_static("http://localhost"));
    config.credentials = Credentials::Token(Secret::new(server.admin_token().reveal()));
    if let Some(namespace) = namespace_of(&impersonate.user) {
        config.namespace = namespace.to_owned();
    }
    config.impersonate = impersonate;
    Client::in_process_as(pipes, &config, options)
}

/// The namespace of a service account.
fn namespace_of(user: &str) -> Option<&str> {
    let account = user.strip_prefix("system:serviceaccount:")?;
    account.split_once(':').map(|(namespace, _)| namespace)
}

/// The authority of a server's client certificates, for a simulator that signs in its name; `None` without a port.
pub fn signing_authority_of(server: &Handle) -> Option<Arc<SigningAuthority>> {
    let authority = SigningAuthority::from_pem(&server.signing_authority_pem()?);
    // The server has made it.
    authority.ok().map(Arc::new)
}

/// Client options without a rate limit: tests do not overload a server in the same process.
pub fn unlimited() -> ClientOptions {
    ClientOptions {
        rate_limit: None,
        ..Default::default()
    }
}
