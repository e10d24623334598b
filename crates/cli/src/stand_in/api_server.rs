//! As `kube-apiserver`: an API server without a simulator. Objects are in memory, whatever etcd is named.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{ArgAction, Parser};
use watchkeeper_server::{
    Builder, FeatureGateError, FeatureGates, KUBERNETES_VERSION, Server, ServingCertificate, ServingFiles,
};

use crate::audit_flags::AuditFlags;
use crate::embedded::not_started;
use crate::failure::Failure;
use crate::identity_flags::IdentityFlags;
use crate::one_thread::on_one_thread;
use crate::request_flags::RequestFlags;
use crate::session::Session;
use crate::stop::Stop;

/// The admission plugin that gives pods a service account. Suites disable it, because nothing creates the accounts.
const SERVICE_ACCOUNT: &str = "ServiceAccount";

/// Flags of suites that need no action here.
const WITHOUT_EFFECT: [&str; 9] = [
    "advertise-address",
    "anonymous-auth",
    "api-audiences",
    "enable-admission-plugins",
    "event-ttl",
    "external-hostname",
    "runtime-config",
    "service-cluster-ip-range",
    "storage-backend",
];

/// A Kubernetes API server for tests, in memory
#[derive(Debug, Parser)]
#[command(
    name = "kube-apiserver",
    bin_name = "kube-apiserver",
    max_term_width = 100,
    after_help = "This is watchkeeper under another name. Unknown flags are ignored with a warning."
)]
pub(super) struct ApiServer {
    /// Address to listen on; other machines need credentials: a token file or client certificates
    #[arg(long, value_name = "IP", default_value_t = Ipv4Addr::UNSPECIFIED.into())]
    bind_address: IpAddr,

    /// Port to listen on; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    secure_port: u16,

    /// Directory of apiserver.crt and apiserver.key; they are created if no flag names a certificate
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,

    /// File of static tokens: token,user,uid,"group1,group2" per line
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Authorization modes; only RBAC is supported
    #[arg(long, value_name = "MODE,...", value_delimiter = ',')]
    authorization_mode: Vec<String>,

    /// Allow privileged containers
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", action = ArgAction::Set)]
    allow_privileged: bool,

    /// Admission plugins to disable; only ServiceAccount can be disabled
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,

    /// Features to turn on or off: ShardedListAndWatch, WatchListCompression; others are ignored
    #[arg(long, value_name = "NAME=BOOL,...", value_delimiter = ',')]
    feature_gates: Vec<String>,

    /// Accepted for compatibility: objects are in memory
    #[arg(long, value_name = "URL,...", value_delimiter = ',')]
    etcd_servers: Vec<String>,

    /// Serve the testing API for administrators below /testing/v1/, as with `watchkeeper up --testing`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", action = ArgAction::Set)]
    testing: bool,

    /// Print the version of Kubernetes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", action = ArgAction::Set)]
    version: bool,

    #[command(flatten)]
    identity: IdentityFlags,

    #[command(flatten)]
    requests: RequestFlags,

    #[command(flatten)]
    audit: AuditFlags,

    #[command(flatten, next_help_heading = "Logging")]
    logging: watchkeeper_logging::Options,
}

impl AsRef<watchkeeper_logging::Options> for ApiServer {
    fn as_ref(&self) -> &watchkeeper_logging::Options {
        &self.logging
    }
}

/// Serves until it is stopped.
pub(super) async fn run(words: &[OsString], session: &mut Session) -> ExitCode {
    let flags: ApiServer = match super::read(words, &WITHOUT_EFFECT, session) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    if flags.version {
        session.out.line(format!("Kubernetes {KUBERNETES_VERSION}"));
        return crate::finish(Ok(()), session);
    }
    let served = match flags.testing {
        true => on_one_thread(|| flags.serve()),
        false => flags.serve().await,
    };
    crate::finish(served, session)
}

impl ApiServer {
    async fn serve(&self) -> Result<(), Failure> {
        let mut stop = Stop::listen();
        self.say_what_is_different();
        let server = self.builder()?.start().await.map_err(not_started)?;
        if let Some(address) = server.address() {
            tracing::info!("Serving securely on {address}");
        }
        stop.requested().await;
        tracing::info!("Shutting down: open requests may finish");
        tokio::select! {
            () = server.shutdown() => Ok(()),
            () = stop.requested() => Err(Failure::text("ended before open requests had finished")),
        }
    }

    fn builder(&self) -> Result<Builder, Failure> {
        let serving = match &self.cert_dir {
            Some(directory) if !self.identity.serves() => {
                let made =
                    self.certificate_in(directory.join("apiserver.crt"), directory.join("apiserver.key"));
                Some(made.map_err(Failure::Other)?)
            }
            _ => None,
        };
        let mut server = Server::builder()
            .listen(SocketAddr::new(self.bind_address, self.secure_port))
            .allow_privileged(self.allow_privileged)
            .service_accounts(!self.is_disabled(SERVICE_ACCOUNT))
            .feature_gates(self.gates()?)
            .testing(self.testing);
        if let Some(file) = &self.token_auth_file {
            server = server.token_file(file);
        }
        Ok(self
            .identity
            .tell(self.audit.tell(self.requests.tell(server)), serving))
    }

    /// The feature gates that are known here. Suites set those of one version of Kubernetes.
    fn gates(&self) -> Result<FeatureGates, Failure> {
        let mut gates = FeatureGates::default();
        for setting in &self.feature_gates {
            match gates.set(setting) {
                Err(FeatureGateError::Unknown(name)) => {
                    tracing::info!("feature gate {name} has no effect here");
                }
                set => set.map_err(Failure::other)?,
            }
        }
        Ok(gates)
    }

    /// The certificate in a directory, created if missing.
    fn certificate_in(&self, certificate: PathBuf, key: PathBuf) -> anyhow::Result<ServingFiles> {
        let files = ServingFiles { certificate, key };
        if !files.certificate.exists() || !files.key.exists() {
            let made = ServingCertificate::new(self.bind_address)?;
            let written = made.write(&files);
            written.with_context(|| format!("cannot write {}", files.certificate.display()))?;
            tracing::info!("Made a certificate: {}", files.certificate.display());
        }
        Ok(files)
    }

    fn is_disabled(&self, plugin: &str) -> bool {
        self.disable_admission_plugins.iter().any(|name| name == plugin)
    }

    /// Logs flags that have no effect or another one than in kube-apiserver.
    fn say_what_is_different(&self) {
        if !self.etcd_servers.is_empty() {
            tracing::info!("Objects are in memory: --etcd-servers has no effect here");
        }
        if self.authorization_mode.iter().any(|mode| mode == "AlwaysAllow") {
            tracing::warn!("RBAC decides who may do what, whatever --authorization-mode says");
        }
        for plugin in &self.disable_admission_plugins {
            if plugin != SERVICE_ACCOUNT {
                tracing::warn!("admission plugin {plugin} cannot be switched off");
            }
        }
    }
}
