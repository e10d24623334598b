//! Where etcd is, as the flags of kube-apiserver say it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use watchkeeper_server::EtcdOptions;

use crate::duration;

/// Which etcd keeps the objects, if one does.
#[derive(Clone, Debug, Args)]
pub(crate) struct EtcdFlags {
    /// Keep objects in the etcd at these addresses; other servers may share it
    #[arg(
        long,
        value_name = "URL,...",
        value_delimiter = ',',
        conflicts_with = "data_dir"
    )]
    etcd_servers: Vec<String>,

    /// Who has signed etcd's certificates; the system's authorities if not given
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    etcd_cafile: Option<PathBuf>,

    /// The certificate to show to etcd
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_keyfile"])]
    etcd_certfile: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_certfile"])]
    etcd_keyfile: Option<PathBuf>,

    /// What all keys in etcd begin with: one for each cluster
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "/registry",
        requires = "etcd_servers"
    )]
    etcd_prefix: String,

    /// How often etcd's history is compacted; 0 if somebody else does it
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse, requires = "etcd_servers")]
    etcd_compaction_interval: Duration,
}

impl EtcdFlags {
    /// What the flags say, if they say anything.
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

/// A prefix with the slashes it is meant to have: `registry` would also be what `registry-of-others` begins with.
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
