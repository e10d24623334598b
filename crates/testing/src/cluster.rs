//! A test cluster from its start to its end.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use watchkeeper_client::config::Credentials;
use watchkeeper_client::{Client, ClientOptions, Config, ConfigError, InProcess, ManifestError, Secret};
use watchkeeper_meta::{Status, Time};
use watchkeeper_server::{Faults, Handle, Server, StartError, Writes};
use watchkeeper_simulator::{Simulator, SimulatorOptions};

use crate::snapshot::Snapshot;

/// What a test wants besides a server.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// Nodes and controllers, so that deployments run and namespaces go; none by default.
    pub simulator: Option<SimulatorOptions>,
    /// The time of day when the cluster starts; by default the machine's. It holds for all that runs on the same
    /// runtime.
    pub start_time: Option<Time>,
    /// Time stands still while anything has work to do, and jumps to the next timer when nothing has: see
    /// [`time`](crate::time).
    pub paused: bool,
}

/// A server, a client of it, and perhaps a simulated control plane.
pub struct TestCluster {
    server: Handle,
    client: Client,
    simulator: Option<(Simulator, SimulatorOptions)>,
    /// What the cluster had before anybody wrote to it.
    pub(crate) bare: Snapshot,
    /// What it began with: the same, unless it is a fork.
    pub(crate) beginning: Snapshot,
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
    /// A file or a directory of manifests cannot be read.
    #[error("{} cannot be read", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A manifest cannot be read.
    #[error("the manifest cannot be read")]
    Manifest(#[from] ManifestError),
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
    /// There is no runtime for the cluster.
    #[error("the cluster has no runtime")]
    Runtime(#[source] std::io::Error),
    /// The cluster cannot be put back.
    #[error("the cluster cannot be put back")]
    Restore(#[source] Status),
    /// The past cannot be read.
    #[error("revision {revision} cannot be read")]
    Past {
        /// The revision.
        revision: u64,
        /// Why.
        source: watchkeeper_storage::ReadError,
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
                watchkeeper_clock::moving::pause();
            }
            let clock = options
                .start_time
                .map(|start| watchkeeper_clock::set(start.into()));
            let server = Server::builder().in_memory().write_log(true).start().await?;
            let bare = Snapshot::of(&server);
            let cluster = Self::around(server, bare, options.simulator)?;
            Ok(Self {
                _clock: clock,
                ..cluster
            })
        })
    }

    /// A cluster that begins with what another one held, and with nodes and controllers if that has them. It is on its
    /// own from then on; only the clock is shared by all that runs on the same runtime.
    pub fn fork(&self) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        self.fork_of(&self.snapshot())
    }

    /// As [`TestCluster::fork`], beginning with what a snapshot of this cluster holds.
    pub fn fork_of(&self, snapshot: &Snapshot) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        let options = self.simulator.as_ref().map(|(_, options)| options.clone());
        let (snapshot, bare) = (snapshot.clone(), self.bare.clone());
        Box::pin(async move {
            let server = Server::builder().fork_of(&snapshot.0).write_log(true);
            Self::around(server.start().await?, bare, options)
        })
    }

    /// A cluster that begins with a snapshot, at a time of day.
    pub(crate) fn begin(
        snapshot: &Snapshot,
        bare: &Snapshot,
        start_time: Time,
    ) -> BoxFuture<'static, Result<Self, TestClusterError>> {
        let (snapshot, bare) = (snapshot.clone(), bare.clone());
        Box::pin(async move {
            let clock = watchkeeper_clock::set(start_time.into());
            let server = Server::builder().fork_of(&snapshot.0).write_log(true);
            let cluster = Self::around(server.start().await?, bare, None)?;
            Ok(Self {
                _clock: Some(clock),
                ..cluster
            })
        })
    }

    fn around(
        server: Handle,
        bare: Snapshot,
        simulator: Option<SimulatorOptions>,
    ) -> Result<Self, TestClusterError> {
        let client = client_of(&server, unlimited())?;
        let beginning = Snapshot::of(&server);
        let simulator = simulator.map(|options| (Simulator::start(client.clone(), options.clone()), options));
        Ok(Self {
            server,
            client,
            simulator,
            bare,
            beginning,
            _clock: None,
        })
    }

    /// A client with all rights and no rate limit.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// [kube](https://kube.rs)'s client, with all rights: for operators that are written with kube.
    #[cfg(feature = "kube")]
    pub fn kube_client(&self) -> kube::Client {
        self.server.kube_client()
    }

    /// The server: its registry, and the ways into it.
    pub fn server(&self) -> &Handle {
        &self.server
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// Who has written what, since the start or the last [`TestCluster::take_writes`]. What the server created for itself
    /// before it served is not in it.
    pub fn writes(&self) -> Writes {
        self.server.writes()
    }

    /// The same, and begins anew.
    pub fn take_writes(&self) -> Writes {
        let writes = self.server.writes();
        self.server.clear_writes();
        writes
    }

    /// Stops everything and waits for it.
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
