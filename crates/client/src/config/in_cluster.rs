//! The configuration of a pod, from its service account.

use std::path::PathBuf;

use http::Uri;

use crate::config::kubeconfig::{Cluster, NamedCluster, NamedUser, User};
use crate::config::overrides::absolute;
use crate::config::select::Selected;
use crate::config::{Config, ConfigError, Environment};

impl Config {
    /// Reads the environment and the service account directory of a pod.
    pub fn in_cluster(environment: &Environment) -> Result<Self, ConfigError> {
        Self::resolve(Selected::in_cluster(environment)?, environment)
    }
}

impl Selected {
    /// The server and the user of a pod, as a kubeconfig would describe them.
    pub(super) fn in_cluster(environment: &Environment) -> Result<Self, ConfigError> {
        let directory = absolute(&environment.service_account);
        let (server, token) = (server(environment)?, directory.join("token"));
        if !token.is_file() {
            return Err(ConfigError::NotInCluster {
                reason: format!("{} does not exist", token.display()),
            });
        }
        Ok(Self {
            cluster: NamedCluster {
                name: "in-cluster".to_owned(),
                cluster: Cluster {
                    server: Some(server),
                    certificate_authority: existing(directory.join("ca.crt")),
                    ..Default::default()
                },
                origin: directory.clone(),
            },
            user: NamedUser {
                name: "service account".to_owned(),
                user: User {
                    token_file: Some(token),
                    ..Default::default()
                },
                origin: directory,
            },
            namespace: Some(namespace(environment)),
        })
    }
}

fn server(environment: &Environment) -> Result<String, ConfigError> {
    let host = required(environment, "KUBERNETES_SERVICE_HOST")?;
    let port = required(environment, "KUBERNETES_SERVICE_PORT")?;
    // An IPv6 address needs brackets in a URL.
    let server = match host.contains(':') {
        true => format!("https://[{host}]:{port}"),
        false => format!("https://{host}:{port}"),
    };
    match server.parse::<Uri>() {
        Ok(_) => Ok(server),
        Err(error) => Err(ConfigError::NotInCluster {
            reason: format!("KUBERNETES_SERVICE_HOST and _PORT do not make a URL: {error}"),
        }),
    }
}

fn required<'a>(environment: &'a Environment, name: &str) -> Result<&'a str, ConfigError> {
    environment.get(name).ok_or_else(|| ConfigError::NotInCluster {
        reason: format!("{name} is not set"),
    })
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

/// `$POD_NAMESPACE`, else the service account's, else `default`.
fn namespace(environment: &Environment) -> String {
    if let Some(namespace) = environment.get("POD_NAMESPACE") {
        return namespace.to_owned();
    }
    match std::fs::read_to_string(environment.service_account.join("namespace")) {
        Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "default".to_owned(),
    }
}
