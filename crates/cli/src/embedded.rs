//! A cluster in this process: an API server, what makes it live, and a client that needs no port.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use watchkeeper_client::{Client, ClientOptions};
use watchkeeper_server::{Builder, Handle, Server, StartError};
use watchkeeper_simulator::{Simulator, SimulatorOptions};

use crate::cluster::client_options;
use crate::elected::Elected;
use crate::failure::Failure;
use crate::session::Session;

/// What lives in a local cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct LocalOptions {
    /// How many nodes run pods
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    nodes: usize,

    /// Only the API server: nobody schedules or runs pods, or cleans up
    #[arg(long)]
    no_simulator: bool,
}

impl LocalOptions {
    /// Whether somebody fulfils what objects ask for.
    pub(crate) fn simulates(&self) -> bool {
        !self.no_simulator
    }
}

/// A running cluster.
pub(crate) struct LocalCluster {
    pub(crate) server: Handle,
    pub(crate) client: Client,
    life: Life,
}

/// Who fulfils what objects ask for.
enum Life {
    Nobody,
    Simulator(Simulator),
    /// One of all servers that share the store.
    Elected(Elected),
}

impl LocalCluster {
    /// One in memory, without a port.
    pub(crate) async fn start(
        options: &LocalOptions,
        verbosity: i32,
        session: &Session,
    ) -> Result<Self, Failure> {
        Self::of(Server::builder().in_memory(), options, verbosity, session).await
    }

    /// One as described.
    pub(crate) async fn of(
        builder: Builder,
        options: &LocalOptions,
        verbosity: i32,
        session: &Session,
    ) -> Result<Self, Failure> {
        let server = builder.start().await.map_err(not_started)?;
        let client = watchkeeper_testing::client_of(&server, quiet_options(verbosity, session))?;
        let life = Life::start(&server, &client, options);
        Ok(Self { server, client, life })
    }

    /// Stops everything and waits for it.
    pub(crate) async fn stop(self) {
        // The simulator is a client: it goes first.
        match self.life {
            Life::Nobody => {}
            Life::Simulator(simulator) => simulator.stop().await,
            Life::Elected(elected) => elected.stop().await,
        }
        self.server.shutdown().await;
    }
}

impl Life {
    fn start(server: &Handle, client: &Client, options: &LocalOptions) -> Self {
        if !options.simulates() {
            return Self::Nobody;
        }
        let (client, options) = (
            client.clone(),
            SimulatorOptions {
                nodes: options.nodes,
                root_ca: server.authority_pem(),
                metrics: true,
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

/// How clients of a server in this process behave.
pub(crate) fn quiet_options(verbosity: i32, session: &Session) -> ClientOptions {
    ClientOptions {
        rate_limit: None,
        // Nobody typed these requests: what the server thinks of them is for the log.
        warnings: Arc::new(|warning| tracing::debug!("{}", warning.text)),
        ..client_options(verbosity, session.err.clone())
    }
}

/// Why it did not start, and what to do about it.
pub(crate) fn not_started(error: StartError) -> Failure {
    let hint = match &error {
        StartError::Listen { .. } => "; `--listen 127.0.0.1:0` takes a free port",
        StartError::Exposed(_) => " (--token-auth-file, --client-ca-file)",
        _ => "",
    };
    Failure::text(format!("{:#}{hint}", anyhow::Error::from(error)))
}
