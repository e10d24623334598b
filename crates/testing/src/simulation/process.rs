//! A process of a simulation: a controller's connection to the cluster, one life after the other.

use std::sync::Arc;

use watchkeeper_client::{Client, ClientOptions, Config, ConfigError, InProcess};
use watchkeeper_server::{Line, User};

use crate::unlimited;

/// The group with all permissions.
const MASTERS: &str = "system:masters";

/// One life of a process. When it crashes, its connections break and no new ones can be opened, so that tasks it
/// leaves behind reach nobody.
#[derive(Clone, Debug)]
pub struct Process {
    name: Arc<str>,
    life: u32,
    line: Line,
}

impl Process {
    pub(super) fn new(name: Arc<str>, life: u32, line: Line) -> Self {
        Self { name, life, line }
    }

    /// Its name, also its user name at the server. Replicas have one each.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of this start, from 1.
    pub fn life(&self) -> u32 {
        self.life
    }

    /// A client with all permissions and no rate limit.
    pub fn client(&self) -> Client {
        let client = self.client_with(unlimited());
        client.unwrap_or_else(|_| unreachable!("the default options are accepted"))
    }

    /// A client with other options.
    pub fn client_with(&self, options: ClientOptions) -> Result<Client, ConfigError> {
        client_on(&self.line, options)
    }

    /// [kube](https://kube.rs)'s client.
    #[cfg(feature = "kube")]
    pub fn kube_client(&self) -> kube::Client {
        self.line.kube_client()
    }
}

/// The server's user for a process.
pub(super) fn user_of(name: &str) -> User {
    User::authenticated(name, "", vec![MASTERS.to_owned()])
}

fn client_on(line: &Line, options: ClientOptions) -> Result<Client, ConfigError> {
    let line = line.clone();
    let pipes = InProcess::new(move || {
        let line = line.clone();
        async move { line.connect().await }
    });
    let config = Config::new(http::Uri::from_static("http://localhost"));
    Client::in_process_as(pipes, &config, options)
}
