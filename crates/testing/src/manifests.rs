//! Manifests into a cluster: a text, or the files of a directory.

use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use serde_json::Value;
use watchkeeper_meta::{ApplyOptions, GroupVersionKind, Resource, Scope};
use watchkeeper_wire::schema::resources;
use watchkeeper_wire::yaml;

use crate::webhook::Webhook;
use crate::{TestCluster, TestClusterError};

/// Who loads objects.
const MANAGER: &str = "watchkeeper-testing";

impl TestCluster {
    /// Applies every document of a manifest, in order; namespaced ones go to `default` unless they say otherwise. A
    /// document may be of a kind that one before it defines.
    pub fn load<'a>(&'a self, manifest: &'a str) -> BoxFuture<'a, Result<(), TestClusterError>> {
        Box::pin(async move { self.apply_all(read(manifest)?).await })
    }

    /// Does the same, and makes the webhook configurations among the documents lead to this webhook instead of to the
    /// services that they name.
    pub fn load_webhooks<'a>(
        &'a self,
        manifest: &'a str,
        webhook: &'a Webhook,
    ) -> BoxFuture<'a, Result<(), TestClusterError>> {
        Box::pin(async move {
            let mut documents = read(manifest)?;
            documents
                .iter_mut()
                .for_each(|document| webhook.stand_in(document));
            self.apply_all(documents).await
        })
    }

    /// Applies the `.yaml`, `.yml` and `.json` files of a directory, in the order of their names. Definitions of custom
    /// kinds and namespaces go first, wherever they stand.
    pub fn load_dir<'a>(&'a self, dir: impl AsRef<Path> + 'a) -> BoxFuture<'a, Result<(), TestClusterError>> {
        let files = read_dir(dir.as_ref());
        Box::pin(async move {
            let mut documents = Vec::new();
            for text in files? {
                documents.extend(read(&text)?);
            }
            documents.sort_by_key(rank);
            self.apply_all(documents).await
        })
    }

    async fn apply_all(&self, documents: Vec<Value>) -> Result<(), TestClusterError> {
        for (index, document) in documents.iter().enumerate() {
            self.apply(index, document).await?;
        }
        Ok(())
    }

    async fn apply(&self, index: usize, document: &Value) -> Result<(), TestClusterError> {
        let text = |pointer: &str| {
            let value = document.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let wanted = GroupVersionKind::new(group.to_owned(), version.to_owned(), kind.clone());
        let Some(resource) = self.resource_of(&wanted).await? else {
            return Err(TestClusterError::UnknownKind {
                index,
                api_version,
                kind,
            });
        };
        let is_namespaced = resource.scope == Scope::Namespaced;
        let mut api = self.client().dynamic(resource);
        if is_namespaced {
            let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
            api = api.namespace(namespace.unwrap_or_else(|| "default".to_owned()));
        }
        let options = ApplyOptions {
            field_manager: MANAGER.to_owned(),
            force: true,
            ..Default::default()
        };
        let applied = api.apply(&name, document, &options).await;
        applied.map(drop).map_err(|source| TestClusterError::Refused {
            object: format!("{kind} {name}"),
            source: Box::new(source),
        })
    }

    /// The resource of a kind: built in, or one that a manifest before has defined.
    async fn resource_of(&self, kind: &GroupVersionKind) -> Result<Option<Resource>, TestClusterError> {
        if let Some(known) = resources::by_kind(&kind.group, &kind.version, &kind.kind) {
            return Ok(Some(known.resource.clone()));
        }
        let served = self.client().discover().await;
        let served = served.map_err(|error| TestClusterError::Discovery(Box::new(error)))?;
        let found = served.resource_of_kind(kind);
        Ok(found.map(|found| found.resource.clone()))
    }
}

fn read(manifest: &str) -> Result<Vec<Value>, TestClusterError> {
    let documents = yaml::documents(manifest.as_bytes(), yaml::Mode::Strict);
    let values = documents.map(|document| document.map(|document| document.value));
    Ok(values.collect::<Result<_, _>>()?)
}

/// The texts of the manifests in a directory.
fn read_dir(dir: &Path) -> Result<Vec<String>, TestClusterError> {
    let failed = |path: &Path, source| TestClusterError::File {
        path: path.to_owned(),
        source,
    };
    let entries = std::fs::read_dir(dir).map_err(|error| failed(dir, error))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<Result<Vec<_>, _>>();
    let mut paths = paths.map_err(|error| failed(dir, error))?;
    paths.retain(|path| is_manifest(path));
    paths.sort();
    let read = |path: PathBuf| std::fs::read_to_string(&path).map_err(|error| failed(&path, error));
    paths.into_iter().map(read).collect()
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("json" | "yaml" | "yml"))
}

/// What others need goes before them.
pub(crate) fn rank(document: &Value) -> u8 {
    match document["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    }
}
