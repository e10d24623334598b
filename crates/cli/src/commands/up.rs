//! `up`: a local cluster for any client, until Ctrl-C.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use watchkeeper_server::{Builder, Handle, Server};

use crate::embedded::{LocalCluster, LocalOptions};
use crate::etcd_flags::EtcdFlags;
use crate::failure::Failure;
use crate::identity_flags::IdentityFlags;
use crate::one_thread::on_one_thread;
use crate::session::Session;
use crate::stdin_end;
use crate::stop::Stop;

/// The kubeconfig is written here unless --kubeconfig says otherwise.
const DEFAULT_KUBECONFIG: &str = "watchkeeper.kubeconfig";

/// Run a local cluster for any client
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper up                                  in memory, on port 6443
  watchkeeper up --data-dir ./data                objects outlive the program
  watchkeeper up --listen 127.0.0.1:0             on a free port
  watchkeeper up --etcd-servers http://a:2379     objects are in etcd; further servers may share it
  KUBECONFIG=watchkeeper.kubeconfig kubectl get namespaces

With --debug-endpoints, to see how a client takes it:
  kubectl create --raw '/debug/streams?flow=cut&resource=pods' -f /dev/null    cut the watches of pods; or end, stall, run
  kubectl create --raw '/debug/compact?revision=500' -f /dev/null              forget what was before version 500
  kubectl create --raw '/debug/connections?refuse=true' -f /dev/null           refuse new connections

With --testing, for tests in any language (JSON, as administrator):
  echo '{\"advance\": \"10m\"}' | kubectl create --raw /testing/v1/clock -f -      move the clock
  echo '{\"request\": {\"verb\": \"create\", \"resource\": \"pods\"}, \"times\": 1, \"action\": {\"cut\": \"beforeAnswer\"}}' |
    kubectl create --raw /testing/v1/faults -f -                               store the next pod, and say nothing
  kubectl get --raw /testing/v1/writes                                         who has written what
  and idle, fired, streams, compact, snapshots, reset")]
pub(crate) struct Up {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,

    /// Keep objects in this directory; in memory if not given
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    etcd: EtcdFlags,

    /// Let the users of this file in: token,user,uid,"group1,group2" per line
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Let administrators ask for faults below /debug/: cut watches, refused connections, a forgotten history
    #[arg(long)]
    debug_endpoints: bool,

    /// Let administrators drive the cluster below /testing/v1/: clock, faults, snapshots, reset, the log of writes
    #[arg(long)]
    testing: bool,

    /// End when standard input does: with whoever started it, however that ends
    #[arg(long)]
    end_with_stdin: bool,

    #[command(flatten)]
    local: LocalOptions,

    #[command(flatten)]
    identity: IdentityFlags,
}

/// Starts the server, says where it is, and waits for the wish to end.
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
    let path = kubeconfig.unwrap_or_else(|| DEFAULT_KUBECONFIG.into());
    let ready = write_kubeconfig(&cluster.server, &path)?;
    let mut stop = Stop::listen();
    session.out.line(ready);
    tokio::select! {
        () = stop.requested() => {}
        () = stdin_end::ended(), if up.end_with_stdin => {}
    }
    session
        .err
        .line("stopping: open requests may finish (Ctrl-C again ends at once)");
    tokio::select! {
        () = cluster.stop() => Ok(()),
        () = stop.requested() => Err(Failure::text("ended before open requests had finished")),
    }
}

impl Up {
    fn builder(&self) -> Builder {
        let mut server = Server::builder()
            .listen(self.listen)
            .debug_endpoints(self.debug_endpoints)
            .testing(self.testing);
        if let Some(directory) = &self.data_dir {
            server = server.data_dir(directory);
        }
        if let Some(etcd) = self.etcd.options() {
            server = server.etcd(etcd);
        }
        if let Some(file) = &self.token_auth_file {
            server = server.token_file(file);
        }
        self.identity.tell(server, None)
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
