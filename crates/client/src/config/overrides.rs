//! Settings of the command line, which override the files.

use std::path::{Path, PathBuf};

use crate::Secret;
use crate::config::Impersonate;
use crate::config::kubeconfig::{Cluster, User};

/// Settings of the command line, which override the files. `None` and empty keep the files' settings.
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
    /// `--client-certificate`; needs a key.
    pub client_certificate: Option<PathBuf>,
    /// `--client-key`.
    pub client_key: Option<PathBuf>,
    /// `--token`: replaces token, token file and exec plugin.
    pub token: Option<Secret>,
    /// `--username`; needs a password.
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

/// Paths of the command line are relative to the working directory, not to the kubeconfig.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
