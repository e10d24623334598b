//! The etcd flags of kube-apiserver.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use watchkeeper_server::EtcdOptions;

use crate::duration;

/// The etcd that stores the objects, if any.
#[derive(Clone, Debug, Args)]
pub(crate) struct EtcdFlags {
    /// Store objects in the etcd at these addresses; other servers may share it
    #[arg(
        long,
        value_name = "URL,...",
        value_delimiter = ',',
        conflicts_with = "data_dir"
    )]
    etcd_servers: Vec<String>,

    /// File with the CA certificates of etcd; by default the system's
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    etcd_cafile: Option<PathBuf>,

    /// File with the client certificate for etcd
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_keyfile"])]
    etcd_certfile: Option<PathBuf>,

    /// File with the key of that certificate
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_certfile"])]
    etcd_keyfile: Option<PathBuf>,

    /// Prefix of all keys in etcd: one per cluster
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "/registry",
        requires = "etcd_servers"
    )]
    etcd_prefix: String,

    /// Interval of etcd compaction; 0 disables it
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse, requires = "etcd_servers")]
    etcd_compaction_interval: Duration,
}

impl EtcdFlags {
    /// The options, if any flag is set.
    pub(crate) fn options(&self) -> Option<EtcdOptions> {
        if self.etcd_servers.is_empty() {
            return None;
        }
        Some(EtcdOptions {
            ca_file: self.etcd_cafile.clone(),
            cert_file: self.etcd_certfile.clone(),
            key_file: self.etcd_keyfile.clone(),
            prefix: whole(&self.etcd_prefix),
            compaction_interval: self.etcd_compaction_interval,
            ..EtcdOptions::at(self.etcd_servers.iter().map(|server| server.trim()))
        })
    }
}

/// A prefix with its slashes: `registry` would also be a prefix of `registry-of-others`.
fn whole(prefix: &str) -> String {
    match prefix.trim_matches('/') {
        "" => "/".to_owned(),
        name => format!("/{name}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_where_a_name_ends() {
        for (typed, meant) in [
            ("/registry", "/registry/"),
            ("registry/", "/registry/"),
            ("/a/b/", "/a/b/"),
            ("/", "/"),
            ("", "/"),
        ] {
            assert_eq!(whole(typed), meant);
        }
    }
}
