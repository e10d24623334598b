//! `up`: a local cluster for any client, until Ctrl-C.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tokio::time::timeout;
use watchkeeper_server::{Builder, FeatureGates, Handle, Server};
use watchkeeper_testing::sandbox::default_service_account;
use watchkeeper_view::feed::FeedOptions;
use watchkeeper_view::web::PageOptions;

use crate::audit_flags::AuditFlags;
use crate::embedded::{LocalCluster, LocalOptions};
use crate::etcd_flags::EtcdFlags;
use crate::failure::Failure;
use crate::identity_flags::IdentityFlags;
use crate::listen;
use crate::one_thread::on_one_thread;
use crate::page::OpenPage;
use crate::request_flags::RequestFlags;
use crate::session::Session;
use crate::stdin_end;
use crate::stop::Stop;

/// The default path of the kubeconfig.
const DEFAULT_KUBECONFIG: &str = "watchkeeper.kubeconfig";

/// Run a local cluster for any client
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper up                                  in memory, on port 6443
  watchkeeper up --data-dir ./data                objects outlive the program
  watchkeeper up --listen localhost:0             on a free port
  watchkeeper up --kubeconfig ./kubeconfig        the file to write, watchkeeper.kubeconfig else
  watchkeeper up --nodes 9 --scenario bad.yaml    failures of nodes and pods, as the file says
  watchkeeper up --etcd-servers http://a:2379     objects are in etcd; further servers may share it
  KUBECONFIG=watchkeeper.kubeconfig kubectl get namespaces

With --debug-endpoints, to see how a client takes it:
  kubectl create -f /dev/null --raw '/debug/streams?flow=cut&resource=pods'
      cut the watches of pods; or end, stall, run
  kubectl create -f /dev/null --raw '/debug/compact?revision=500'
      forget what was before version 500
  kubectl create -f /dev/null --raw '/debug/connections?refuse=true'
      refuse new connections

With --testing, for tests in any language (JSON, as administrator):
  echo '{\"advance\": \"10m\"}' | kubectl create --raw /testing/v1/clock -f -
      move the clock; also faults, idle, fired, streams, compact, snapshots, reset
  kubectl get --raw /testing/v1/writes
      who has written what")]
pub(crate) struct Up {
    /// Address to listen on; :PORT is on loopback, port 0 is a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443", value_parser = listen::address)]
    listen: SocketAddr,

    /// Store objects in this directory; by default in memory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Refuse writes that would make the data directory larger than this; 0 is no limit
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "data_dir")]
    quota_backend_bytes: u64,

    /// Encrypt what is stored as this EncryptionConfiguration says: aesgcm, identity
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,

    #[command(flatten)]
    etcd: EtcdFlags,

    /// File of static tokens: token,user,uid,"group1,group2" per line
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Serve fault injection for administrators below /debug/: cut watches, refused connections, compacted history
    #[arg(long)]
    debug_endpoints: bool,

    /// Serve the testing API for administrators below /testing/v1/: clock, faults, snapshots, reset, log of writes
    #[arg(long)]
    testing: bool,

    /// Serve a page that shows the cluster live, on a free port of loopback
    #[arg(long)]
    ui: bool,

    /// Exit when standard input is closed, so that it ends with its parent process
    #[arg(long)]
    end_with_stdin: bool,

    /// Admission plugins to enable; ServiceAccount is, unless --no-simulator or --testing is given
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    enable_admission_plugins: Vec<Plugin>,

    /// Admission plugins to disable
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    disable_admission_plugins: Vec<Plugin>,

    /// Features to turn on or off: ShardedListAndWatch (alpha, off), WatchListCompression (beta, on)
    #[arg(
        long,
        value_name = "NAME=BOOL,...",
        default_value = "",
        hide_default_value = true
    )]
    feature_gates: FeatureGates,

    #[command(flatten)]
    local: LocalOptions,

    #[command(flatten)]
    identity: IdentityFlags,

    #[command(flatten)]
    requests: RequestFlags,

    #[command(flatten)]
    audit: AuditFlags,
}

/// An admission plugin that can be enabled and disabled.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Plugin {
    /// Pods get a service account and its token
    #[value(name = "ServiceAccount")]
    ServiceAccount,
}

/// The time the simulator has to create the first service account. After it the cluster is reported ready without one.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the server, prints its address, and waits for a stop signal.
pub(crate) async fn run(
    up: Up,
    kubeconfig: Option<PathBuf>,
    verbosity: i32,
    session: &mut Session,
) -> Result<(), Failure> {
    match up.testing {
        true => on_one_thread(|| serve(up, kubeconfig, verbosity, session)),
        false => serve(up, kubeconfig, verbosity, session).await,
    }
}

async fn serve(
    up: Up,
    kubeconfig: Option<PathBuf>,
    verbosity: i32,
    session: &mut Session,
) -> Result<(), Failure> {
    let cluster = LocalCluster::of(up.builder(), &up.local, verbosity, session).await?;
    if up.has_service_accounts() && up.local.simulates() {
        // In a cluster that is reported ready, pods can be created.
        let account = default_service_account(&cluster.client, "default");
        if timeout(ACCOUNT_TIMEOUT, account).await.is_err() {
            tracing::warn!(
                "the namespace default has no service account yet: pods in it are refused until it has"
            );
        }
    }
    let path = kubeconfig.unwrap_or_else(|| DEFAULT_KUBECONFIG.into());
    let ready = write_kubeconfig(&cluster.server, &path)?;
    let mut stop = Stop::listen();
    session.out.line(ready);
    let page = match up.ui {
        true => Some(
            OpenPage::serve(
                cluster.client.clone(),
                FeedOptions::default(),
                PageOptions::titled("local cluster"),
            )
            .await?,
        ),
        false => None,
    };
    if let Some(page) = &page {
        session.out.line(page.line());
    }
    tokio::select! {
        () = stop.requested() => {}
        () = stdin_end::ended(), if up.end_with_stdin => {}
    }
    drop(page);
    session
        .err
        .line("stopping when open requests have finished (Ctrl-C again stops at once)");
    tokio::select! {
        () = cluster.stop() => Ok(()),
        () = stop.requested() => Err(Failure::text("ended before open requests had finished")),
    }
}

impl Up {
    /// True if pods need a service account. Without the simulator nobody creates the accounts, and a test should not have
    /// to wait for those of its namespaces.
    fn has_service_accounts(&self) -> bool {
        let is_in = |plugins: &[Plugin]| plugins.contains(&Plugin::ServiceAccount);
        let is_usual = self.local.simulates() && !self.testing;
        !is_in(&self.disable_admission_plugins) && (is_usual || is_in(&self.enable_admission_plugins))
    }

    fn builder(&self) -> Builder {
        let mut server = Server::builder()
            .listen(self.listen)
            .debug_endpoints(self.debug_endpoints)
            .service_accounts(self.has_service_accounts())
            .feature_gates(self.feature_gates)
            .testing(self.testing);
        if let Some(directory) = &self.data_dir {
            server = server.data_dir(directory);
        }
        if let Some(file) = &self.encryption_provider_config {
            server = server.encryption_provider_config(file);
        }
        if self.quota_backend_bytes > 0 {
            server = server.quota_backend_bytes(self.quota_backend_bytes);
        }
        if let Some(etcd) = self.etcd.options() {
            server = server.etcd(etcd);
        }
        if let Some(file) = &self.token_auth_file {
            server = server.token_file(file);
        }
        self.identity
            .tell(self.audit.tell(self.requests.tell(server)), None)
    }
}

/// Writes the kubeconfig; returns the line that says how to use it.
fn write_kubeconfig(server: &Handle, path: &Path) -> Result<String, Failure> {
    let written = server
        .write_kubeconfig(path)
        .with_context(|| format!("cannot write {}", path.display()));
    written.map_err(Failure::Other)?;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let address = server.address().map(|address| address.to_string());
    Ok(format!(
        "watchkeeper is ready at https://{}: export KUBECONFIG={}",
        address.unwrap_or_default(),
        path.display()
    ))
}
