//! Configuration: server and user, from kubeconfig files, the environment or the service account of a pod.
//!
//! Files and variables become a [`Config`]. Everything is read from an explicit [`Environment`], so tests need no
//! global state. No connection is opened and no credential is verified here. Files that may rotate (tokens,
//! certificates) stay paths and are read when they are used.
//!
//! ```no_run
//! # fn main() -> Result<(), watchkeeper_client::ConfigError> {
//! use watchkeeper_client::{Config, LoadOptions};
//! let config = Config::load(&LoadOptions::default())?;
//! println!("{} in {}", config.server, config.namespace);
//! # Ok(())
//! # }
//! ```

mod in_cluster;
pub mod kubeconfig;
mod load;
mod overrides;
mod proxy;
mod resolve;
mod select;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;

use crate::Secret;
pub use kubeconfig::{ExecConfig, InteractiveMode, Kubeconfig};
pub use load::{Environment, LoadOptions};
pub use overrides::Overrides;
pub(crate) use proxy::is_this_machine;
pub use proxy::{Proxy, ProxyLogin};

/// The server and the user of a client.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server: scheme, host, port and an optional prefix of every path.
    pub server: Uri,
    /// The namespace used if none is given.
    pub namespace: String,
    /// Trusted authorities, and the client certificate.
    pub tls: TlsConfig,
    /// The credentials for the `Authorization` header.
    pub credentials: Credentials,
    /// The user to impersonate.
    pub impersonate: Impersonate,
    /// The proxy.
    pub proxy: Option<Proxy>,
    /// True if answers may be compressed.
    pub compression: bool,
}

/// Trusted authorities, and the client certificate.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// The trusted certificates; `None` means those of the operating system.
    pub authority: Option<Material>,
    /// The name expected in the server's certificate; `None` means the URL's host.
    pub server_name: Option<String>,
    /// Trust any certificate.
    pub insecure_skip_verify: bool,
    /// The client certificate and its key.
    pub identity: Option<IdentityConfig>,
}

/// A client certificate chain and its private key, both PEM.
#[derive(Clone, Debug)]
pub struct IdentityConfig {
    /// The chain, leaf first.
    pub certificate: Material,
    /// The key: PKCS#1, PKCS#8 or SEC1.
    pub key: Material,
}

/// Bytes, inline or in a file. Files are read again when they change.
#[derive(Clone, PartialEq, Eq)]
pub enum Material {
    /// The bytes.
    Inline(Arc<[u8]>),
    /// The file.
    File(PathBuf),
}

/// The credentials for the `Authorization` header.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// None; a client certificate may still identify the user.
    #[default]
    Anonymous,
    /// A bearer token that does not change.
    Token(Secret),
    /// A file with a bearer token, read again when it changes.
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The token used while the file cannot be read, as in client-go if a kubeconfig has both.
        fallback: Option<Secret>,
    },
    /// User name and password.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A program that prints a token, a client certificate, or both.
    Exec(ExecCredentials),
}

/// A credential plugin and its input.
#[derive(Clone, Default)]
pub struct ExecCredentials {
    /// The program and how to call it.
    pub plugin: ExecConfig,
    /// The cluster information for the plugin; `None` if it gets none.
    pub cluster: Option<serde_json::Value>,
}

/// The user to impersonate. Empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// User name.
    pub user: String,
    /// Uid.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Extra attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The reason there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The requested file does not exist.
    #[error("kube config file not found: {}", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A file is neither YAML nor JSON.
    #[error("{}: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The error and its place.
        reason: String,
    },
    /// A field is invalid.
    #[error("{}: {field}: {reason}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field, as `users[dev].user.client-key-data`.
        field: String,
        /// The error.
        reason: String,
    },
    /// The requested context, cluster or user is in no file.
    #[error("{what} {name:?} is in no kubeconfig file; there are: {known}")]
    Unknown {
        /// `context`, `cluster` or `user`.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// No context is current and none was requested.
    #[error("no current context is set; there are: {known}")]
    NoContext {
        /// The known names.
        known: String,
    },
    /// There is neither a kubeconfig file nor a service account.
    #[error("no configuration: no kubeconfig file ({looked}) and no service account")]
    Nothing {
        /// The paths that were tried.
        looked: String,
    },
    /// In-cluster configuration was requested outside a cluster.
    #[error("not in a cluster: {reason}")]
    NotInCluster {
        /// The missing part.
        reason: String,
    },
    /// Certificates, keys or a name that TLS cannot use.
    #[error("{what}: {reason}")]
    Tls {
        /// The part, with its file.
        what: String,
        /// The error.
        reason: String,
    },
    /// A setting is invalid or contradicts another.
    #[error("{field}: {reason}")]
    Invalid {
        /// The setting.
        field: &'static str,
        /// The error.
        reason: String,
    },
}

impl Config {
    /// A server without credentials; fill in the rest.
    pub fn new(server: Uri) -> Self {
        Self {
            server,
            namespace: "default".to_owned(),
            tls: TlsConfig::default(),
            credentials: Credentials::default(),
            impersonate: Impersonate::default(),
            proxy: None,
            compression: true,
        }
    }
}

impl Impersonate {
    /// True if nobody is impersonated.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Material {
    /// The current bytes; `what` names them in errors.
    pub fn read(&self, what: &'static str) -> Result<Arc<[u8]>, ConfigError> {
        match self {
            Self::Inline(bytes) => Ok(bytes.clone()),
            Self::File(path) => std::fs::read(path)
                .map(Into::into)
                .map_err(|error| ConfigError::Tls {
                    what: format!("{what} {}", path.display()),
                    reason: error.to_string(),
                }),
        }
    }
}

impl fmt::Debug for ExecCredentials {
    /// Omits the plugin's input, which may include secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecCredentials")
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("[inline]"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}
