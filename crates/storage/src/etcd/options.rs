//! Where etcd is and how to speak to it.

use std::path::PathBuf;
use std::time::Duration;

/// How a store finds its etcd. The names are those of kube-apiserver's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// `http://host:port` or `https://host:port` of each member. Another one is tried when one does not answer.
    pub servers: Vec<String>,
    /// The authority that has signed the members' certificates, PEM; the system's if not given.
    pub ca_file: Option<PathBuf>,
    /// The certificate to show, PEM. Read anew for every connection, so that it can be renewed.
    pub cert_file: Option<PathBuf>,
    /// The key of that certificate, PEM.
    pub key_file: Option<PathBuf>,
    /// What all keys begin with in etcd. Nobody but servers of one cluster may write there.
    pub prefix: String,
    /// What all keys of the store begin with: it is left out, and the prefix stands in its place.
    pub replaces: String,
    /// How often history is compacted. It reaches back for between one and two of these. Zero: never, somebody else does.
    pub compaction_interval: Duration,
}

impl EtcdOptions {
    /// Where kube-apiserver keeps its keys.
    pub const DEFAULT_PREFIX: &str = "/registry/";
    /// 5 minutes, as kube-apiserver.
    pub const DEFAULT_COMPACTION_INTERVAL: Duration = Duration::from_secs(5 * 60);

    /// The etcd at these addresses, with nothing else said.
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
