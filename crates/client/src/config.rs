//! Where the server is and who we are: from kubeconfig files, the environment or the service account of a pod.
//!
//! In flow files and variables, out flows a [`Config`]. Everything is read from an explicit [`Environment`], so a
//! test needs no global state. No connection is opened and no credential is proven here; files that may rotate
//! (tokens, certificates) stay paths and are read when they are used.
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

/// Everything needed to reach one server as one user.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server: scheme, host, port and an optional path in front of every request's path.
    pub server: Uri,
    /// The namespace used when none is asked for.
    pub namespace: String,
    /// Whom to trust, and the client certificate.
    pub tls: TlsConfig,
    /// What goes into the `Authorization` header.
    pub credentials: Credentials,
    /// Whom to act as.
    pub impersonate: Impersonate,
    /// The proxy between us and the server.
    pub proxy: Option<Proxy>,
    /// Whether answers may come compressed.
    pub compression: bool,
}

/// Whom to trust, and the certificate to show.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// The trusted certificates; `None` means those of the operating system.
    pub authority: Option<Material>,
    /// The name to expect in the server's certificate; `None` means the URL's host.
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

/// Something that is either here or in a file. Files are read again when they change.
#[derive(Clone, PartialEq, Eq)]
pub enum Material {
    /// The bytes themselves.
    Inline(Arc<[u8]>),
    /// Where the bytes are.
    File(PathBuf),
}

/// What goes into the `Authorization` header.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// Nothing: a client certificate may still say who we are.
    #[default]
    Anonymous,
    /// A bearer token that does not change.
    Token(Secret),
    /// A file with a bearer token, read again as it changes.
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The token for as long as the file cannot be read, as client-go has it where a kubeconfig names both.
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

/// A credential plugin and what it is told.
#[derive(Clone, Default)]
pub struct ExecCredentials {
    /// The program and how to call it.
    pub plugin: ExecConfig,
    /// The cluster, as the plugin's protocol describes it; `None` if it shall not know.
    pub cluster: Option<serde_json::Value>,
}

/// Whom to act as, if the server allows it. All empty: ourselves.
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

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file asked for does not exist.
    #[error("kube config file not found: {}", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// A file is there but cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is neither YAML nor JSON.
    #[error("{}: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// One field is wrong.
    #[error("{}: {field}: {reason}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field, as `users[dev].user.client-key-data`.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A context, cluster or user is asked for that no file has.
    #[error("{what} {name:?} is in no kubeconfig file; there are: {known}")]
    Unknown {
        /// `context`, `cluster` or `user`.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No context is current and none was asked for.
    #[error("no current context is set; there are: {known}")]
    NoContext {
        /// The names there are.
        known: String,
    },
    /// Nothing was found anywhere.
    #[error("no configuration: no kubeconfig file ({looked}) and no service account")]
    Nothing {
        /// The places where files were expected.
        looked: String,
    },
    /// In-cluster configuration was asked for outside a cluster.
    #[error("not in a cluster: {reason}")]
    NotInCluster {
        /// What is missing.
        reason: String,
    },
    /// Certificates, keys or a name that TLS cannot use.
    #[error("{what}: {reason}")]
    Tls {
        /// Which of them, with its file.
        what: String,
        /// Why.
        reason: String,
    },
    /// A setting contradicts another or cannot be used.
    #[error("{field}: {reason}")]
    Invalid {
        /// The setting.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Config {
    /// A server and nobody in particular; fill in the rest.
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
    /// Whether we act as ourselves.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Material {
    /// The bytes as they are now; `what` names them in errors.
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
    /// Without what the plugin is told, which may include settings only it should see.
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
