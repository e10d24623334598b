//! The configuration of a pod: where its service account says the server is.

use std::path::Path;

use crate::config::{Config, ConfigError, Credentials, Environment, Material, Proxy};

impl Config {
    /// What a pod finds in its environment and its service account directory.
    pub fn in_cluster(environment: &Environment) -> Result<Self, ConfigError> {
        let host = required(environment, "KUBERNETES_SERVICE_HOST")?;
        let port = required(environment, "KUBERNETES_SERVICE_PORT")?;
        // An IPv6 address needs brackets in a URL.
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let server = format!("https://{host}:{port}")
            .parse()
            .map_err(|error| ConfigError::NotInCluster {
                reason: format!("KUBERNETES_SERVICE_HOST and _PORT do not make a URL: {error}"),
            })?;
        let token = environment.service_account.join("token");
        if !token.is_file() {
            return Err(ConfigError::NotInCluster {
                reason: format!("{} does not exist", token.display()),
            });
        }
        let mut config = Self::new(server);
        config.credentials = Credentials::TokenFile(token);
        config.tls.authority = existing(&environment.service_account.join("ca.crt"));
        config.namespace = namespace(environment);
        config.proxy = Proxy::from_environment(&config.server, environment)?;
        Ok(config)
    }
}

fn required<'a>(environment: &'a Environment, name: &str) -> Result<&'a str, ConfigError> {
    environment.get(name).ok_or_else(|| ConfigError::NotInCluster {
        reason: format!("{name} is not set"),
    })
}

fn existing(path: &Path) -> Option<Material> {
    path.is_file().then(|| Material::File(path.to_owned()))
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
