//! The informer factory: equal selections share one informer.
//!
//! One informer runs per resource, set of namespaces, selectors and form. It is reference-counted: it ends with its
//! last user and is started again for the next one. Nothing is started that nobody asked for.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use watchkeeper_client::Client;
//! # use watchkeeper_meta::Resource;
//! use watchkeeper_runtime::factory::{Factory, Selection};
//!
//! # async fn run(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let factory = Factory::new(client, Default::default());
//! let in_default = Selection {
//!     namespaces: vec!["default".into()],
//!     metadata_only: true,
//!     ..Selection::all(Resource::namespaced("", "v1", "Secret", "secrets"))
//! };
//! let (one, other) = (factory.informer(in_default.clone()), factory.informer(in_default));
//! factory.synced(Duration::from_secs(10)).await?;
//! assert_eq!(one.store().snapshot().generation(), other.store().snapshot().generation());
//! factory.stop().await;
//! # Ok(())
//! # }
//! ```

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use watchkeeper_client::{Client, DynamicApi, ResourceType};
use watchkeeper_meta::{FieldSelector, LabelSelector, Resource, Scope};
use watchkeeper_wire::{FieldMask, FieldMaskError};

use crate::api_source::ApiSource;
use crate::clock::{self, now};
use crate::informer::{Informer, InformerOptions, NotSyncedError, WeakInformer};
use crate::reflector::ObjectSource;
use crate::shard::ShardPart;
use crate::store::Transform;
use crate::view::{Untyped, View};

/// The objects to watch: of a Rust type, or of any resource, undecoded.
pub struct Selection<K: View = Untyped> {
    /// Their resource.
    pub resource: Resource,
    /// Their namespaces. Empty, or an empty name, means all.
    pub namespaces: Vec<String>,
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector.
    pub fields: FieldSelector,
    /// Only their `metadata`, at a fraction of the memory.
    pub metadata_only: bool,
    /// Only these fields; the others are dropped before an object is stored. See [`Selection::keeping`].
    pub keep: Option<FieldMask>,
    /// Only those of a shard.
    pub shard: Option<ShardPart>,
    /// The type readers get.
    #[doc(hidden)]
    pub view: PhantomData<fn() -> K>,
}

impl Selection {
    /// All objects of a Rust type: `Selection::of::<Pod>()`.
    pub fn of<K: ResourceType>() -> Selection<K> {
        Self::all(K::resource()).with_view()
    }

    /// All objects of a resource.
    pub fn all(resource: Resource) -> Self {
        Self {
            resource,
            namespaces: Vec::new(),
            labels: LabelSelector::default(),
            fields: FieldSelector::default(),
            metadata_only: false,
            keep: None,
            shard: None,
            view: PhantomData,
        }
    }
}

impl<K: View> Selection<K> {
    /// The same objects of a built-in kind with only these fields: `spec.containers.image`, through lists. Their
    /// identity is kept as well: all of `metadata` but annotations and managed fields, unless they are named.
    ///
    /// Readers, indexes, predicates and mappings see nothing else, and structs are decoded from it. Such an object must
    /// not be written back. For a custom kind, set `keep` to [`FieldMask::custom`].
    ///
    /// ```
    /// # use watchkeeper_meta::Resource;
    /// # use watchkeeper_runtime::factory::Selection;
    /// let pods = Selection::all(Resource::namespaced("", "v1", "Pod", "pods"));
    /// let pods = pods.keeping(["spec.nodeName", "status.phase"])?;
    /// let error = pods.keeping(["spec.nodename"]).unwrap_err();
    /// assert_eq!(error.to_string(), r#"Pod has no field "spec.nodename": did you mean "spec.nodeName"?"#);
    /// # Ok::<(), watchkeeper_wire::FieldMaskError>(())
    /// ```
    pub fn keeping<P: Into<String>>(
        self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, FieldMaskError> {
        let kind = self.resource.group_version_kind();
        let keep = FieldMask::new(&kind.api_version(), &kind.kind, paths)?;
        Ok(Self {
            keep: Some(keep),
            ..self
        })
    }

    /// The same objects, undecoded.
    pub fn untyped(self) -> Selection {
        self.with_view()
    }

    fn with_view<V: View>(self) -> Selection<V> {
        Selection {
            resource: self.resource,
            namespaces: self.namespaces,
            labels: self.labels,
            fields: self.fields,
            metadata_only: self.metadata_only,
            keep: self.keep,
            shard: self.shard,
            view: PhantomData,
        }
    }
}

impl<K: View> Clone for Selection<K> {
    fn clone(&self) -> Self {
        Self {
            resource: self.resource.clone(),
            namespaces: self.namespaces.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            metadata_only: self.metadata_only,
            keep: self.keep.clone(),
            shard: self.shard.clone(),
            view: PhantomData,
        }
    }
}

impl<K: View> fmt::Debug for Selection<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selection")
            .field("resource", &self.resource)
            .field("namespaces", &self.namespaces)
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("metadata_only", &self.metadata_only)
            .field("keep", &self.keep)
            .field("shard", &self.shard)
            .finish()
    }
}

impl Selection {
    /// The namespaces to watch, without duplicates; empty means all. An empty name also means all, as in Go.
    /// Cluster-scoped resources ignore namespaces: a store by namespace would not notice their deletions.
    fn namespaces_or(&self, default: &[String]) -> Vec<String> {
        let mut namespaces = match self.namespaces.as_slice() {
            [] => default.to_vec(),
            named => named.to_vec(),
        };
        if self.resource.scope == Scope::Cluster || namespaces.iter().any(String::is_empty) {
            namespaces.clear();
        }
        namespaces.sort();
        namespaces.dedup();
        namespaces
    }
}

/// Edits a selection before its informer is looked up or started, as client-go's `WithTweakListOptions`.
pub type Tweak = Arc<dyn Fn(&mut Selection) + Send + Sync>;

/// The defaults of a factory's informers and subscribers.
#[derive(Clone, Default)]
pub struct FactoryOptions {
    /// The options of informers.
    pub informer: InformerOptions,
    /// The default resync interval; `None` leaves it to `informer`. Subscribers and controllers can override it.
    pub resync: Option<Duration>,
    /// The resync interval of single resources; `None` is never.
    pub resync_by_resource: HashMap<Resource, Option<Duration>>,
    /// The namespaces to watch if a selection names none; for namespaced resources only.
    pub namespaces: Vec<String>,
    /// Edits every selection, for instance to add a label selector.
    pub tweak: Option<Tweak>,
}

impl FactoryOptions {
    /// The options of a resource's informer.
    fn of(&self, resource: &Resource) -> InformerOptions {
        let own = self.resync_by_resource.get(resource).copied();
        InformerOptions {
            resync: own.unwrap_or(self.resync.or(self.informer.resync)),
            ..self.informer.clone()
        }
    }
}

impl fmt::Debug for FactoryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryOptions")
            .field("informer", &self.informer)
            .field("resync", &self.resync)
            .field("resync_by_resource", &self.resync_by_resource)
            .field("namespaces", &self.namespaces)
            .finish_non_exhaustive()
    }
}

/// Creates and shares informers. Clones share them too.
#[derive(Clone)]
pub struct Factory {
    client: Client,
    options: Arc<FactoryOptions>,
    running: Arc<Mutex<HashMap<Identity, WeakInformer>>>,
}

/// The identity of a selection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    resource: Resource,
    namespaces: Vec<String>,
    labels: String,
    fields: String,
    metadata_only: bool,
    kept: Option<String>,
    shard: Option<String>,
}

impl Factory {
    /// A factory for one server.
    pub fn new(client: Client, options: FactoryOptions) -> Self {
        Self {
            client,
            options: Arc::new(options),
            running: Arc::default(),
        }
    }

    /// The client of the informers.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The informer of these objects: a running one, or a new one. Typed and untyped selections share it.
    pub fn informer<K: View>(&self, selection: Selection<K>) -> Informer<K> {
        self.shared(selection.untyped()).typed()
    }

    fn shared(&self, mut selection: Selection) -> Informer {
        if let Some(tweak) = &self.options.tweak {
            tweak(&mut selection);
        }
        selection.namespaces = selection.namespaces_or(&self.options.namespaces);
        let identity = Identity {
            resource: selection.resource.clone(),
            namespaces: selection.namespaces.clone(),
            labels: selection.labels.to_string(),
            fields: selection.fields.to_string(),
            metadata_only: selection.metadata_only,
            kept: selection.keep.as_ref().map(ToString::to_string),
            shard: selection.shard.as_ref().map(ToString::to_string),
        };
        let mut running = self.running.lock();
        if let Some(informer) = running.get(&identity).and_then(WeakInformer::upgrade) {
            return informer;
        }
        let informer = self.start(selection);
        running.retain(|_, informer| informer.is_running());
        running.insert(identity, informer.downgrade());
        informer
    }

    /// Waits up to `within` until every running informer has its first list. The error names the first that has not,
    /// and the reason.
    pub async fn synced(&self, within: Duration) -> Result<(), FactorySyncError> {
        let deadline = clock::after(now(), within);
        for (identity, informer) in self.informers() {
            let left = deadline.saturating_duration_since(now());
            informer.synced(left).await.map_err(|source| FactorySyncError {
                resource: identity.resource.group_resource().to_string(),
                source,
            })?;
        }
        Ok(())
    }

    /// Stops every running informer and waits until all have ended.
    pub async fn stop(&self) {
        for (_, informer) in self.informers() {
            informer.stop().await;
        }
        self.running.lock().retain(|_, informer| informer.is_running());
    }

    fn informers(&self) -> Vec<(Identity, Informer)> {
        let running = self.running.lock();
        let informers = running.iter();
        informers
            .filter_map(|(identity, informer)| Some((identity.clone(), informer.upgrade()?)))
            .collect()
    }

    fn start(&self, selection: Selection) -> Informer {
        let api = self.client.dynamic(selection.resource.clone());
        let api = if selection.metadata_only {
            api.metadata_only()
        } else {
            api
        };
        let source = |api: DynamicApi| -> Arc<ObjectSource> {
            let (labels, fields) = (selection.labels.clone(), selection.fields.clone());
            let source = ApiSource::selected(api, labels, fields);
            Arc::new(source.with_shard(selection.shard.clone()))
        };
        let mut options = self.options.of(&selection.resource);
        if let Some(mask) = selection.keep.clone() {
            options.transform = Some(masking(mask, options.transform.take()));
        }
        match selection.namespaces.as_slice() {
            [] => Informer::start(source(api.all_namespaces()), options),
            namespaces => {
                let one = |name: &String| (name.clone(), source(api.clone().namespace(name.as_str())));
                Informer::start_in_namespaces(namespaces.iter().map(one).collect(), options)
            }
        }
    }
}

/// A transform, if any, sees the whole object; then the mask is applied.
fn masking(mask: FieldMask, transform: Option<Transform>) -> Transform {
    Arc::new(move |object| match &transform {
        Some(transform) => transform(object).masked(&mask),
        None => object.masked(&mask),
    })
}

/// An informer did not get its first list in time.
#[derive(Clone, Debug, thiserror::Error)]
#[error("informer of {resource}")]
pub struct FactorySyncError {
    /// The resource it watches.
    pub resource: String,
    /// Its health.
    #[source]
    pub source: NotSyncedError,
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running.lock().len();
        f.debug_struct("Factory")
            .field("running", &running)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_named_once_and_only_where_there_are_any() {
        let check = |scope, named: &[&str], default: &[&str], expected: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            let resource = Resource {
                group: "".into(),
                version: "v1".into(),
                kind: "Thing".into(),
                plural: "things".into(),
                scope,
            };
            let selection = Selection {
                namespaces: owned(named),
                ..Selection::all(resource)
            };
            assert_eq!(
                selection.namespaces_or(&owned(default)),
                expected,
                "{named:?} {default:?}"
            );
        };
        check(Scope::Namespaced, &[], &[], &[]);
        check(Scope::Namespaced, &["b", "a", "b"], &["c"], &["a", "b"]);
        check(Scope::Namespaced, &[], &["c"], &["c"]);
        check(Scope::Namespaced, &[""], &["c"], &[]);
        check(Scope::Cluster, &[], &["c"], &[]);
        check(Scope::Cluster, &["a"], &[], &[]);
    }
}
