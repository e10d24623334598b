//! A kind like ConfigMap for the time of one run: servers serve custom kinds by other code than their own.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use watchkeeper_client::{Client, DynamicApi, Error};
use watchkeeper_meta::Resource;

/// The time a server may take to serve a new definition, and the interval of the checks meanwhile.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);

/// A custom kind that is installed, for [`Options::kind`](crate::Options::kind).
#[derive(Debug)]
pub struct CustomKind {
    kind: Resource,
    definition: String,
    definitions: DynamicApi,
}

impl CustomKind {
    /// Installs a definition in a group that nobody else has, and waits until the server serves it.
    pub async fn install(client: &Client) -> Result<Self, Error> {
        let group = format!("conformance-{:08x}.watchkeeper.dev", fastrand::u32(..));
        let text = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let schema = json!({"type": "object", "properties": {"data": text}});
        let custom = Self {
            definition: format!("promises.{group}"),
            definitions: client.dynamic(Resource::cluster(
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
            )),
            kind: Resource::namespaced(group.clone(), "v1", "Promise", "promises"),
        };
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": custom.definition},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"kind": "Promise", "plural": "promises"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        custom.definitions.create(&definition).await?;
        match custom.served(client).await {
            Ok(()) => Ok(custom),
            Err(error) => {
                custom.remove().await;
                Err(error)
            }
        }
    }

    /// The kind.
    pub fn kind(&self) -> &Resource {
        &self.kind
    }

    /// Deletes the definition. Returns what could not be deleted, and why.
    pub async fn remove(&self) -> Option<String> {
        let deleted = self.definitions.delete(&self.definition).await;
        let error = deleted.err().filter(|error| !error.is_not_found())?;
        Some(format!("customresourcedefinitions/{}: {error}", self.definition))
    }

    /// Waits by listing, not by discovery: an apiextensions-apiserver alone has none.
    async fn served(&self, client: &Client) -> Result<(), Error> {
        let objects = client.dynamic(self.kind.clone()).all_namespaces();
        let begun = Instant::now();
        loop {
            match objects.list().await {
                Err(error) if error.is_not_found() && begun.elapsed() < SERVED_WITHIN => {
                    tokio::time::sleep(LOOK).await;
                }
                listed => return listed.map(drop),
            }
        }
    }
}
