//! Resolves a merged kubeconfig and overrides into a [`Config`].
//!
//! Paths become absolute, data is decoded, and contradictions are refused with their file and field.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use serde_json::{Value, json};

use crate::Secret;
use crate::config::kubeconfig::{Cluster, NamedCluster, NamedUser, User};
use crate::config::overrides::{Overrides, absolute};
use crate::config::select::Selected;
use crate::config::{
    Config, ConfigError, Credentials, Environment, ExecConfig, ExecCredentials, IdentityConfig, Impersonate,
    InteractiveMode, Kubeconfig, Material, Proxy, TlsConfig,
};

impl Config {
    /// Picks the context and resolves its cluster and user.
    pub fn from_kubeconfig(
        kubeconfig: &Kubeconfig,
        overrides: &Overrides,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let selected = Selected::from_kubeconfig(kubeconfig, overrides)?;
        Self::resolve(selected.with_overrides(overrides), environment)
    }

    /// Resolves a cluster and a user.
    pub(super) fn resolve(selected: Selected, environment: &Environment) -> Result<Self, ConfigError> {
        let Selected {
            cluster,
            user,
            namespace,
        } = selected;
        let tls = TlsConfig {
            authority: authority(&cluster)?,
            server_name: cluster
                .cluster
                .tls_server_name
                .clone()
                .filter(|name| !name.is_empty()),
            insecure_skip_verify: cluster.cluster.insecure_skip_tls_verify.unwrap_or(false),
            identity: identity(&user)?,
        };
        let server = server(&cluster, &tls)?;
        Ok(Self {
            namespace: namespace
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "default".to_owned()),
            tls,
            credentials: credentials(&user, &cluster)?,
            impersonate: impersonate(&user.user),
            proxy: match cluster.cluster.proxy_url.as_deref() {
                None | Some("") => Proxy::from_environment(&server, environment)?,
                Some(url) => Some(Proxy::parse(url)?),
            },
            compression: !cluster.cluster.disable_compression.unwrap_or(false),
            server,
        })
    }
}

/// The server's URL. A bare `host:port` means plain HTTP, or HTTPS if there are any certificate settings, as in
/// client-go.
fn server(cluster: &NamedCluster, tls: &TlsConfig) -> Result<Uri, ConfigError> {
    let field = |reason: String| cluster_field(cluster, "server", reason);
    let text = cluster.cluster.server.as_deref().unwrap_or_default();
    if text.is_empty() {
        return Err(field("is empty".to_owned()));
    }
    let text = if text.contains("://") {
        text.to_owned()
    } else if tls.authority.is_some() || tls.identity.is_some() || tls.insecure_skip_verify {
        format!("https://{text}")
    } else {
        format!("http://{text}")
    };
    let uri: Uri = text
        .parse()
        .map_err(|error| field(format!("{text:?} is not a URL: {error}")))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some() => Ok(uri),
        _ => Err(field(format!("{text:?} must begin with https:// or http://"))),
    }
}

fn authority(cluster: &NamedCluster) -> Result<Option<Material>, ConfigError> {
    let Cluster {
        certificate_authority,
        certificate_authority_data,
        ..
    } = &cluster.cluster;
    let authority = match (certificate_authority_data.as_deref(), certificate_authority) {
        (Some(data), _) if !data.is_empty() => Some(
            decode(data).map_err(|reason| cluster_field(cluster, "certificate-authority-data", reason))?,
        ),
        (_, Some(path)) if !path.as_os_str().is_empty() => Some(beside(&cluster.origin, path)),
        _ => None,
    };
    if authority.is_some() && cluster.cluster.insecure_skip_tls_verify == Some(true) {
        let reason = "a certificate authority and no verification exclude each other";
        return Err(cluster_field(
            cluster,
            "insecure-skip-tls-verify",
            reason.to_owned(),
        ));
    }
    Ok(authority)
}

fn identity(entry: &NamedUser) -> Result<Option<IdentityConfig>, ConfigError> {
    let User {
        client_certificate,
        client_certificate_data,
        client_key,
        client_key_data,
        ..
    } = &entry.user;
    let material = |field, data: Option<&str>, path: &Option<PathBuf>| match (data, path) {
        (Some(data), _) if !data.is_empty() => decode(data)
            .map(Some)
            .map_err(|reason| user_field(entry, field, reason)),
        (_, Some(path)) if !path.as_os_str().is_empty() => Ok(Some(beside(&entry.origin, path))),
        _ => Ok(None),
    };
    let certificate = material(
        "client-certificate-data",
        client_certificate_data.as_deref(),
        client_certificate,
    )?;
    let key = material(
        "client-key-data",
        client_key_data.as_ref().map(Secret::expose),
        client_key,
    )?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(IdentityConfig { certificate, key })),
        (Some(_), None) => Err(user_field(
            entry,
            "client-key",
            "is missing, and there is a client-certificate".to_owned(),
        )),
        // A key without a certificate is ignored, as in client-go.
        (None, _) => Ok(None),
    }
}

fn credentials(entry: &NamedUser, cluster: &NamedCluster) -> Result<Credentials, ConfigError> {
    let user = &entry.user;
    let token = user.token.as_ref().filter(|token| !token.is_empty());
    let token_file = user
        .token_file
        .as_ref()
        .filter(|path| !path.as_os_str().is_empty());
    let username = user.username.as_deref().filter(|name| !name.is_empty());
    if username.is_some() && (token.is_some() || token_file.is_some()) {
        let reason = "a user name and a token exclude each other";
        return Err(user_field(entry, "username", reason.to_owned()));
    }
    if let Some(path) = token_file {
        return Ok(Credentials::TokenFile {
            path: absolute_beside(&entry.origin, path),
            fallback: token.cloned(),
        });
    }
    if let Some(token) = token {
        return Ok(Credentials::Token(token.clone()));
    }
    if let Some(username) = username {
        return Ok(Credentials::Basic {
            username: username.to_owned(),
            password: user.password.clone().unwrap_or_default(),
        });
    }
    if let Some(exec) = &user.exec {
        let plugin = check_exec(entry, exec)?;
        let cluster = plugin
            .provide_cluster_info
            .then(|| exec_cluster(cluster))
            .transpose()?;
        return Ok(Credentials::Exec(ExecCredentials { plugin, cluster }));
    }
    if let Some(provider) = &user.auth_provider {
        let reason = format!(
            "provider {:?} is not supported; use an exec plugin",
            provider.name()
        );
        return Err(user_field(entry, "auth-provider", reason));
    }
    Ok(Credentials::Anonymous)
}

fn check_exec(entry: &NamedUser, exec: &ExecConfig) -> Result<ExecConfig, ConfigError> {
    if exec.command.is_empty() {
        return Err(user_field(entry, "exec.command", "is empty".to_owned()));
    }
    if !crate::auth::exec::API_VERSIONS.contains(&exec.api_version.as_str()) {
        let reason = format!(
            "{:?} is not supported, must be one of {}",
            exec.api_version,
            crate::auth::exec::API_VERSIONS.join(", ")
        );
        return Err(user_field(entry, "exec.apiVersion", reason));
    }
    if let Some(index) = exec.env.iter().position(|variable| variable.name.is_empty()) {
        let field = format!("exec.env[{index}].name");
        return Err(user_field(entry, &field, "is empty".to_owned()));
    }
    if entry.user.auth_provider.is_some() {
        let reason = "an exec plugin and an auth provider exclude each other";
        return Err(user_field(entry, "auth-provider", reason.to_owned()));
    }
    let mut exec = exec.clone();
    if exec.interactive_mode.is_none() {
        if exec.api_version == crate::auth::exec::API_VERSIONS[0] {
            let reason = "is required: Never, IfAvailable or Always".to_owned();
            return Err(user_field(entry, "exec.interactiveMode", reason));
        }
        exec.interactive_mode = Some(InteractiveMode::IfAvailable);
    }
    // A bare name is looked up in $PATH; a name with a separator is a path.
    if exec.command.contains(std::path::MAIN_SEPARATOR) {
        let path = absolute_beside(&entry.origin, Path::new(&exec.command));
        exec.command = path.to_string_lossy().into_owned();
    }
    Ok(exec)
}

/// The cluster information for a plugin that asks for it.
fn exec_cluster(cluster: &NamedCluster) -> Result<Value, ConfigError> {
    const EXTENSION: &str = "client.authentication.k8s.io/exec";
    let mut info = serde_json::Map::new();
    let Cluster {
        server,
        tls_server_name,
        insecure_skip_tls_verify,
        proxy_url,
        disable_compression,
        ..
    } = &cluster.cluster;
    for (field, value) in [
        ("server", json!(server)),
        ("tls-server-name", json!(tls_server_name)),
        ("insecure-skip-tls-verify", json!(insecure_skip_tls_verify)),
        ("proxy-url", json!(proxy_url)),
        ("disable-compression", json!(disable_compression)),
    ] {
        if !value.is_null() {
            info.insert(field.to_owned(), value);
        }
    }
    if let Some(authority) = authority(cluster)? {
        let bytes = authority.read("certificate authority")?;
        info.insert(
            "certificate-authority-data".to_owned(),
            json!(STANDARD.encode(bytes)),
        );
    }
    let extensions = cluster
        .cluster
        .extensions
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for extension in extensions.filter(|extension| extension["name"] == EXTENSION) {
        info.insert("config".to_owned(), extension["extension"].clone());
    }
    Ok(Value::Object(info))
}

fn impersonate(user: &User) -> Impersonate {
    Impersonate {
        user: user.impersonate.clone().unwrap_or_default(),
        uid: user.impersonate_uid.clone().unwrap_or_default(),
        groups: user.impersonate_groups.clone(),
        extra: user.impersonate_extra.clone(),
    }
}

/// Paths of a kubeconfig are relative to its directory.
fn absolute_beside(origin: &Path, path: &Path) -> PathBuf {
    match origin.parent() {
        Some(directory) if path.is_relative() => absolute(&directory.join(path)),
        _ => path.to_owned(),
    }
}

fn beside(origin: &Path, path: &Path) -> Material {
    Material::File(absolute_beside(origin, path))
}

fn decode(data: &str) -> Result<Material, String> {
    // Long data is often folded over several lines.
    let data: String = data.split_ascii_whitespace().collect();
    match STANDARD.decode(data) {
        Ok(bytes) => Ok(Material::Inline(bytes.into())),
        Err(error) => Err(format!("is not base64: {error}")),
    }
}

fn cluster_field(cluster: &NamedCluster, field: &str, reason: String) -> ConfigError {
    ConfigError::Field {
        path: cluster.origin.clone(),
        field: format!("clusters[{}].cluster.{field}", cluster.name),
        reason,
    }
}

fn user_field(user: &NamedUser, field: &str, reason: String) -> ConfigError {
    ConfigError::Field {
        path: user.origin.clone(),
        field: format!("users[{}].user.{field}", user.name),
        reason,
    }
}
