//! Loads manifests into a cluster: a text, or the files of a directory.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_client::Manifest;
use watchkeeper_meta::{GroupVersionKind, Resource};
use watchkeeper_wire::schema::resources;

use crate::webhook::Webhook;
use crate::{TestCluster, TestClusterError};

/// The field manager of loaded objects.
const MANAGER: &str = "watchkeeper-testing";

impl TestCluster {
    /// Applies every document of a manifest, in order. Namespaced objects go to `default` unless they state a
    /// namespace. A document may use a kind defined by an earlier one.
    pub fn load<'a>(&'a self, manifest: &'a str) -> BoxFuture<'a, Result<(), TestClusterError>> {
        Box::pin(async move { self.apply_all(read(manifest)?).await })
    }

    /// Like [`load`](Self::load), but webhook configurations call this webhook instead of the services they name.
    pub fn load_webhooks<'a>(
        &'a self,
        manifest: &'a str,
        webhook: &'a Webhook,
    ) -> BoxFuture<'a, Result<(), TestClusterError>> {
        Box::pin(async move {
            let mut documents = read(manifest)?;
            documents
                .iter_mut()
                .for_each(|document| webhook.stand_in(&mut document.object));
            self.apply_all(documents).await
        })
    }

    /// Like [`load`](Self::load), but the services of webhook configurations lead to this address, where the webhooks
    /// are served with their own certificates, as by a manager.
    ///
    /// There is no cluster network: such a service is replaced by one of type `ExternalName`, and the configurations
    /// name its port.
    ///
    /// ```
    /// use watchkeeper_testing::TestCluster;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = TestCluster::start().await?;
    /// let socket = std::net::TcpListener::bind("127.0.0.1:0")?; // for `Webhooks::new(socket, certificates)`
    /// let manifest = "
    /// apiVersion: admissionregistration.k8s.io/v1
    /// kind: ValidatingWebhookConfiguration
    /// metadata: {name: websites}
    /// webhooks:
    /// - name: websites.example.com
    ///   rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [websites]}]
    ///   clientConfig: {service: {namespace: default, name: website-operator, path: /validate}}
    ///   sideEffects: None
    ///   admissionReviewVersions: [v1]
    /// ";
    /// cluster.load_webhooks_at(manifest, socket.local_addr()?).await?;
    /// cluster.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn load_webhooks_at<'a>(
        &'a self,
        manifest: &'a str,
        address: SocketAddr,
    ) -> BoxFuture<'a, Result<(), TestClusterError>> {
        Box::pin(async move {
            let mut documents = read(manifest)?;
            let mut services = BTreeSet::new();
            for service in documents
                .iter_mut()
                .flat_map(|document| called(&mut document.object))
            {
                let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
                services.insert((text("namespace"), text("name")));
                service["port"] = address.port().into();
            }
            for (namespace, name) in &services {
                self.lead_away(namespace, name, address.ip()).await?;
            }
            self.apply_all(documents).await
        })
    }

    /// Replaces a service by a name for an address.
    async fn lead_away(&self, namespace: &str, name: &str, address: IpAddr) -> Result<(), TestClusterError> {
        let services = Resource::namespaced("", "v1", "Service", "services");
        let services = self.client().dynamic(services).namespace(namespace);
        let refused = |source| TestClusterError::Refused {
            object: format!("Service {name}"),
            source: Box::new(source),
        };
        match services.delete(name).await {
            Err(error) if !error.is_not_found() => return Err(refused(error)),
            _ => {}
        }
        let there = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"type": "ExternalName", "externalName": address.to_string()},
        });
        services.create(&there).await.map(drop).map_err(refused)
    }

    /// Applies the `.yaml`, `.yml` and `.json` files of a directory, sorted by name. Custom resource definitions and
    /// namespaces are applied first.
    pub fn load_dir<'a>(&'a self, dir: impl AsRef<Path> + 'a) -> BoxFuture<'a, Result<(), TestClusterError>> {
        let files = read_dir(dir.as_ref());
        Box::pin(async move {
            let mut documents = Vec::new();
            for text in files? {
                documents.extend(read(&text)?);
            }
            documents.sort_by_key(|document| rank(&document.kind.kind));
            self.apply_all(documents).await
        })
    }

    async fn apply_all(&self, manifests: Vec<Manifest>) -> Result<(), TestClusterError> {
        for (index, manifest) in manifests.iter().enumerate() {
            self.apply(index, manifest).await?;
        }
        Ok(())
    }

    async fn apply(&self, index: usize, manifest: &Manifest) -> Result<(), TestClusterError> {
        let Some(resource) = self.resource_of(&manifest.kind).await? else {
            return Err(TestClusterError::UnknownKind {
                index,
                api_version: manifest.kind.api_version(),
                kind: manifest.kind.kind.to_string(),
            });
        };
        let namespace = match &*manifest.namespace {
            "" => "default",
            namespace => namespace,
        };
        let api = self.client().dynamic(resource).namespace(namespace);
        let applied = api.apply(&manifest.name, &manifest.object, MANAGER).force().await;
        applied.map(drop).map_err(|source| TestClusterError::Refused {
            object: format!("{} {}", manifest.kind.kind, manifest.name),
            source: Box::new(source),
        })
    }

    /// The resource of a kind: built in, or defined by an earlier manifest.
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

/// The services a webhook configuration calls, or the conversion of a custom resource definition.
fn called(document: &mut Value) -> Vec<&mut Value> {
    if document["kind"] == "CustomResourceDefinition" {
        let service = document.pointer_mut("/spec/conversion/webhook/clientConfig/service");
        return service.into_iter().collect();
    }
    let webhooks = document.get_mut("webhooks").and_then(Value::as_array_mut);
    let webhooks = webhooks.into_iter().flatten();
    webhooks
        .filter_map(|webhook| webhook.pointer_mut("/clientConfig/service"))
        .collect()
}

fn read(manifest: &str) -> Result<Vec<Manifest>, TestClusterError> {
    let manifests = Manifest::parse(manifest.as_bytes()).into_iter();
    Ok(manifests.collect::<Result<_, _>>()?)
}

/// The manifests in a directory.
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

/// The order of application: definitions and namespaces first.
pub(crate) fn rank(kind: &str) -> u8 {
    match kind {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        _ => 2,
    }
}
