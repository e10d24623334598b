//! The files to read: an explicit path, else the list in `$KUBECONFIG`, else `~/.kube/config`, else the pod's service
//! account.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::select::Selected;
use crate::config::{Config, ConfigError, Kubeconfig, Overrides};

/// The sources of the configuration, and overrides.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Only this file; it must exist.
    pub path: Option<PathBuf>,
    /// Settings of the command line, which override the files.
    pub overrides: Overrides,
    /// Variables and well-known directories.
    pub environment: Environment,
}

/// The environment variables and the well-known directory that configuration is read from.
#[derive(Clone)]
pub struct Environment {
    /// Environment variables.
    pub variables: BTreeMap<String, String>,
    /// The service account directory of a pod.
    pub service_account: PathBuf,
}

impl Default for Environment {
    /// The environment of this process; variables that are not UTF-8 are left out.
    fn default() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            variables: std::env::vars_os().filter_map(text).collect(),
            service_account: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
        }
    }
}

impl fmt::Debug for Environment {
    /// Prints only the names of the variables: some values are secrets of other programs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys())
            .field("service_account", &self.service_account)
            .finish()
    }
}

impl Environment {
    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The files to merge by default, in order of precedence, without duplicates.
    pub fn kubeconfig_paths(&self) -> Vec<PathBuf> {
        let Some(list) = self.get("KUBECONFIG") else {
            let home = self.get("HOME").or_else(|| self.get("USERPROFILE"));
            return home
                .map(|home| Path::new(home).join(".kube/config"))
                .into_iter()
                .collect();
        };
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in std::env::split_paths(list) {
            if !path.as_os_str().is_empty() && !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }
}

impl Config {
    /// Reads the files, picks the context and applies the overrides. In a pod, the service account is used if the
    /// files have no configuration.
    pub fn load(options: &LoadOptions) -> Result<Self, ConfigError> {
        let LoadOptions {
            overrides,
            environment,
            ..
        } = options;
        let kubeconfig = Kubeconfig::load(options)?;
        match Self::from_kubeconfig(&kubeconfig, overrides, environment) {
            Err(ConfigError::NoContext { known }) => match Selected::in_cluster(environment) {
                Ok(pod) => Self::resolve(pod.with_overrides(overrides), environment),
                Err(_) if kubeconfig.is_empty() => Err(ConfigError::Nothing {
                    looked: join(options.paths().iter().map(|path| path.display())),
                }),
                Err(_) => Err(ConfigError::NoContext { known }),
            },
            result => result,
        }
    }
}

impl LoadOptions {
    /// The files to read, in order of precedence.
    fn paths(&self) -> Vec<PathBuf> {
        match &self.path {
            Some(path) => vec![path.clone()],
            None => self.environment.kubeconfig_paths(),
        }
    }
}

impl Kubeconfig {
    /// Reads and merges the files; missing files of a list are skipped.
    pub fn load(options: &LoadOptions) -> Result<Self, ConfigError> {
        if let Some(path) = &options.path {
            return Self::read(path);
        }
        let mut merged = Self::default();
        for path in options.environment.kubeconfig_paths() {
            match Self::read(&path) {
                Ok(config) => merged.merge(config),
                Err(ConfigError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(merged)
    }

    /// Reads one file, YAML or JSON.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => ConfigError::NotFound {
                path: path.to_owned(),
            },
            _ => ConfigError::Read {
                path: path.to_owned(),
                source,
            },
        })?;
        Self::from_value(super::write::parse(&text, path)?, path)
    }
}

/// `a, b, c`, or `none`.
pub(super) fn join(names: impl Iterator<Item = impl ToString>) -> String {
    let names: Vec<String> = names.map(|name| name.to_string()).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
