//! The arguments that say which cluster a command talks to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::duration;

/// Which cluster, as whom.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArguments {
    /// The kubeconfig file to use instead of $KUBECONFIG and ~/.kube/config; `up` writes it
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The kubeconfig context to use
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) context: Option<String>,

    /// The namespace of the request
    #[arg(short, long, value_name = "NAME", global = true)]
    pub(crate) namespace: Option<String>,

    /// The address of the API server
    #[arg(short, long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,

    /// The bearer token to show to the API server
    #[arg(long, value_name = "TOKEN", global = true)]
    pub(crate) token: Option<String>,

    /// The user to act as
    #[arg(long = "as", value_name = "USER", global = true)]
    pub(crate) act_as: Option<String>,

    /// A group to act as; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", global = true)]
    pub(crate) as_groups: Vec<String>,

    /// Who has signed the certificate of the API server
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// The certificate to show to the API server
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) client_certificate: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) client_key: Option<PathBuf>,

    /// Trust any certificate of the API server
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,

    /// How long one request may take, and how long to watch: 10s, 2m; 0 is forever
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse, global = true)]
    pub(crate) request_timeout: Duration,
}
