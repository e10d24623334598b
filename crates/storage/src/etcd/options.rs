//! Addresses and credentials of etcd.

use std::path::PathBuf;
use std::time::Duration;

/// The connection of a store to etcd. The names are those of kube-apiserver's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// `http://host:port` or `https://host:port` of each member. If one does not answer, the next is tried.
    pub servers: Vec<String>,
    /// The CA of the members' certificates, PEM; the system's CAs by default.
    pub ca_file: Option<PathBuf>,
    /// The client certificate, PEM. It is read for every connection, so it can be renewed.
    pub cert_file: Option<PathBuf>,
    /// The key of that certificate, PEM.
    pub key_file: Option<PathBuf>,
    /// The prefix of all keys in etcd. Only servers of one cluster may write below it.
    pub prefix: String,
    /// The prefix of all keys in the store, which is replaced by `prefix`.
    pub replaces: String,
    /// The compaction interval. History reaches back for one to two intervals. Zero disables compaction.
    pub compaction_interval: Duration,
}

impl EtcdOptions {
    /// kube-apiserver's prefix.
    pub const DEFAULT_PREFIX: &str = "/registry/";
    /// 5 minutes, as in kube-apiserver.
    pub const DEFAULT_COMPACTION_INTERVAL: Duration = Duration::from_secs(5 * 60);

    /// The etcd at these addresses, with defaults otherwise.
    pub fn at(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            prefix: Self::DEFAULT_PREFIX.to_owned(),
            replaces: String::new(),
            compaction_interval: Self::DEFAULT_COMPACTION_INTERVAL,
        }
    }
}
