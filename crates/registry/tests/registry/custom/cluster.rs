//! A registry with custom kinds.

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_meta::{
    DeleteOptions, FieldValidation, GetOptions, GroupVersionResource, ListOptions, ResourceVersion, Status,
    WatchOptions,
};
use watchkeeper_registry::encode::{self, OutputForm, View};
use watchkeeper_registry::{
    Body, Definition, Format, Part, PatchKind, Registry, StoredObject, Watch, WatchItem, WriteContext,
};
use watchkeeper_storage::{Revision, Store, StoreOptions};
use watchkeeper_wire::Encoding;

pub(super) struct Cluster {
    pub(super) registry: Registry,
    pub(super) store: Store,
}

impl Cluster {
    pub(super) async fn start() -> Self {
        Self::over(Store::memory(StoreOptions::default())).await
    }

    /// A cluster over an existing store.
    pub(super) async fn over(store: Store) -> Self {
        let registry = Registry::open(store.clone()).await.unwrap();
        Self { registry, store }
    }

    /// A cluster with widgets of this schema.
    pub(super) async fn with_widgets(spec: Value) -> Self {
        let cluster = Self::start().await;
        cluster.define(definition(spec)).await.unwrap();
        cluster
    }

    pub(super) fn resource(&self, version: &str) -> Option<Arc<Definition>> {
        let resource = GroupVersionResource::new("example.com".to_owned(), version.to_owned(), "widgets");
        self.registry.definition(&resource)
    }

    pub(super) fn widgets(&self) -> Arc<Definition> {
        self.resource("v1").expect("widgets are served")
    }

    pub(super) fn definitions(&self) -> Arc<Definition> {
        let crds = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        self.registry.definition(&crds).unwrap()
    }

    pub(super) async fn define(&self, definition: Value) -> Result<Value, Status> {
        self.create_in(&self.definitions(), "", definition).await
    }

    pub(super) async fn undefine(&self) -> Result<(), Status> {
        let (crds, options, context) = (self.definitions(), DeleteOptions::default(), context());
        let deleted = self
            .registry
            .delete(&crds, "", "widgets.example.com", &options, &context);
        deleted.await.map(drop)
    }

    /// The current definition.
    pub(super) async fn definition(&self) -> Result<Value, Status> {
        self.get_in(&self.definitions(), "", "widgets.example.com").await
    }

    /// Changes the schema of widgets.
    pub(super) async fn redefine(&self, spec: Value) {
        let patch = json!({"spec": {"versions": definition(spec)["spec"]["versions"]}});
        let crds = self.definitions();
        self.patch(&crds, "", "widgets.example.com", patch).await.unwrap();
    }

    pub(super) async fn create(&self, object: Value) -> Result<Value, Status> {
        self.create_in(&self.widgets(), "default", object).await
    }

    pub(super) async fn create_in(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Status> {
        let bytes = object.to_string();
        let body = Body {
            format: Format::Json,
            bytes: bytes.as_bytes(),
        };
        let created = self
            .registry
            .create(definition, namespace, body, &context())
            .await?;
        Ok(shown(definition, &created))
    }

    pub(super) async fn get_in(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Status> {
        let options = GetOptions::default();
        let found = self.registry.get(definition, namespace, name, &options).await?;
        Ok(shown(definition, &found))
    }

    pub(super) async fn patch(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value, Status> {
        let (patch, context) = (patch.to_string(), context());
        let patched = self.registry.patch(
            definition,
            namespace,
            name,
            Part::Object,
            (PatchKind::Merge, patch.as_bytes()),
            &context,
        );
        Ok(shown(definition, &patched.await?.object))
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), Status> {
        let (widgets, options, context) = (self.widgets(), DeleteOptions::default(), context());
        let deleted = self
            .registry
            .delete(&widgets, "default", name, &options, &context);
        deleted.await.map(drop)
    }

    pub(super) async fn names(&self) -> Vec<String> {
        let widgets = self.widgets();
        let list = self
            .registry
            .list(&widgets, "", &ListOptions::default())
            .await
            .unwrap();
        let values = list.objects().map(|object| object.to_value(&widgets).unwrap());
        values
            .map(|value| value["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(super) async fn watch(&self) -> Watch {
        self.watch_after(self.store.current_revision()).await
    }

    pub(super) async fn watch_after(&self, revision: Revision) -> Watch {
        let options = WatchOptions {
            resource_version: ResourceVersion::new(revision.to_string()),
            ..Default::default()
        };
        self.registry.watch(&self.widgets(), "", &options).await.unwrap()
    }
}

/// The next event of a watch, `ADDED a`; `None` at its end.
pub(super) async fn next_event(watch: &mut Watch) -> Option<String> {
    match watch.next().await? {
        WatchItem::Event(event) => {
            let object = event.object.to_value(watch.definition()).unwrap();
            Some(format!(
                "{} {}",
                event.kind,
                object["metadata"]["name"].as_str().unwrap()
            ))
        }
        WatchItem::Bookmark { .. } => Some("BOOKMARK".to_owned()),
        WatchItem::Error(status) => Some(status.message),
    }
}

/// An object as sent; its encoded bytes must match its value.
fn shown(definition: &Definition, object: &StoredObject) -> Value {
    let form = OutputForm {
        encoding: Encoding::Json,
        view: View::Whole,
    };
    let sent = encode::object(definition, object, form).unwrap();
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(sent, object.to_value(definition).unwrap());
    sent
}

pub(super) fn context() -> WriteContext {
    WriteContext {
        manager: "test".to_owned(),
        field_validation: FieldValidation::Strict,
        ..WriteContext::default()
    }
}

/// Widgets with one version, whose spec has this schema.
pub(super) fn definition(spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// A schema that accepts anything.
pub(super) fn free() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

pub(super) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}
