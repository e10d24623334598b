//! The cases: the request, the client, and the figures.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DynamicObject, ListParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use watchkeeper_client::config::Credentials;
use watchkeeper_client::{Client, Config, DynamicApi, ListItem, LoadOptions, ResourceType, SendOptions};

use super::fill::{client, core};
use crate::runtime::peak_megabytes;

/// Concurrent watches.
const WATCHES: usize = 50;

/// The size of small pages of namespaces.
const SMALL_PAGE: u64 = 100;

/// Single requests per measurement.
const GETS: usize = 4_000;

/// One case.
pub(super) struct Case {
    /// The subject of the comparison.
    pub(super) subject: &'static str,
    /// The client and its variant.
    pub(super) name: &'static str,
    ask: Ask,
}

/// The client and the request.
enum Ask {
    /// Ours: objects are kept without decoding.
    Objects {
        plural: &'static str,
        json: bool,
    },
    /// Ours: only the bytes of a list in protobuf.
    Bytes,
    /// The same with kube's transport.
    KubeBytes,
    /// Ours: objects are read and dropped as they arrive.
    Stream {
        plural: &'static str,
    },
    /// Ours: iterates over the list, one struct at a time.
    Pods {
        json: bool,
    },
    Namespaces {
        json: bool,
    },
    /// Ours: each struct is decoded as soon as its bytes have arrived.
    PodStream {
        json: bool,
    },
    NamespaceStream {
        json: bool,
    },
    /// Ours: all structs in memory.
    AllPods,
    /// Ours: namespaces in small pages, one struct at a time.
    NamespacePages,
    /// The bytes of the list of namespaces in protobuf, with curl, which discards them.
    Curl {
        version: &'static str,
    },
    /// kube's structs.
    KubePods,
    KubeNamespaces,
    /// kube's dynamic objects.
    KubeDynamic {
        kind: &'static str,
        plural: &'static str,
    },
    /// client-go, by the name of its case.
    ClientGo(&'static str),
    Watches,
    KubeWatches,
    Gets {
        gets: usize,
        at_once: usize,
    },
    KubeGets {
        gets: usize,
        at_once: usize,
    },
}

const fn case(subject: &'static str, name: &'static str, ask: Ask) -> Case {
    Case { subject, name, ask }
}

const POD_BYTES: &str = "bytes of the list of pods, protobuf";
const POD_STRUCTS: &str = "list of pods into structs";
const POD_OBJECTS: &str = "list of pods of any kind";
const NAMESPACE_STRUCTS: &str = "list of namespaces into structs";
const NAMESPACE_OBJECTS: &str = "list of namespaces of any kind";
const NAMESPACES_AND_CURL: &str = "list of namespaces beside curl";
const NAMESPACE_PAGES: &str = "list of namespaces in pages of 100";
const ONE_GET: &str = "one get: process, connection, answer";
const OPEN_WATCHES: &str = "50 watches";
const GETS_1: &str = "4,000 gets, one after another";
const GETS_16: &str = "4,000 gets, 16 at once";

/// Grouped by subject, with the peer last.
pub(super) const CASES: &[Case] = &[
    case(POD_BYTES, "ours, HTTP/2", Ask::Bytes),
    case(POD_BYTES, "kube, HTTP/1.1", Ask::KubeBytes),
    case(
        POD_STRUCTS,
        "ours, as they arrive",
        Ask::PodStream { json: false },
    ),
    case(
        POD_STRUCTS,
        "ours, JSON, as they arrive",
        Ask::PodStream { json: true },
    ),
    case(POD_STRUCTS, "ours, protobuf", Ask::Pods { json: false }),
    case(POD_STRUCTS, "ours, JSON", Ask::Pods { json: true }),
    case(POD_STRUCTS, "ours, protobuf, all structs kept", Ask::AllPods),
    case(POD_STRUCTS, "client-go", Ask::ClientGo("pods")),
    case(POD_STRUCTS, "kube", Ask::KubePods),
    case(
        POD_OBJECTS,
        "ours, as they arrive",
        Ask::Stream { plural: "pods" },
    ),
    case(
        POD_OBJECTS,
        "ours, protobuf",
        Ask::Objects {
            plural: "pods",
            json: false,
        },
    ),
    case(
        POD_OBJECTS,
        "ours, JSON",
        Ask::Objects {
            plural: "pods",
            json: true,
        },
    ),
    case(POD_OBJECTS, "client-go", Ask::ClientGo("pods of any kind")),
    case(
        POD_OBJECTS,
        "kube",
        Ask::KubeDynamic {
            kind: "Pod",
            plural: "pods",
        },
    ),
    case(
        NAMESPACE_STRUCTS,
        "ours, as they arrive",
        Ask::NamespaceStream { json: false },
    ),
    case(
        NAMESPACE_STRUCTS,
        "ours, JSON, as they arrive",
        Ask::NamespaceStream { json: true },
    ),
    case(
        NAMESPACE_STRUCTS,
        "ours, protobuf",
        Ask::Namespaces { json: false },
    ),
    case(NAMESPACE_STRUCTS, "ours, JSON", Ask::Namespaces { json: true }),
    case(NAMESPACE_STRUCTS, "client-go", Ask::ClientGo("namespaces")),
    case(NAMESPACE_STRUCTS, "kube", Ask::KubeNamespaces),
    case(
        NAMESPACE_OBJECTS,
        "ours, protobuf",
        Ask::Objects {
            plural: "namespaces",
            json: false,
        },
    ),
    case(
        NAMESPACE_OBJECTS,
        "ours, JSON",
        Ask::Objects {
            plural: "namespaces",
            json: true,
        },
    ),
    case(
        NAMESPACE_OBJECTS,
        "client-go",
        Ask::ClientGo("namespaces of any kind"),
    ),
    case(
        NAMESPACE_OBJECTS,
        "kube",
        Ask::KubeDynamic {
            kind: "Namespace",
            plural: "namespaces",
        },
    ),
    case(
        NAMESPACES_AND_CURL,
        "ours, one struct at a time",
        Ask::Namespaces { json: false },
    ),
    case(
        NAMESPACES_AND_CURL,
        "curl, HTTP/1.1",
        Ask::Curl { version: "--http1.1" },
    ),
    case(
        NAMESPACES_AND_CURL,
        "curl, HTTP/2",
        Ask::Curl { version: "--http2" },
    ),
    case(NAMESPACE_PAGES, "ours", Ask::NamespacePages),
    case(NAMESPACE_PAGES, "client-go", Ask::ClientGo("namespaces in pages")),
    case(ONE_GET, "ours", Ask::Gets { gets: 1, at_once: 1 }),
    case(ONE_GET, "client-go", Ask::ClientGo("one get")),
    case(ONE_GET, "kube", Ask::KubeGets { gets: 1, at_once: 1 }),
    case(OPEN_WATCHES, "ours", Ask::Watches),
    case(OPEN_WATCHES, "client-go", Ask::ClientGo("watches")),
    case(OPEN_WATCHES, "kube", Ask::KubeWatches),
    case(
        GETS_1,
        "ours",
        Ask::Gets {
            gets: GETS,
            at_once: 1,
        },
    ),
    case(GETS_1, "client-go", Ask::ClientGo("gets")),
    case(
        GETS_1,
        "kube",
        Ask::KubeGets {
            gets: GETS,
            at_once: 1,
        },
    ),
    case(
        GETS_16,
        "ours",
        Ask::Gets {
            gets: GETS,
            at_once: 16,
        },
    ),
    case(GETS_16, "client-go", Ask::ClientGo("gets, 16 at once")),
    case(
        GETS_16,
        "kube",
        Ask::KubeGets {
            gets: GETS,
            at_once: 16,
        },
    ),
];

impl Case {
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.subject, self.name)
    }

    /// The name of client-go's case, if it is one.
    pub(super) fn by_client_go(&self) -> Option<&'static str> {
        match self.ask {
            Ask::ClientGo(question) => Some(question),
            _ => None,
        }
    }
}

/// The figures of a case.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub(crate) struct Figures {
    pub(super) wall_ms: f64,
    pub(super) cpu_ms: f64,
    pub(super) peak_mb: f64,
    /// Open connections at the end.
    pub(super) sockets: usize,
}

impl Figures {
    /// Of a peer that does not take part.
    pub(super) const NONE: Self = Self {
        wall_ms: f64::NAN,
        cpu_ms: f64::NAN,
        peak_mb: f64::NAN,
        sockets: 0,
    };

    /// The median of each figure.
    pub(super) fn median(all: Vec<Self>) -> Self {
        let middle = |figure: fn(&Self) -> f64| {
            let mut figures: Vec<f64> = all.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        Self {
            wall_ms: middle(|figures| figures.wall_ms),
            cpu_ms: middle(|figures| figures.cpu_ms),
            peak_mb: middle(|figures| figures.peak_mb),
            sockets: middle(|figures| figures.sockets as f64) as usize,
        }
    }
}

/// Runs a case in this process, which must do nothing else.
#[tokio::main]
pub(super) async fn measure(case: &Case, kubeconfig: &Path) -> Result<Figures> {
    let (begun, cpu) = (Instant::now(), cpu_ms()?);
    // The result stays in memory until everything is measured.
    let _kept = case.ask.run(kubeconfig).await?;
    Ok(Figures {
        wall_ms: begun.elapsed().as_secs_f64() * 1e3,
        cpu_ms: cpu_ms()? - cpu,
        peak_mb: peak_megabytes()?,
        sockets: open_sockets()?,
    })
}

type Kept = Box<dyn std::any::Any>;

impl Ask {
    async fn run(&self, kubeconfig: &Path) -> Result<Kept> {
        match *self {
            Self::Objects { plural, json } => {
                let list = form(client(kubeconfig)?.dynamic(core(plural)?), json)
                    .list()
                    .await?;
                ensure!(list.undecodable.is_empty());
                Ok(Box::new(list))
            }
            Self::Bytes => bytes(client(kubeconfig)?).await,
            Self::KubeBytes => kube_bytes(kube(kubeconfig).await?).await,
            Self::Stream { plural } => look_at_each(client(kubeconfig)?.dynamic(core(plural)?)).await,
            Self::Pods { json } => structs::<Pod>(kubeconfig, json).await,
            Self::Namespaces { json } => structs::<Namespace>(kubeconfig, json).await,
            Self::PodStream { json } => struct_stream::<Pod>(kubeconfig, json).await,
            Self::NamespaceStream { json } => struct_stream::<Namespace>(kubeconfig, json).await,
            Self::AllPods => {
                let api = client(kubeconfig)?.api::<Pod>();
                Ok(Box::new(api.list().await?.into_vec()?))
            }
            Self::NamespacePages => namespace_pages(client(kubeconfig)?).await,
            Self::Curl { version } => curl(version, kubeconfig),
            Self::KubePods => kube_list::<Pod>(Api::all(kube(kubeconfig).await?)).await,
            Self::KubeNamespaces => kube_list::<Namespace>(Api::all(kube(kubeconfig).await?)).await,
            Self::KubeDynamic { kind, plural } => {
                let resource = ApiResource {
                    group: String::new(),
                    version: "v1".to_owned(),
                    api_version: "v1".to_owned(),
                    kind: kind.to_owned(),
                    plural: plural.to_owned(),
                };
                kube_list::<DynamicObject>(Api::all_with(kube(kubeconfig).await?, &resource)).await
            }
            Self::ClientGo(_) => bail!("client-go is a program of its own"),
            Self::Watches => watches(client(kubeconfig)?).await,
            Self::KubeWatches => kube_watches(kube(kubeconfig).await?).await,
            Self::Gets { gets, at_once } => get(client(kubeconfig)?, gets, at_once).await,
            Self::KubeGets { gets, at_once } => kube_get(kube(kubeconfig).await?, gets, at_once).await,
        }
    }
}

fn list_of_pods<B>(body: B) -> Result<Request<B>> {
    let request = Request::get("/api/v1/pods").header("accept", "application/vnd.kubernetes.protobuf");
    Ok(request.body(body)?)
}

async fn bytes(client: Client) -> Result<Kept> {
    let request = list_of_pods(Bytes::new())?;
    let response = client.send(request, &SendOptions::default()).await?;
    let (mut body, mut length) = (response.into_body(), 0);
    while let Some(chunk) = body.chunk().await {
        length += chunk?.len();
    }
    Ok(Box::new((client, length)))
}

async fn kube_bytes(client: kube::Client) -> Result<Kept> {
    let response = client
        .send(list_of_pods(kube::client::Body::from(Vec::new()))?)
        .await?;
    let (mut body, mut length) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        length += frame?.into_data().map_or(0, |data| data.len());
    }
    Ok(Box::new((client, length)))
}

fn form(api: DynamicApi, json: bool) -> DynamicApi {
    if json { api.json_only() } else { api }
}

async fn look_at_each(api: DynamicApi) -> Result<Kept> {
    let mut list = api.list_stream().await?;
    let mut labels = 0;
    while let Some(item) = list.try_next().await? {
        if let ListItem::Object(object) = item {
            labels += object.labels().len();
        }
    }
    ensure!(labels > 0);
    Ok(Box::new(labels))
}

async fn structs<K: ResourceType + 'static>(kubeconfig: &Path, json: bool) -> Result<Kept> {
    let list = typed::<K>(kubeconfig, json)?.list().await?;
    for object in &list {
        black_box(object?);
    }
    Ok(Box::new(list))
}

async fn struct_stream<K: ResourceType + 'static>(kubeconfig: &Path, json: bool) -> Result<Kept> {
    let api = typed::<K>(kubeconfig, json)?;
    let mut list = api.list_stream().await?;
    while let Some(object) = list.next().await {
        black_box(object?);
    }
    Ok(Box::new(api))
}

fn typed<K: ResourceType>(kubeconfig: &Path, json: bool) -> Result<watchkeeper_client::Api<K>> {
    let api = client(kubeconfig)?.api::<K>();
    Ok(if json { api.json_only() } else { api })
}

async fn namespace_pages(client: Client) -> Result<Kept> {
    let mut pages = client.api::<Namespace>().pages().page_size(SMALL_PAGE);
    let mut namespaces = 0;
    while let Some(item) = pages.next().await.transpose()? {
        let ListItem::Object(object) = item else { continue };
        black_box(object.decode::<Namespace>()?);
        namespaces += 1;
    }
    ensure!(namespaces > 0);
    Ok(Box::new(client))
}

/// The cost of transfer and TLS alone: `curl` discards the bytes.
fn curl(version: &str, kubeconfig: &Path) -> Result<Kept> {
    let config = Config::load(&LoadOptions {
        path: Some(kubeconfig.to_owned()),
        ..Default::default()
    })?;
    let Credentials::Token(token) = &config.credentials else {
        bail!("the server's kubeconfig has no token");
    };
    let output = Command::new("curl")
        .args([
            version,
            "--silent",
            "--fail",
            "--insecure",
            "--output",
            "/dev/null",
        ])
        .args(["--header", &format!("authorization: Bearer {}", token.expose())])
        .args(["--header", "accept: application/vnd.kubernetes.protobuf"])
        .arg(format!("{}api/v1/namespaces", config.server))
        .output()
        .context("curl")?;
    ensure!(output.status.success(), "curl: {}", output.status);
    Ok(Box::new(()))
}

async fn kube(kubeconfig: &Path) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

async fn kube_list<K: Clone + std::fmt::Debug + DeserializeOwned + 'static>(api: Api<K>) -> Result<Kept> {
    let list = api.list(&ListParams::default()).await?;
    ensure!(!list.items.is_empty());
    Ok(Box::new(list))
}

/// Opens watches and waits for an event on each.
async fn watches(client: Client) -> Result<Kept> {
    let api = client.dynamic(core("configmaps")?);
    let mut open = Vec::new();
    for _ in 0..WATCHES {
        let mut watch = api.watch().await?;
        watch.next().await.context("a watch ended")??;
        open.push(watch);
    }
    Ok(Box::new(open))
}

async fn kube_watches(client: kube::Client) -> Result<Kept> {
    let api = Api::<k8s_openapi::api::core::v1::ConfigMap>::all(client);
    let mut open = Vec::new();
    for _ in 0..WATCHES {
        let mut watch = Box::pin(api.watch(&WatchParams::default(), "0").await?);
        watch.next().await.context("a watch ended")??;
        open.push(watch);
    }
    Ok(Box::new(open))
}

async fn get(client: Client, gets: usize, at_once: usize) -> Result<Kept> {
    let api = client.api::<Namespace>();
    stream::iter(0..gets)
        .map(Ok::<_, anyhow::Error>)
        .try_for_each_concurrent(at_once, async |_| {
            api.get("default").await?;
            Ok(())
        })
        .await?;
    Ok(Box::new(client))
}

async fn kube_get(client: kube::Client, gets: usize, at_once: usize) -> Result<Kept> {
    let api = Api::<Namespace>::all(client.clone());
    stream::iter(0..gets)
        .map(Ok::<_, anyhow::Error>)
        .try_for_each_concurrent(at_once, async |_| {
            api.get("default").await?;
            Ok(())
        })
        .await?;
    Ok(Box::new(client))
}

/// The CPU time of this process and its children, user and system.
fn cpu_ms() -> Result<f64> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6 + children_ms()?)
}

/// The kernel counts the time of children in hundredths of a second.
fn children_ms() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The program name may contain spaces; the fields after it are counted, from the third.
    let fields = stat.rsplit_once(')').context("no name in /proc/self/stat")?.1;
    let of_children = fields.split_whitespace().skip(16 - 3).take(2);
    let ticks: f64 = of_children.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    Ok(ticks * 10.0)
}

/// The TCP connections of this process; the event loop has a socket pair that is not TCP.
fn open_sockets() -> Result<usize> {
    let tcp = fs::read_to_string("/proc/self/net/tcp")?;
    let inodes: Vec<&str> = tcp
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(9))
        .collect();
    let mut sockets = 0;
    for file in fs::read_dir("/proc/self/fd")? {
        let Ok(target) = fs::read_link(file?.path()) else {
            continue;
        };
        let target = target.to_string_lossy();
        let inode = target
            .strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']'));
        sockets += usize::from(inode.is_some_and(|inode| inodes.contains(&inode)));
    }
    Ok(sockets)
}
