//! Cached discovery: documents are revalidated by `ETag`, so that a second request costs two small answers if nothing
//! has changed. Optionally the documents are kept on disk for other processes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use watchkeeper_meta::accept;

use super::{Discovery, Document, Fetched, aggregated, fetch, legacy};
use crate::client::Client;
use crate::error::Error;

/// Options of the discovery cache.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryOptions {
    /// A directory, one per server and user, where documents are kept between processes. `None`: in memory only.
    pub cache_directory: Option<PathBuf>,
}

/// Cached discovery, and look-up of resources by name.
#[derive(Clone, Debug)]
pub struct DiscoveryClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    options: DiscoveryOptions,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    core: Option<Document>,
    groups: Option<Document>,
    discovery: Option<Arc<Discovery>>,
}

/// A document on disk.
#[derive(Serialize, Deserialize)]
struct Stored {
    content_type: String,
    etag: String,
    body: String,
}

impl DiscoveryClient {
    /// An empty cache; nothing is requested yet.
    pub fn new(client: Client, options: DiscoveryOptions) -> Self {
        let known = Known {
            core: options.load("api"),
            groups: options.load("apis"),
            discovery: None,
        };
        Self(Arc::new(Inner {
            client,
            options,
            known: Mutex::new(known),
        }))
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The cached result; requests it if there is none.
    pub async fn get(&self) -> Result<Arc<Discovery>, Error> {
        let found = self.0.known.lock().await.discovery.clone();
        match found {
            Some(discovery) => Ok(discovery),
            None => self.refresh().await,
        }
    }

    /// Revalidates the cache; returns the same [`Arc`] if nothing has changed.
    ///
    /// An error means that not even the list of groups could be read; other failures are in [`Discovery::failures`].
    pub async fn refresh(&self) -> Result<Arc<Discovery>, Error> {
        let client = &self.0.client;
        // Held during the request: concurrent callers want the same answer.
        let mut known = self.0.known.lock().await;
        let (core, groups) = tokio::join!(
            ask(client, "/api", known.core.as_ref()),
            ask(client, "/apis", known.groups.as_ref())
        );
        let (core, groups) = either(core, groups)?;
        if let (None, None, Some(discovery)) = (&core, &groups, known.settled()) {
            return Ok(discovery.clone());
        }
        self.0.remember("api", core, &mut known.core);
        self.0.remember("apis", groups, &mut known.groups);
        let mut discovery = Discovery::default();
        let documents = [known.core.clone(), known.groups.clone()];
        for document in documents.iter().flatten() {
            read(client, document, &mut discovery).await?;
        }
        let discovery = Arc::new(discovery);
        known.discovery = Some(discovery.clone());
        Ok(discovery)
    }
}

/// Merges the two trees. One that does not exist or is forbidden counts as empty, as in client-go; if both fail, the
/// error is returned.
fn either(
    core: Result<Option<Document>, Error>,
    groups: Result<Option<Document>, Error>,
) -> Result<(Option<Document>, Option<Document>), Error> {
    let is_absent = |error: &Error| error.is_not_found() || error.is_forbidden();
    match (core, groups) {
        (Ok(core), Ok(groups)) => Ok((core, groups)),
        (Ok(core), Err(error)) if is_absent(&error) => Ok((core, None)),
        (Err(error), Ok(groups)) if is_absent(&error) => Ok((None, groups)),
        (_, Err(error)) | (Err(error), _) => Err(error),
    }
}

/// Returns the document if it has changed.
async fn ask(client: &Client, path: &str, known: Option<&Document>) -> Result<Option<Document>, Error> {
    let etag = known.and_then(|document| document.etag.as_deref());
    match fetch(client, path, accept::DISCOVERY, etag).await {
        Ok(Fetched::Changed(document)) => Ok(Some(document)),
        Ok(Fetched::Unchanged) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn read(client: &Client, document: &Document, into: &mut Discovery) -> Result<(), Error> {
    if document.is_aggregated() {
        aggregated::add(document.read(client)?, into);
        return Ok(());
    }
    match &*document.path {
        "/api" => legacy::add_core(client, document, into).await,
        _ => legacy::add_groups(client, document, into).await,
    }
}

impl Known {
    /// The cached result, unless the resources of a version could not be read: then it is requested again even if the
    /// list of groups is the same.
    fn settled(&self) -> Option<&Arc<Discovery>> {
        let documents = [&self.core, &self.groups];
        let told_all = documents.iter().copied().flatten().all(Document::is_aggregated);
        self.discovery
            .as_ref()
            .filter(|found| told_all || found.failures.is_empty())
    }
}

impl Inner {
    fn remember(&self, name: &str, changed: Option<Document>, known: &mut Option<Document>) {
        let Some(document) = changed else { return };
        self.options.store(name, &document);
        *known = Some(document);
    }
}

impl DiscoveryOptions {
    /// A missing or damaged document is requested again.
    fn load(&self, name: &str) -> Option<Document> {
        let text = std::fs::read(self.file(name)?).ok()?;
        let stored: Stored = serde_json::from_slice(&text).ok()?;
        Some(Document {
            path: format!("/{name}").into(),
            content_type: stored.content_type,
            etag: Some(stored.etag),
            bytes: Bytes::from(stored.body),
        })
    }

    /// Documents without an `ETag` cannot be revalidated and are not kept.
    fn store(&self, name: &str, document: &Document) {
        let (Some(path), Some(etag)) = (self.file(name), &document.etag) else {
            return;
        };
        let stored = Stored {
            content_type: document.content_type.clone(),
            etag: etag.clone(),
            body: String::from_utf8_lossy(&document.bytes).into_owned(),
        };
        let written = serde_json::to_vec(&stored)
            .map_err(Into::into)
            .and_then(|text| replace(&path, &text));
        if let Err(error) = written {
            tracing::debug!(%error, path = %path.display(), "discovery is not cached");
        }
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.cache_directory.as_ref()?.join(format!("{name}.json")))
    }
}

/// Replaces a file atomically: readers see the old file or the new one.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&beside, bytes)?;
    std::fs::rename(&beside, path)
}
