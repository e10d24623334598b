//! A cluster with nodes, operators, and users who write websites.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use watchkeeper::manager::{ManagerError, when};
use watchkeeper::prelude::*;
use watchkeeper::testing::{TestCluster, TestOptions};
use website_operator::{Website, WebsiteSpec, operator};

/// The operator's user.
pub(crate) const OPERATOR: &str = "system:serviceaccount:web-system:website-operator";

/// Long enough for pods to start.
const A_WHILE: Duration = Duration::from_secs(10);

pub(crate) struct World {
    pub(crate) cluster: TestCluster,
    /// With the permissions of `deploy/operator.yaml` only.
    pub(crate) client: Client,
    pub(crate) websites: Api<Website>,
}

impl World {
    /// With paused time.
    pub(crate) async fn paused() -> Self {
        Self::start(true).await
    }

    pub(crate) async fn start(paused: bool) -> Self {
        let options = TestOptions {
            simulator: Some(Default::default()),
            paused,
            ..Default::default()
        };
        let cluster = TestCluster::start_with(options).await.unwrap();
        cluster
            .load(include_str!("../../deploy/operator.yaml"))
            .await
            .unwrap();
        let client = cluster.client_as(OPERATOR, &[]).unwrap();
        install_crds(&client, &[Website::crd()]).await.unwrap();
        let websites = cluster.client().api().namespace("default");
        Self {
            cluster,
            client,
            websites,
        }
    }

    /// Starts another operator, on an arbitrary port.
    pub(crate) fn operator(&self) -> Process {
        Process::start(operator(self.client.clone(), socket().0))
    }

    /// Runs until nothing is left to do.
    pub(crate) async fn settle(&self) {
        self.cluster.advance(A_WHILE).await;
    }

    pub(crate) async fn create(&self, name: &str, domain: &str) -> Website {
        self.websites.create(&website(name, domain)).await.unwrap()
    }

    /// Status and reason of the condition `Ready`.
    pub(crate) async fn ready(&self, name: &str) -> String {
        let site = self.websites.get(name).await.unwrap();
        let status = site.status.unwrap_or_default();
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.kind == "Ready");
        ready.map_or_else(String::new, |ready| {
            format!("{:?} {}", ready.status, ready.reason)
        })
    }

    /// Type and reason of the Events about a website, sorted.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let events = self
            .cluster
            .client()
            .api::<Event>()
            .namespace("default")
            .list()
            .await
            .unwrap();
        let events = events.into_vec().unwrap().into_iter();
        let about = events.filter(|event| {
            (
                event.involved_object.kind.as_deref(),
                event.involved_object.name.as_deref(),
            ) == (Some("Website"), Some(name))
        });
        let mut told: Vec<String> = about
            .map(|event| {
                format!(
                    "{} {}",
                    event.type_.unwrap_or_default(),
                    event.reason.unwrap_or_default()
                )
            })
            .collect();
        told.sort();
        told
    }

    /// The owner of each domain.
    pub(crate) async fn domains(&self) -> Vec<(String, String)> {
        let maps = self.cluster.client().api::<ConfigMap>().namespace("web-system");
        let maps = maps.list().await.unwrap().into_vec().unwrap().into_iter();
        let claimed = maps.filter_map(|map| {
            let domain = map.metadata.name?.strip_prefix("domain-")?.to_owned();
            Some((domain, map.data?.remove("website")?))
        });
        claimed.collect()
    }
}

/// A running operator.
pub(crate) struct Process {
    signal: oneshot::Sender<()>,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl Process {
    pub(crate) fn start(manager: Manager) -> Self {
        let (signal, signalled) = oneshot::channel();
        let running = tokio::spawn(manager.run_until(when(signalled)));
        Self { signal, running }
    }

    /// Like SIGTERM.
    pub(crate) async fn stop(self) {
        self.signal.send(()).unwrap();
        self.running.await.unwrap().unwrap();
    }

    /// Like a power failure of its node.
    pub(crate) async fn kill(self) {
        self.running.abort();
        assert!(self.running.await.unwrap_err().is_cancelled());
    }
}

pub(crate) fn website(name: &str, domain: &str) -> Website {
    let pages = [("index.html".to_owned(), "<h1>Welcome</h1>".to_owned())].into();
    let spec = WebsiteSpec {
        domain: domain.to_owned(),
        pages,
        replicas: 2,
    };
    Website::new(name, spec)
}

/// A socket on a free port, and its address.
pub(crate) fn socket() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}
