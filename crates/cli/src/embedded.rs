//! A cluster in this process: an API server, the simulator, and a client that needs no port.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use watchkeeper_client::{Client, ClientOptions};
use watchkeeper_server::{Builder, Handle, Server, StartError};
use watchkeeper_simulator::scenario::Script;
use watchkeeper_simulator::{Simulator, SimulatorOptions};

use crate::cluster::client_options;
use crate::elected::Elected;
use crate::failure::Failure;
use crate::session::Session;

/// Options of a local cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct LocalOptions {
    /// Number of simulated nodes
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    nodes: usize,

    /// Only the API server, without the simulator: pods are not scheduled or run, and nothing is garbage collected
    #[arg(long)]
    no_simulator: bool,

    /// Failures of nodes and pods, and stages of objects in KWOK's format: YAML documents of the kinds Scenario and Stage
    #[arg(long, value_name = "FILE", conflicts_with = "no_simulator")]
    scenario: Option<PathBuf>,
}

impl LocalOptions {
    /// True if the simulator runs.
    pub(crate) fn simulates(&self) -> bool {
        !self.no_simulator
    }

    /// The content of the scenario file. It is read before anything is started.
    fn script(&self) -> Result<Script, Failure> {
        self.scenario
            .as_deref()
            .map_or_else(|| Ok(Script::default()), read_script)
    }
}

/// A running cluster.
pub(crate) struct LocalCluster {
    pub(crate) server: Handle,
    pub(crate) client: Client,
    life: Life,
}

/// The simulator.
enum Life {
    Nobody,
    Simulator(Simulator),
    /// Elected among the servers that share the store.
    Elected(Elected),
}

impl LocalCluster {
    /// A cluster in memory, without a port.
    pub(crate) async fn start(
        options: &LocalOptions,
        verbosity: i32,
        session: &Session,
    ) -> Result<Self, Failure> {
        Self::of(Server::builder().in_memory(), options, verbosity, session).await
    }

    /// A cluster with these settings.
    pub(crate) async fn of(
        builder: Builder,
        options: &LocalOptions,
        verbosity: i32,
        session: &Session,
    ) -> Result<Self, Failure> {
        let script = options.script()?;
        let server = builder.start().await.map_err(not_started)?;
        let client = watchkeeper_testing::client_of(&server, quiet_options(verbosity, session))?;
        let life = Life::start(&server, &client, options, script);
        Ok(Self { server, client, life })
    }

    /// Stops everything and waits until it has ended.
    pub(crate) async fn stop(self) {
        // The simulator is a client: it stops first.
        match self.life {
            Life::Nobody => {}
            Life::Simulator(simulator) => simulator.stop().await,
            Life::Elected(elected) => elected.stop().await,
        }
        self.server.shutdown().await;
    }
}

impl Life {
    fn start(server: &Handle, client: &Client, options: &LocalOptions, script: Script) -> Self {
        if !options.simulates() {
            return Self::Nobody;
        }
        let (client, options) = (
            client.clone(),
            SimulatorOptions {
                nodes: options.nodes,
                root_ca: server.authority_pem(),
                signing_authority: watchkeeper_testing::signing_authority_of(server),
                metrics: true,
                stages: script.stages,
                scenario: script.scenario,
                ..Default::default()
            },
        );
        if !server.registry().store().is_shared() {
            return Self::Simulator(Simulator::start(client, options));
        }
        let address = server.address().map(|address| address.to_string());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let identity = format!(
            "{}_{}_{}",
            address.unwrap_or_default(),
            std::process::id(),
            since.as_nanos()
        );
        Self::Elected(Elected::start(client, options, identity))
    }
}

fn read_script(path: &Path) -> Result<Script, Failure> {
    let wrong = |error: anyhow::Error| Failure::text(format!("--scenario {}: {error:#}", path.display()));
    let file = std::fs::read(path).map_err(|error| wrong(error.into()))?;
    Script::read(&file).map_err(|error| wrong(error.into()))
}

/// The options of clients of a server in this process.
pub(crate) fn quiet_options(verbosity: i32, session: &Session) -> ClientOptions {
    ClientOptions {
        rate_limit: None,
        // The user did not type these requests: warnings about them go to the log.
        warnings: Arc::new(|warning| tracing::debug!("{}", warning.text)),
        ..client_options(verbosity, session.err.clone())
    }
}

/// The reason it did not start, and what to do about it.
pub(crate) fn not_started(error: StartError) -> Failure {
    let hint = match &error {
        StartError::Listen { .. } => "; `--listen 127.0.0.1:0` takes a free port".to_owned(),
        StartError::Exposed(_) => " (--token-auth-file, --client-ca-file)".to_owned(),
        StartError::Storage(error) => format!("; {}", error.advice()),
        _ => String::new(),
    };
    Failure::text(format!("{:#}{hint}", anyhow::Error::from(error)))
}
