//! The arguments that select the cluster of a command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::duration;

/// The cluster and the user.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArguments {
    /// The kubeconfig file to use instead of $KUBECONFIG and ~/.kube/config; `up` writes it
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The kubeconfig context to use
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,

    /// The kubeconfig cluster to use
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) cluster: Option<String>,

    /// The kubeconfig user to use
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) user: Option<String>,

    /// The namespace of the request
    #[arg(short, long, value_name = "NAME", global = true)]
    pub(crate) namespace: Option<String>,

    /// The address of the API server
    #[arg(short, long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,

    /// Bearer token for the API server
    #[arg(long, value_name = "TOKEN", global = true)]
    pub(crate) token: Option<String>,

    /// User to impersonate
    #[arg(long = "as", value_name = "USER", global = true)]
    pub(crate) act_as: Option<String>,

    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", global = true)]
    pub(crate) as_groups: Vec<String>,

    /// File with the CA certificates of the API server
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// File with the client certificate
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) client_certificate: Option<PathBuf>,

    /// File with the key of the client certificate
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) client_key: Option<PathBuf>,

    /// Do not verify the certificate of the API server
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,

    /// Time limit of one request, and of a watch: 10s, 2m; 0 is none
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse, global = true)]
    pub(crate) request_timeout: Duration,
}
