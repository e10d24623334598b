//! What a command line says, over what the files say.

use std::path::{Path, PathBuf};

use crate::Secret;
use crate::config::Impersonate;
use crate::config::kubeconfig::{Cluster, User};

/// What a command line says, over what the files say. `None` and empty mean "as the files have it".
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--context`.
    pub context: Option<String>,
    /// `--cluster`: an entry of `clusters` instead of the context's.
    pub cluster: Option<String>,
    /// `--user`: an entry of `users` instead of the context's.
    pub user: Option<String>,
    /// `--namespace`.
    pub namespace: Option<String>,
    /// `--server`. The files' `tls-server-name` no longer applies.
    pub server: Option<String>,
    /// `--certificate-authority`: replaces the files' authority.
    pub certificate_authority: Option<PathBuf>,
    /// `--insecure-skip-tls-verify`: drops the files' authority.
    pub insecure_skip_tls_verify: Option<bool>,
    /// `--tls-server-name`.
    pub tls_server_name: Option<String>,
    /// `--client-certificate`; comes with a key.
    pub client_certificate: Option<PathBuf>,
    /// `--client-key`.
    pub client_key: Option<PathBuf>,
    /// `--token`: replaces token, token file and exec plugin.
    pub token: Option<Secret>,
    /// `--username`; comes with a password.
    pub username: Option<String>,
    /// `--password`.
    pub password: Option<Secret>,
    /// `--as`, `--as-uid`, `--as-group`.
    pub impersonate: Impersonate,
}

pub(super) fn override_cluster(cluster: &mut Cluster, overrides: &Overrides) {
    if let Some(server) = &overrides.server {
        cluster.server = Some(server.clone());
        cluster.tls_server_name = None;
    }
    if overrides.certificate_authority.is_some() || overrides.insecure_skip_tls_verify == Some(true) {
        cluster.certificate_authority = overrides.certificate_authority.as_deref().map(absolute);
        cluster.certificate_authority_data = None;
        cluster.insecure_skip_tls_verify = None;
    }
    if let Some(insecure) = overrides.insecure_skip_tls_verify {
        cluster.insecure_skip_tls_verify = Some(insecure);
    }
    if let Some(name) = &overrides.tls_server_name {
        cluster.tls_server_name = Some(name.clone());
    }
}

pub(super) fn override_user(user: &mut User, overrides: &Overrides) {
    if let Some(certificate) = &overrides.client_certificate {
        user.client_certificate = Some(absolute(certificate));
        user.client_certificate_data = None;
    }
    if let Some(key) = &overrides.client_key {
        user.client_key = Some(absolute(key));
        user.client_key_data = None;
    }
    // One way to authenticate replaces every other: what was typed must be what is used.
    if overrides.token.is_some() || overrides.username.is_some() {
        user.token = overrides.token.clone();
        user.token_file = None;
        user.exec = None;
        user.auth_provider = None;
        user.username = overrides.username.clone();
        user.password = overrides.password.clone();
    }
    let Impersonate {
        user: name,
        uid,
        groups,
        extra,
    } = &overrides.impersonate;
    if !overrides.impersonate.is_empty() {
        user.impersonate = Some(name.clone());
        user.impersonate_uid = Some(uid.clone());
        user.impersonate_groups.clone_from(groups);
        user.impersonate_extra.clone_from(extra);
    }
}

/// Paths of a command line start at the working directory, not at the kubeconfig's.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
