//! A namespace in a cluster: the one of `KUBECONFIG`, or else an embedded one.
//!
//! For tests and examples that should run anywhere. The embedded cluster has nodes and controllers, runs on its own
//! thread and is reached over TLS like any other; only its speed differs. It does not affect the program's logging
//! and clock.
//!
//! ```
//! use watchkeeper_testing::Sandbox;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::open(Default::default()).await?;
//! println!("{} at {}", sandbox.client().server_version().await?.git_version, sandbox.config().server);
//! sandbox.close().await?;
//! # Ok(())
//! # }
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use serde_json::json;
use tokio::sync::oneshot;
use tracing::subscriber::NoSubscriber;
use watchkeeper_client::config::{Credentials, Material};
use watchkeeper_client::{Client, ClientOptions, Config, ConfigError, LoadOptions, Secret, WatchEvent};
use watchkeeper_meta::{Resource, Scope};
use watchkeeper_server::{Handle, Server, StartError};
use watchkeeper_simulator::{Simulator, SimulatorOptions};

use crate::{client_of, signing_authority_of, unlimited};

/// The time controllers may take to prepare a new namespace.
const NAMESPACE_TIMEOUT: Duration = Duration::from_secs(30);

/// A client, and a namespace that is deleted when the sandbox is closed.
pub struct Sandbox {
    config: Config,
    client: Client,
    namespace: String,
    /// `None` for an existing cluster.
    embedded: Option<Embedded>,
}

/// A cluster on its own thread, which ends when this is stopped or dropped.
struct Embedded {
    stop: oneshot::Sender<()>,
    stopped: oneshot::Receiver<()>,
}

/// The reason there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// `KUBECONFIG` is invalid.
    #[error("KUBECONFIG has no usable cluster")]
    Config(#[from] ConfigError),
    /// The embedded server did not start.
    #[error("the embedded server cannot start")]
    Start(#[from] StartError),
    /// The thread of the embedded server could not be started.
    #[error("cannot start the thread of the embedded server")]
    Thread(#[from] std::io::Error),
    /// The embedded server ended before it was ready.
    #[error("the embedded server ended while it started")]
    Ended,
    /// The namespace could not be created or deleted.
    #[error("cannot make or delete a namespace")]
    Namespace(#[from] watchkeeper_client::Error),
    /// The namespace has no service account, without which pods cannot be created.
    #[error("namespace {namespace} has no service account after {NAMESPACE_TIMEOUT:?}")]
    NoServiceAccount {
        /// The namespace.
        namespace: String,
    },
}

impl Sandbox {
    /// Creates a namespace and waits until pods can be created in it.
    ///
    /// The future is boxed, so that programs that await it do not compile a server.
    pub fn open(options: ClientOptions) -> BoxFuture<'static, Result<Self, SandboxError>> {
        Box::pin(async move {
            let (mut config, embedded) = match std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty())
            {
                Some(_) => (Config::load(&LoadOptions::default())?, None),
                None => {
                    let (config, embedded) = Embedded::start().await?;
                    (config, Some(embedded))
                }
            };
            // The logs and metrics of the caller's client do not include this.
            let namespace = make_namespace(&Client::new(&config, unlimited())?).await?;
            config.namespace.clone_from(&namespace);
            let client = Client::new(&config, options)?;
            Ok(Self {
                config,
                client,
                namespace,
                embedded,
            })
        })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The configuration, for clients with other options.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The namespace, `sandbox-` and five random letters; also the client's default namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Deletes the namespace with its content, and stops an embedded cluster.
    pub fn close(self) -> BoxFuture<'static, Result<(), SandboxError>> {
        Box::pin(async move {
            let Some(embedded) = self.embedded else {
                let namespaces = self.client.dynamic(namespaces());
                namespaces.delete(&self.namespace).await?;
                return Ok(());
            };
            drop(self.client);
            embedded.stop().await;
            Ok(())
        })
    }
}

impl Embedded {
    async fn start() -> Result<(Config, Self), SandboxError> {
        let (started, start) = oneshot::channel();
        let (stop, stop_requested) = oneshot::channel();
        let (ended, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let run = move || {
            // The embedded server must not log to the program's subscriber.
            let _quiet = tracing::subscriber::set_default(NoSubscriber::new());
            let cluster = async {
                let (server, simulator) = match start_cluster().await {
                    Ok(cluster) => cluster,
                    Err(error) => return drop(started.send(Err(error))),
                };
                let _ = started.send(Ok(config_of(&server)));
                let _ = stop_requested.await;
                simulator.stop().await;
                server.shutdown().await;
            };
            runtime.block_on(cluster);
            let _ = ended.send(());
        };
        std::thread::Builder::new().name("sandbox".into()).spawn(run)?;
        let config = start.await.unwrap_or(Err(SandboxError::Ended))?;
        Ok((config, Self { stop, stopped }))
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.stopped.await;
    }
}

async fn start_cluster() -> Result<(Handle, Simulator), SandboxError> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::builder().in_memory().listen(any_port).start().await?;
    let options = SimulatorOptions {
        root_ca: server.authority_pem(),
        signing_authority: signing_authority_of(&server),
        ..Default::default()
    };
    let simulator = Simulator::start(client_of(&server, unlimited())?, options);
    Ok((server, simulator))
}

/// The administrator's configuration of a server with a port.
fn config_of(server: &Handle) -> Config {
    let address = server.address().map(|address| address.to_string());
    let url = Uri::builder()
        .scheme("https")
        .authority(address.unwrap_or_default());
    let url = url.path_and_query("/").build();
    let mut config = Config::new(url.unwrap_or_else(|_| unreachable!("an address is an authority")));
    let authority = server.authority_pem().unwrap_or_default();
    config.tls.authority = Some(Material::Inline(authority.into_bytes().into()));
    config.credentials = Credentials::Token(Secret::new(server.admin_token().reveal()));
    config
}

async fn make_namespace(client: &Client) -> Result<String, SandboxError> {
    let wanted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "sandbox-"}});
    let namespaces = client.dynamic(namespaces());
    let made = namespaces.create(&wanted).await?;
    let namespace = made.name().to_owned();
    match tokio::time::timeout(NAMESPACE_TIMEOUT, default_service_account(client, &namespace)).await {
        Ok(found) => found.map(|()| namespace).map_err(Into::into),
        Err(_) => Err(SandboxError::NoServiceAccount { namespace }),
    }
}

/// Waits until a namespace has its service account `default`. Until then, pods in it may be refused.
pub async fn default_service_account(
    client: &Client,
    namespace: &str,
) -> Result<(), watchkeeper_client::Error> {
    let accounts = client.dynamic(core("ServiceAccount", "serviceaccounts", Scope::Namespaced));
    let accounts = accounts.namespace(namespace);
    loop {
        let mut watch = accounts.watch().await?;
        while let Some(event) = watch.next().await {
            if matches!(event?, WatchEvent::Added(account) if account.name() == "default") {
                return Ok(());
            }
        }
    }
}

fn namespaces() -> Resource {
    core("Namespace", "namespaces", Scope::Cluster)
}

fn core(kind: &'static str, plural: &'static str, scope: Scope) -> Resource {
    Resource {
        group: "".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        scope,
    }
}
