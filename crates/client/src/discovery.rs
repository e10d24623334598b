//! Discovery: the groups, versions and resources of a server.
//!
//! With aggregated discovery, two requests (`/api` and `/apis`) return everything; otherwise each version of each
//! group is requested. A group that cannot be read is reported beside the others, never instead of them. The rate
//! limit does not apply: there are few requests, and at most ten at once. [`Discovery`] is one result;
//! [`DiscoveryClient`] caches it, revalidates it by `ETag`, and finds resources by any of their names.

mod aggregated;
mod cache;
mod legacy;
mod mapper;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use watchkeeper_meta::{GroupVersion, Resource};

pub use cache::{DiscoveryClient, DiscoveryOptions};
pub use mapper::MapError;
pub use watchkeeper_meta::{ApiResource, ApiSubresource};

use crate::client::{Client, SendOptions};
use crate::error::{Error, ErrorKind};
use crate::transport::Body;

/// The time limit of one document, as in client-go: the server may ask aggregated servers meanwhile.
const TIMEOUT: Duration = Duration::from_secs(32);

/// The largest document that is read; that of a large cluster has about one megabyte.
const MAX_DOCUMENT: usize = 64 << 20;

/// The resources of a server, in its own order: the core group first, preferred versions first, stale versions last.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// The groups.
    pub groups: Vec<ApiGroup>,
    /// The versions whose resources could not be read; what is known of them is still in `groups`.
    pub failures: Vec<DiscoveryFailure>,
}

/// One group.
#[derive(Clone, Debug, Default)]
pub struct ApiGroup {
    /// Its name; empty for core.
    pub name: String,
    /// Its versions, the preferred one first.
    pub versions: Vec<ApiVersion>,
}

/// One version of a group.
#[derive(Clone, Debug, Default)]
pub struct ApiVersion {
    /// Its name: `v1`.
    pub version: String,
    /// Its resources.
    pub resources: Vec<ApiResource>,
}

/// A version that could not be read.
#[derive(Clone, Debug)]
pub struct DiscoveryFailure {
    /// The version.
    pub group_version: GroupVersion,
    /// The error.
    pub reason: String,
}

/// The answer of `/version`. It serializes as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ServerVersion {
    /// `1`.
    pub major: String,
    /// `37`.
    pub minor: String,
    /// The emulated version, if stated: `1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub emulation_major: String,
    /// `37`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub emulation_minor: String,
    /// The oldest compatible version, if stated: `1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_compatibility_major: String,
    /// `36`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_compatibility_minor: String,
    /// `v1.37.0`.
    pub git_version: String,
    /// The commit it was built from.
    pub git_commit: String,
    /// `clean`.
    pub git_tree_state: String,
    /// The build date.
    pub build_date: String,
    /// The compiler's version.
    pub go_version: String,
    /// The compiler.
    pub compiler: String,
    /// `linux/amd64`.
    pub platform: String,
}

impl Client {
    /// Requests the resources of the server.
    pub async fn discover(&self) -> Result<Discovery, Error> {
        DiscoveryClient::new(self.clone(), DiscoveryOptions::default())
            .refresh()
            .await
            .map(|found| (*found).clone())
    }

    /// The uid of the namespace `kube-system`, which by convention identifies a cluster. `None` if the user may not
    /// read it.
    pub async fn cluster_id(&self) -> Result<Option<String>, Error> {
        let namespaces = Resource::cluster("", "v1", "Namespace", "namespaces");
        match self.dynamic(namespaces).metadata_only().get("kube-system").await {
            Ok(system) => Ok(Some(system.uid().to_owned())),
            Err(error) if error.is_forbidden() || error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests the version of the server.
    pub async fn server_version(&self) -> Result<ServerVersion, Error> {
        let document = fetch(self, "/version", "application/json", None).await?;
        let Fetched::Changed(document) = document else {
            return Ok(ServerVersion::default());
        };
        document.read(self)
    }
}

impl Discovery {
    /// All resources, in order.
    pub fn resources(&self) -> impl Iterator<Item = &ApiResource> {
        let versions = self.groups.iter().flat_map(|group| &group.versions);
        versions.flat_map(|version| &version.resources)
    }

    /// Each resource in the preferred version of its group that has it.
    pub fn preferred_resources(&self) -> impl Iterator<Item = &ApiResource> {
        self.groups.iter().flat_map(|group| {
            let versions = group.versions.iter().enumerate();
            versions.flat_map(|(index, version)| {
                let earlier = &group.versions[..index];
                version.resources.iter().filter(move |found| {
                    let mut before = earlier.iter().flat_map(|version| &version.resources);
                    !before.any(|resource| resource.resource.plural == found.resource.plural)
                })
            })
        })
    }

    /// The resources that can be listed and watched, without duplicates: Events are listed in the core group, not
    /// again in `events.k8s.io`.
    pub fn watchable_resources(&self) -> impl Iterator<Item = &Resource> {
        let resources = self.preferred_resources();
        let resources = resources.filter(|found| found.has_verb("list") && found.has_verb("watch"));
        let is_again = |resource: &Resource| resource.group == "events.k8s.io" && resource.plural == "events";
        resources
            .map(|found| &found.resource)
            .filter(move |resource| !is_again(resource))
    }
}

/// An answer to a conditional request.
enum Fetched {
    Unchanged,
    Changed(Document),
}

/// A document and its `ETag`.
#[derive(Clone, Debug)]
struct Document {
    path: Arc<str>,
    content_type: String,
    etag: Option<String>,
    bytes: Bytes,
}

impl Document {
    fn is_aggregated(&self) -> bool {
        self.content_type.contains("as=APIGroupDiscoveryList")
    }

    fn read<T: DeserializeOwned>(&self, client: &Client) -> Result<T, Error> {
        serde_json::from_slice(&self.bytes).map_err(|error| {
            let start = String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(200)]).into_owned();
            let kind = match self.content_type.starts_with("application/json") {
                true => ErrorKind::Decode(error.to_string()),
                false => ErrorKind::NotKubernetes {
                    content_type: self.content_type.clone(),
                    start,
                },
            };
            Error::new(&Method::GET, client.url(&self.path), kind)
        })
    }
}

/// Fetches a document, unless it still has that `ETag`.
async fn fetch(client: &Client, path: &str, accept: &str, etag: Option<&str>) -> Result<Fetched, Error> {
    let mut request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header(header::ACCEPT, accept);
    if let Some(etag) = etag {
        request = request.header(header::IF_NONE_MATCH, etag);
    }
    let failed = |kind: ErrorKind| Error::new(&Method::GET, client.url(path), kind);
    let request = request
        .body(Bytes::new())
        .map_err(|error| failed(ErrorKind::Request(error.to_string())))?;
    // An older server has a document for each version of each group; at five a second they would take half a minute.
    let options = SendOptions {
        timeout: client.timeout().or(Some(TIMEOUT)),
        unthrottled: true,
        ..SendOptions::default()
    };
    let response = client.send(request, &options).await?;
    if response.status() == StatusCode::NOT_MODIFIED {
        return Ok(Fetched::Unchanged);
    }
    let (head, mut body): (_, Body) = Response::into_parts(response);
    let text = |name| {
        head.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    Ok(Fetched::Changed(Document {
        path: path.into(),
        content_type: text(header::CONTENT_TYPE).unwrap_or_default(),
        etag: text(header::ETAG),
        bytes: body
            .collect(MAX_DOCUMENT)
            .await
            .map_err(|error| failed(error.into()))?,
    }))
}
