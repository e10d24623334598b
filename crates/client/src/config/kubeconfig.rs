//! The kubeconfig file as written: clusters, users, contexts and the current context.
//!
//! Several files merge as in client-go: whole entries, and the first file to name one wins. Nothing is resolved here:
//! paths stay relative and data stays base64 until [`Config::from_kubeconfig`](super::Config::from_kubeconfig) picks
//! a context, so that a file can be written back unchanged.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Secret;
use crate::config::ConfigError;
use crate::nulls::null_is_default;

/// One kubeconfig file, or several merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Kubeconfig {
    /// `v1`; files without it are read as `v1`.
    #[serde(rename = "apiVersion", skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `Config`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Servers by name; `null`, as `kubectl config` writes an empty list, is empty.
    #[serde(deserialize_with = "null_is_default")]
    pub clusters: Vec<NamedCluster>,
    /// Credentials by name.
    #[serde(deserialize_with = "null_is_default")]
    pub users: Vec<NamedUser>,
    /// Pairs of a cluster and a user by name.
    #[serde(deserialize_with = "null_is_default")]
    pub contexts: Vec<NamedContext>,
    /// The context used if none is requested.
    #[serde(deserialize_with = "null_is_default")]
    pub current_context: String,
    /// Settings of other tools, kept for writing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferences: Option<Value>,
    /// Data of other tools, kept for writing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

/// An entry of `clusters`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedCluster {
    /// Its name in contexts.
    pub name: String,
    /// The server.
    #[serde(default, deserialize_with = "null_is_default")]
    pub cluster: Cluster,
    /// The file of the entry; relative paths start there.
    #[serde(skip)]
    pub origin: PathBuf,
}

/// An entry of `users`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedUser {
    /// Its name in contexts.
    pub name: String,
    /// The credentials.
    #[serde(default, deserialize_with = "null_is_default")]
    pub user: User,
    /// The file of the entry; relative paths start there.
    #[serde(skip)]
    pub origin: PathBuf,
}

/// An entry of `contexts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedContext {
    /// Its name in `current-context`.
    pub name: String,
    /// The cluster and the user.
    #[serde(default, deserialize_with = "null_is_default")]
    pub context: Context,
    /// The file of the entry.
    #[serde(skip)]
    pub origin: PathBuf,
}

/// The address and trust settings of one server.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cluster {
    /// The server's URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The name expected in the server's certificate instead of the URL's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Trust any certificate. Credentials may go to an impostor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// File with the trusted certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<PathBuf>,
    /// The trusted certificates, PEM in base64; takes precedence over the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// Proxy for this server: `http`, `https` or `socks5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// Do not request compressed answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_compression: Option<bool>,
    /// Data of other tools, kept for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

/// The credentials of a user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct User {
    /// File with the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<PathBuf>,
    /// The client certificate, PEM in base64; takes precedence over the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_data: Option<String>,
    /// File with the private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    /// The private key, PEM in base64; takes precedence over the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_data: Option<Secret>,
    /// Bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// File with a bearer token, read again when it changes; takes precedence over the token.
    #[serde(default, rename = "tokenFile", skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// User to impersonate.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub impersonate: Option<String>,
    /// Uid to impersonate.
    #[serde(default, rename = "as-uid", skip_serializing_if = "Option::is_none")]
    pub impersonate_uid: Option<String>,
    /// Groups to impersonate.
    #[serde(
        default,
        rename = "as-groups",
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub impersonate_groups: Vec<String>,
    /// Extra attributes to impersonate.
    #[serde(
        default,
        rename = "as-user-extra",
        deserialize_with = "null_is_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub impersonate_extra: BTreeMap<String, Vec<String>>,
    /// User name for basic authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password for basic authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// A legacy auth provider; reported in an error, never used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_provider: Option<AuthProvider>,
    /// A program that prints credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecConfig>,
    /// Data of other tools, kept for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

/// A legacy auth provider as the file has it, kept for writing. Its settings contain tokens, so only its name prints.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AuthProvider(pub Value);

/// A credential plugin. Its arguments do not print: some are secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecConfig {
    /// `client.authentication.k8s.io/v1` or `…/v1beta1`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub api_version: String,
    /// The program; a relative path with a separator starts at the kubeconfig's directory.
    #[serde(default, deserialize_with = "null_is_default")]
    pub command: String,
    /// Its arguments.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub args: Vec<String>,
    /// Variables added to its environment.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub env: Vec<ExecVariable>,
    /// The hint shown if the program is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_hint: Option<String>,
    /// True if the program is given the cluster information.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_false"
    )]
    pub provide_cluster_info: bool,
    /// The use of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interactive_mode: Option<InteractiveMode>,
}

/// The use of the terminal by an exec plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InteractiveMode {
    /// It never reads standard input.
    Never,
    /// It reads standard input if that is a terminal.
    IfAvailable,
    /// It cannot run without a terminal.
    Always,
}

/// An environment variable of an exec plugin. Its value prints as a secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecVariable {
    /// Name.
    pub name: String,
    /// Value.
    pub value: Secret,
}

/// A cluster and a user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Name of an entry of `clusters`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub cluster: String,
    /// Name of an entry of `users`.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub user: String,
    /// Namespace used if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Data of other tools, kept for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

impl AuthProvider {
    /// The name of the entry.
    pub fn name(&self) -> &str {
        self.0.get("name").and_then(Value::as_str).unwrap_or_default()
    }
}

impl fmt::Debug for AuthProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuthProvider").field(&self.name()).finish()
    }
}

impl fmt::Debug for ExecConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecConfig")
            .field("api_version", &self.api_version)
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env)
            .field("interactive_mode", &self.interactive_mode)
            .field("provide_cluster_info", &self.provide_cluster_info)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Cluster {
    /// Omits data of other tools and the proxy, whose URL may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("server", &self.server)
            .field("tls_server_name", &self.tls_server_name)
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("certificate_authority", &self.certificate_authority)
            .field("has_proxy", &self.proxy_url.is_some())
            .finish_non_exhaustive()
    }
}

impl Kubeconfig {
    /// Reads the value tree of one file; `path` appears in errors.
    pub fn from_value(value: Value, path: &Path) -> Result<Self, ConfigError> {
        // An empty file is an empty configuration; `kubectl config` leaves such files behind.
        if value.is_null() {
            return Ok(Self::default());
        }
        let mut config: Self =
            serde_path_to_error::deserialize(value).map_err(|error| ConfigError::Field {
                path: path.to_owned(),
                field: error.path().to_string(),
                reason: error.inner().to_string(),
            })?;
        config.mark_origin(path);
        config.refuse_duplicates(path)?;
        Ok(config)
    }

    /// Adds the entries of `later` that are missing here; an entry or scalar already present stays whole.
    pub fn merge(&mut self, later: Self) {
        fn absorb<T>(kept: &mut Vec<T>, later: Vec<T>, name: fn(&T) -> &str) {
            for entry in later {
                if !kept.iter().any(|present| name(present) == name(&entry)) {
                    kept.push(entry);
                }
            }
        }
        absorb(&mut self.clusters, later.clusters, |entry| &entry.name);
        absorb(&mut self.users, later.users, |entry| &entry.name);
        absorb(&mut self.contexts, later.contexts, |entry| &entry.name);
        if self.current_context.is_empty() {
            self.current_context = later.current_context;
        }
        self.preferences = self.preferences.take().or(later.preferences);
        self.extensions = self.extensions.take().or(later.extensions);
    }

    /// True if there is no cluster, user, context or current context.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
            && self.users.is_empty()
            && self.contexts.is_empty()
            && self.current_context.is_empty()
    }

    fn mark_origin(&mut self, path: &Path) {
        self.clusters
            .iter_mut()
            .for_each(|entry| entry.origin = path.to_owned());
        self.users
            .iter_mut()
            .for_each(|entry| entry.origin = path.to_owned());
        self.contexts
            .iter_mut()
            .for_each(|entry| entry.origin = path.to_owned());
    }

    /// Refuses two entries of one name in one file: it is ambiguous.
    fn refuse_duplicates(&self, path: &Path) -> Result<(), ConfigError> {
        let names: [(&str, Vec<&str>); 3] = [
            (
                "clusters",
                self.clusters.iter().map(|entry| &*entry.name).collect(),
            ),
            ("users", self.users.iter().map(|entry| &*entry.name).collect()),
            (
                "contexts",
                self.contexts.iter().map(|entry| &*entry.name).collect(),
            ),
        ];
        for (field, names) in names {
            for (index, name) in names.iter().enumerate() {
                if names[..index].contains(name) {
                    return Err(ConfigError::Field {
                        path: path.to_owned(),
                        field: format!("{field}[{index}].name"),
                        reason: format!("duplicate name {name:?}"),
                    });
                }
            }
        }
        Ok(())
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Kubeconfig, ConfigError> {
        Kubeconfig::from_value(value, Path::new("/tmp/config"))
    }

    #[test]
    fn the_first_file_to_name_an_entry_wins_whole() {
        let mut first = read(json!({
            "users": [{"name": "dev", "user": {"token": "a"}}],
            "contexts": null,
        }))
        .unwrap();
        let second = read(json!({
            "current-context": "c",
            "users": [{"name": "dev", "user": {"username": "u"}}, {"name": "ops", "user": null}],
        }))
        .unwrap();
        first.merge(second);
        assert_eq!(first.current_context, "c");
        let names: Vec<_> = first.users.iter().map(|user| &*user.name).collect();
        assert_eq!(names, ["dev", "ops"]);
        assert_eq!(first.users[0].user.username, None);
    }

    #[test]
    fn errors_name_file_and_field() {
        let check = |value, text: &str| assert_eq!(read(value).unwrap_err().to_string(), text);
        check(
            json!({"clusters": [{"name": "a", "cluster": {"server": 7}}]}),
            "/tmp/config: clusters[0].cluster.server: invalid type: integer `7`, expected a string",
        );
        check(
            json!({"users": [{"name": "a"}, {"name": "a"}]}),
            "/tmp/config: users[1].name: duplicate name \"a\"",
        );
        check(
            json!({"users": [{"user": {}}]}),
            "/tmp/config: users[0]: missing field `name`",
        );
    }

    #[test]
    fn data_of_other_tools_survives_a_round_trip() {
        let value = json!({
            "apiVersion": "v1", "kind": "Config", "preferences": {"colors": true}, "current-context": "c",
            "clusters": [{"name": "a", "cluster": {"server": "https://a", "extensions": [{"name": "x"}]}}],
            "users": [{"name": "u", "user": {"token": "t", "as-groups": ["g"]}}],
            "contexts": [{"name": "c", "context": {"cluster": "a", "user": "u"}}],
        });
        let config = read(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&config).unwrap(), value);
        assert!(!format!("{config:?}").contains("\"t\""));
    }

    #[test]
    fn nothing_secret_prints() {
        let config = read(json!({
            "clusters": [{"name": "a", "cluster": {"server": "https://a", "proxy-url": "http://me:hunter2@proxy"}}],
            "users": [{"name": "u", "user": {
                "token": "hunter2", "password": "hunter2", "client-key-data": "hunter2",
                "auth-provider": {"name": "oidc", "config": {"refresh-token": "hunter2"}},
                "exec": {
                    "apiVersion": "v1", "command": "login", "args": ["--secret", "hunter2"],
                    "env": [{"name": "SECRET", "value": "hunter2"}],
                },
            }}],
        }));
        let shown = format!("{:?}", config.unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("AuthProvider(\"oidc\")"), "{shown}");
    }
}
