//! The cluster of a command: a client, its resources and a namespace, from flags and files.

use std::time::Duration;

use watchkeeper_client::config::{Impersonate, Overrides};
use watchkeeper_client::discovery::ApiResource;
use watchkeeper_client::{
    Client, ClientOptions, Config, DiscoveryClient, DiscoveryOptions, DynamicApi, LoadOptions, RateLimit,
    Secret,
};
use watchkeeper_meta::{Resource, Scope};
use watchkeeper_wire::schema::resources;

use crate::cluster_arguments::ClusterArguments;
use crate::failure::Failure;
use crate::output::Output;
use crate::session::Session;

/// As in kubectl: a user waits, and asks about many kinds at once.
const RATE_LIMIT: RateLimit = RateLimit {
    qps: 50.0,
    burst: 300,
};

/// A cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) discovery: DiscoveryClient,
    /// The namespace of the request: typed, or from the context.
    pub(crate) namespace: String,
    /// True if the namespace was given on the command line, so that objects must be in it.
    pub(crate) namespace_typed: bool,
    /// The time limit of one request; `None` is no limit. The client enforces it, except for watches.
    pub(crate) request_timeout: Option<Duration>,
}

impl Cluster {
    /// Reads files and checks settings; sends no request.
    pub(crate) fn new(
        arguments: &ClusterArguments,
        verbosity: i32,
        session: &Session,
    ) -> Result<Self, Failure> {
        let client = match &session.client {
            Some(client) => client.clone(),
            None => connect(arguments, verbosity, session)?,
        };
        let typed = arguments.namespace.clone().filter(|name| !name.is_empty());
        Ok(Self {
            discovery: DiscoveryClient::new(client.clone(), DiscoveryOptions::default()),
            namespace_typed: typed.is_some(),
            namespace: typed.unwrap_or_else(|| client.default_namespace().to_owned()),
            request_timeout: request_timeout(arguments),
            client,
        })
    }

    /// Completes when a watch that starts now has reached the time limit.
    pub(crate) async fn watch_timeout(&self) {
        match self.request_timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    }

    /// The API of a resource in the request's namespace, or in all.
    pub(crate) fn objects(&self, resource: &Resource, all_namespaces: bool) -> DynamicApi {
        let api = self.client.dynamic(resource.clone());
        match all_namespaces {
            true => api.all_namespaces(),
            false => api.namespace(&self.namespace),
        }
    }

    /// True if the server says that the namespace on the command line does not exist.
    pub(crate) async fn lacks_its_namespace(&self) -> bool {
        let Some(namespaces) = resources::by_plural("", "v1", "namespaces").filter(|_| self.namespace_typed)
        else {
            return false;
        };
        let api = self.client.dynamic(namespaces.resource.clone()).metadata_only();
        matches!(api.find(&self.namespace).await, Ok(None))
    }

    /// The resource of a typed word.
    pub(crate) async fn resource(&self, word: &str) -> Result<ApiResource, Failure> {
        Ok(self.discovery.resource(word).await?)
    }
}

/// True if the resource is namespaced.
pub(crate) fn is_namespaced(resource: &Resource) -> bool {
    resource.scope == Scope::Namespaced
}

fn connect(arguments: &ClusterArguments, verbosity: i32, session: &Session) -> Result<Client, Failure> {
    let config = Config::load(&LoadOptions {
        path: arguments.kubeconfig.clone(),
        overrides: overrides(arguments),
        environment: session.environment.clone(),
    })?;
    Ok(Client::new(
        &config,
        ClientOptions {
            timeout: request_timeout(arguments),
            ..client_options(verbosity, session.err.clone())
        },
    )?)
}

fn request_timeout(arguments: &ClusterArguments) -> Option<Duration> {
    Some(arguments.request_timeout).filter(|timeout| !timeout.is_zero())
}

/// The client options of this program: warnings go to the terminal.
pub(crate) fn client_options(verbosity: i32, err: Output) -> ClientOptions {
    ClientOptions {
        rate_limit: Some(RATE_LIMIT),
        verbosity: u8::try_from(verbosity.max(0)).unwrap_or(u8::MAX),
        warnings: std::sync::Arc::new(move |warning| err.clone().line(format!("Warning: {}", warning.text))),
        ..Default::default()
    }
}

fn overrides(arguments: &ClusterArguments) -> Overrides {
    Overrides {
        context: arguments.context.clone(),
        cluster: arguments.cluster.clone(),
        user: arguments.user.clone(),
        namespace: arguments.namespace.clone(),
        server: arguments.server.clone(),
        token: arguments.token.as_deref().map(Secret::new),
        certificate_authority: arguments.certificate_authority.clone(),
        client_certificate: arguments.client_certificate.clone(),
        client_key: arguments.client_key.clone(),
        insecure_skip_tls_verify: arguments.insecure_skip_tls_verify.then_some(true),
        impersonate: Impersonate {
            user: arguments.act_as.clone().unwrap_or_default(),
            groups: arguments.as_groups.clone(),
            ..Default::default()
        },
        ..Default::default()
    }
}
