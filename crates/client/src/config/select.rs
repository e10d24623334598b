//! Selects the cluster and the user of a context, with the overrides of the command line.
//!
//! Takes a merged kubeconfig; returns one cluster, one user and a namespace, not yet resolved.

use crate::config::kubeconfig::{Context, NamedCluster, NamedUser};
use crate::config::load::join;
use crate::config::overrides::{Overrides, override_cluster, override_user};
use crate::config::{ConfigError, Kubeconfig};

/// The path shown for settings of the command line.
const COMMAND_LINE: &str = "command line";

/// One server, one user and a namespace, as in the files.
pub(super) struct Selected {
    pub(super) cluster: NamedCluster,
    pub(super) user: NamedUser,
    pub(super) namespace: Option<String>,
}

impl Selected {
    /// The entries of the chosen context.
    pub(super) fn from_kubeconfig(
        kubeconfig: &Kubeconfig,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        let context = context(kubeconfig, overrides)?;
        Ok(Self {
            cluster: cluster(kubeconfig, &context, overrides)?,
            user: user(kubeconfig, &context, overrides)?,
            namespace: context.namespace,
        })
    }

    /// Applies the settings of the command line.
    pub(super) fn with_overrides(mut self, overrides: &Overrides) -> Self {
        override_cluster(&mut self.cluster.cluster, overrides);
        override_user(&mut self.user.user, overrides);
        self.namespace = overrides.namespace.clone().or(self.namespace);
        self
    }
}

/// The context by name; an empty one if the command line names a cluster or a server itself.
fn context(kubeconfig: &Kubeconfig, overrides: &Overrides) -> Result<Context, ConfigError> {
    let name = overrides.context.as_deref();
    match name.unwrap_or(&kubeconfig.current_context) {
        "" if overrides.server.is_some() || overrides.cluster.is_some() => Ok(Context::default()),
        "" => Err(ConfigError::NoContext {
            known: join(kubeconfig.contexts.iter().map(|entry| &entry.name)),
        }),
        name => {
            let entry = find("context", name, &kubeconfig.contexts, |entry| &entry.name)?;
            Ok(entry.context.clone())
        }
    }
}

/// The cluster of a context may be missing if the command line names the server.
fn cluster(
    kubeconfig: &Kubeconfig,
    context: &Context,
    overrides: &Overrides,
) -> Result<NamedCluster, ConfigError> {
    let name = overrides.cluster.as_deref().unwrap_or(&context.cluster);
    match find("cluster", name, &kubeconfig.clusters, |entry| &entry.name) {
        Ok(entry) => Ok(entry.clone()),
        Err(error) if !name.is_empty() && (overrides.cluster.is_some() || overrides.server.is_none()) => {
            Err(error)
        }
        Err(_) => Ok(NamedCluster {
            name: COMMAND_LINE.into(),
            origin: COMMAND_LINE.into(),
            ..Default::default()
        }),
    }
}

/// The user of a context may be missing, as in client-go; the client is then anonymous. The user may be in a file of
/// another machine, and a token may come from the command line.
fn user(kubeconfig: &Kubeconfig, context: &Context, overrides: &Overrides) -> Result<NamedUser, ConfigError> {
    let name = overrides.user.as_deref().unwrap_or(&context.user);
    match find("user", name, &kubeconfig.users, |entry| &entry.name) {
        Ok(entry) => Ok(entry.clone()),
        Err(error) if overrides.user.is_some() => Err(error),
        Err(error) => {
            if !name.is_empty() {
                tracing::warn!(%error, "continuing without the context's user");
            }
            Ok(NamedUser {
                name: COMMAND_LINE.into(),
                origin: COMMAND_LINE.into(),
                ..Default::default()
            })
        }
    }
}

fn find<'a, T>(
    what: &'static str,
    wanted: &str,
    entries: &'a [T],
    name: fn(&T) -> &String,
) -> Result<&'a T, ConfigError> {
    entries
        .iter()
        .find(|entry| name(entry) == wanted)
        .ok_or_else(|| ConfigError::Unknown {
            what,
            name: wanted.to_owned(),
            known: join(entries.iter().map(name)),
        })
}
