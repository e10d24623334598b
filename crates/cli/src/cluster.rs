//! The cluster a command talks to: from flags and files to a client, what it serves, and a namespace.

use std::time::Duration;

use watchkeeper_client::config::{Impersonate, Overrides};
use watchkeeper_client::discovery::ApiResource;
use watchkeeper_client::{
    Client, ClientOptions, Config, DiscoveryClient, DiscoveryOptions, DynamicApi, LoadOptions, RateLimit,
    Secret,
};
use watchkeeper_meta::{Resource, Scope};

use crate::cluster_arguments::ClusterArguments;
use crate::failure::Failure;
use crate::output::Output;
use crate::session::Session;

/// As kubectl: a person waits, and asks about many kinds at once.
const RATE_LIMIT: RateLimit = RateLimit {
    qps: 50.0,
    burst: 300,
};

/// A cluster to talk to.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) discovery: DiscoveryClient,
    /// The namespace of the request: typed, or from the context.
    pub(crate) namespace: String,
    /// Whether the namespace was typed, so that objects must be in it.
    pub(crate) namespace_typed: bool,
    /// How long one request may take; None is forever. The client sees to it, but for watches.
    pub(crate) request_timeout: Option<Duration>,
}

impl Cluster {
    /// Reads files and checks settings; asks nobody yet.
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

    /// Returns when a watch that begins now has taken as long as a request may.
    pub(crate) async fn watch_timeout(&self) {
        match self.request_timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    }

    /// The objects of a resource in the request's namespace, or in all.
    pub(crate) fn objects(&self, resource: &Resource, all_namespaces: bool) -> DynamicApi {
        let api = self.client.dynamic(resource.clone());
        match all_namespaces {
            true => api.all_namespaces(),
            false => api.namespace(&self.namespace),
        }
    }

    /// What tells this cluster from all others, by common agreement: the uid of `kube-system`. None if we may not know.
    pub(crate) async fn id(&self) -> Result<Option<String>, Failure> {
        let namespaces = self.resource("namespaces").await?.resource;
        let metadata = self.client.dynamic(namespaces).metadata_only();
        match metadata.get("kube-system").await {
            Ok(system) => Ok(Some(system.uid().to_owned())),
            Err(error) if error.is_forbidden() || error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The resource a typed word stands for.
    pub(crate) async fn resource(&self, word: &str) -> Result<ApiResource, Failure> {
        Ok(self.discovery.resource(word).await?)
    }
}

/// Whether objects of the resource live in namespaces.
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

/// How this program's clients behave: warnings are for the person at the terminal.
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
