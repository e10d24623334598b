//! The controller of a Rust type: its objects, and those it owns or watches, are decoded.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use serde::{Deserialize, Serialize};
//! # use watchkeeper_client::{Client, ResourceType};
//! # use watchkeeper_meta::{ObjectMeta, Resource};
//! # use watchkeeper_runtime::factory::Factory;
//! use watchkeeper_runtime::controller::{Action, BoxError, Context, Controller};
//! # #[derive(Clone, Serialize, Deserialize)]
//! # struct Secret { metadata: ObjectMeta }
//! # impl ResourceType for Secret {
//! #     fn resource() -> Resource { Resource::namespaced("", "v1", "Secret", "secrets") }
//! # }
//! # #[derive(Clone, Serialize, Deserialize)]
//! # struct ConfigMap { metadata: ObjectMeta }
//! # impl ResourceType for ConfigMap {
//! #     fn resource() -> Resource { Resource::namespaced("", "v1", "ConfigMap", "configmaps") }
//! # }
//!
//! async fn reconcile(map: Arc<ConfigMap>, context: Context<ConfigMap>) -> Result<Action, BoxError> {
//!     let secrets = context.store_of::<Secret>()?; // read from the store, not from the server
//!     if secrets.get(&map.key()).is_none() {
//!         let mut secret = Secret { metadata: ObjectMeta::named(map.key().name()) };
//!         secret.metadata.owner_references.push(map.owner_reference().into());
//!         context.api::<Secret>().create(&secret).await?;
//!     }
//!     Ok(Action::Done)
//! }
//!
//! # async fn run(client: Client, shutdown: impl Future<Output = ()> + Send) {
//! let factory = Factory::new(client, Default::default());
//! let controller = Controller::<ConfigMap>::of(&factory).owns::<Secret>();
//! controller.run(reconcile, shutdown).await;
//! # }
//! ```

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_client::{Api, Client, ResourceType};
use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_wire::Object;

use super::trigger::{Mapping, controller_of};
use super::{
    Action, BoundController, BoxError, ControllerOptions, DynamicController, ReconcileHandle, Reconciler,
    Request, Stopped,
};
use crate::factory::{Factory, Selection};
use crate::finalizer::{self, FinalizerError, Phase};
use crate::informer::Informer;
use crate::shard::{Shard, ShardPart};
use crate::store::{Snapshot, Store};

/// The time a reconcile waits for the store to show its own write.
const READ_OWN_WRITES: Duration = Duration::from_secs(10);

/// A controller of a Rust type.
///
/// It is called for objects that exist and decode. A deleted object is not passed: use a finalizer to clean up
/// ([`Context::finalizer`]). An object that does not decode is reported once and reconciled after it has changed.
pub struct Controller<K: ResourceType> {
    name: String,
    factory: Factory,
    primary: Informer<K>,
    others: Vec<Other>,
    options: ControllerOptions,
    /// The shard to which its objects, and those it owns, belong.
    shard: Option<Shard>,
}

/// Another kind that triggers reconciles.
struct Other {
    resource: Resource,
    informer: Informer,
    mapping: Mapping,
}

impl<K: ResourceType> Controller<K> {
    /// A controller of all objects of the kind, named after it: `website`.
    pub fn of(factory: &Factory) -> Self {
        Self::of_selected(factory, Selection::of::<K>())
    }

    /// A controller of some objects of the kind.
    pub fn of_selected(factory: &Factory, selection: Selection<K>) -> Self {
        Self {
            name: selection.resource.kind.to_lowercase(),
            factory: factory.clone(),
            primary: factory.informer(selection),
            others: Vec::new(),
            options: ControllerOptions::default(),
            shard: None,
        }
    }

    /// A controller of the objects of one shard.
    pub(crate) fn of_shard(factory: &Factory, shard: Shard) -> Self {
        let selection = Selection {
            shard: Some(ShardPart::Own(shard.clone())),
            ..Selection::of::<K>()
        };
        Self {
            shard: Some(shard),
            ..Self::of_selected(factory, selection)
        }
    }

    /// Sets the name in logs and metrics, for a second controller of the same kind.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// Sets the options.
    pub fn with(self, options: ControllerOptions) -> Self {
        Self { options, ..self }
    }

    /// Also reconciles the controller of a changed object of this kind (see [`ResourceType::owner_reference`]).
    pub fn owns<C: ResourceType>(self) -> Self {
        self.owns_selected(Selection::of::<C>())
    }

    /// Like [`owns`](Self::owns), for some objects of the other kind.
    pub fn owns_selected<C: ResourceType>(self, selection: Selection<C>) -> Self {
        let mapping = controller_of(&K::resource());
        let selection = Selection {
            shard: self.shard.clone().map(ShardPart::owned),
            ..selection
        };
        self.other(selection, |_| mapping)
    }

    /// Also reconciles the objects `keys` returns for a changed object of another kind. For an update or a delete it
    /// is called with both states, so that an object that is no longer referred to is reconciled too.
    pub fn watches<C: ResourceType>(
        self,
        keys: impl Fn(&C) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.watches_selected(Selection::of::<C>(), keys)
    }

    /// Like [`watches`](Self::watches), for some objects of the other kind.
    pub fn watches_selected<C: ResourceType>(
        self,
        selection: Selection<C>,
        keys: impl Fn(&C) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.other(selection, move |store| {
            Arc::new(move |object| {
                let found = store.read(object);
                found.map_or_else(Vec::new, |found| keys(&found))
            })
        })
    }

    /// Sets the reconciler: an async function from an object to an action or any error.
    pub fn reconcile<F, R, E>(self, reconcile: F) -> BoundController
    where
        F: Fn(Arc<K>, Context<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send,
        E: Into<BoxError>,
    {
        let others = self.others.iter();
        let others = others.map(|other| (other.resource.clone(), other.informer.clone()));
        let mut controller = DynamicController::new(self.name, self.primary.untyped(), self.options);
        let surroundings = Arc::new(Surroundings {
            client: self.factory.client().clone(),
            store: self.primary.store().clone(),
            handle: controller.handle(),
            others: others.collect(),
        });
        for Other {
            informer, mapping, ..
        } in self.others
        {
            controller = controller.watches(informer, mapping, None);
        }
        controller.reconcile(Typed {
            reconcile,
            surroundings,
        })
    }

    /// Runs until `shutdown` completes or the informer of the kind ends.
    pub async fn run<F, R, E>(self, reconcile: F, shutdown: impl Future<Output = ()> + Send) -> Stopped
    where
        F: Fn(Arc<K>, Context<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send,
        E: Into<BoxError>,
    {
        self.reconcile(reconcile).run(shutdown).await
    }

    fn other<C: ResourceType>(
        mut self,
        selection: Selection<C>,
        mapping: impl FnOnce(Store<C>) -> Mapping,
    ) -> Self {
        let informer = self.factory.informer(selection);
        self.others.push(Other {
            resource: C::resource(),
            mapping: mapping(informer.store().clone()),
            informer: informer.untyped(),
        });
        self
    }
}

/// The state shared by all reconciles of a controller.
struct Surroundings<K: ResourceType> {
    client: Client,
    store: Store<K>,
    handle: ReconcileHandle,
    others: Vec<(Resource, Informer)>,
}

/// Adapts a function over structs to a reconciler of objects.
struct Typed<K: ResourceType, F> {
    reconcile: F,
    surroundings: Arc<Surroundings<K>>,
}

impl<K, F, R, E> Reconciler for Typed<K, F>
where
    K: ResourceType,
    F: Fn(Arc<K>, Context<K>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError>,
{
    type Error = E;

    async fn reconcile(&self, request: Request) -> Result<Action, E> {
        let Some(object) = request.object else {
            return Ok(Action::Done);
        };
        let Some(decoded) = self.surroundings.store.read(&object) else {
            return Ok(Action::Done);
        };
        let context = Context {
            client: request.writes.client(&self.surroundings.client),
            surroundings: self.surroundings.clone(),
            key: request.key,
            object,
            attempts: request.attempts,
        };
        (self.reconcile)(decoded, context).await
    }
}

/// The context of one reconcile.
pub struct Context<K: ResourceType> {
    surroundings: Arc<Surroundings<K>>,
    client: Client,
    key: ObjectKey,
    object: Object,
    attempts: u32,
}

/// The controller neither owns nor watches the kind, so it has no store of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller neither owns nor watches {kind}")]
pub struct NotWatchedError {
    /// The Rust type.
    pub kind: &'static str,
}

impl<K: ResourceType> Context<K> {
    /// The key of the object.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The undecoded object, for fields the struct does not have.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The number of failures since the last success.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The client of the controller's factory. The next reconcile of this object sees its writes.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The API of a kind in the object's namespace. Reads and writes go to the server.
    pub fn api<C: ResourceType>(&self) -> Api<C> {
        self.client().api().namespace(self.key.namespace())
    }

    /// The informer's store of the reconciled kind.
    pub fn store(&self) -> &Store<K> {
        &self.surroundings.store
    }

    /// The informer's store of another kind that the controller owns or watches.
    pub fn store_of<C: ResourceType>(&self) -> Result<Store<C>, NotWatchedError> {
        let (resource, others) = (C::resource(), &self.surroundings.others);
        let found = others.iter().find(|(watched, _)| *watched == resource);
        match found {
            Some((_, informer)) => Ok(informer.store().typed()),
            None if resource == K::resource() => Ok(self.store().untyped().typed()),
            None => Err(NotWatchedError {
                kind: type_name::<C>(),
            }),
        }
    }

    /// A handle to request further reconciles.
    pub fn handle(&self) -> &ReconcileHandle {
        &self.surroundings.handle
    }

    /// Protects the object with a finalizer until its clean-up has succeeded; see [`crate::finalizer`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use watchkeeper_client::ResourceType;
    /// use watchkeeper_runtime::controller::{Action, BoxError, Context};
    /// use watchkeeper_runtime::finalizer::Phase;
    ///
    /// # async fn example<Website: ResourceType>(site: Arc<Website>, context: Context<Website>) -> Result<Action, BoxError> {
    /// # async fn publish<T>(_: T) -> Result<Action, BoxError> { Ok(Action::Done) }
    /// # async fn take_down<T>(_: T) -> Result<Action, BoxError> { Ok(Action::Done) }
    /// let action = context.finalizer("example.com/cleanup", async |phase| match phase {
    ///     Phase::Apply(site) => publish(site).await,
    ///     Phase::Cleanup(site) => take_down(site).await,
    /// });
    /// Ok(action.await?)
    /// # }
    /// ```
    pub async fn finalizer<E: Into<BoxError>>(
        &self,
        finalizer: &str,
        reconcile: impl AsyncFnOnce(Phase<Arc<K>>) -> Result<Action, E>,
    ) -> Result<Action, FinalizerError> {
        let api = self
            .client()
            .dynamic(K::resource())
            .namespace(self.key.namespace());
        // An error, not skipped: without a clean-up the finalizer must stay.
        let read = |object: Object| self.store().read(&object).ok_or("the object does not decode");
        let mut cleaned_up = false;
        let typed = async |phase| {
            let phase = match phase {
                Phase::Apply(object) => Phase::Apply(read(object)?),
                Phase::Cleanup(object) => Phase::Cleanup(read(object)?),
            };
            cleaned_up = matches!(phase, Phase::Cleanup(_));
            reconcile(phase).await.map_err(Into::into)
        };
        let action = finalizer::finalizer::<BoxError>(&api, finalizer, self.object.clone(), typed).await?;
        if cleaned_up {
            self.outdated().await;
        }
        Ok(action)
    }

    /// Waits until the store shows another state of the object, or none. Otherwise the next reconcile would clean up
    /// again.
    async fn outdated(&self) {
        let is_another = |state: &Snapshot| {
            let present = state.get(&self.key);
            present.is_none_or(|present| !present.is_same_version(&self.object))
        };
        // After the timeout the reconcile may be called once too often, which it must tolerate.
        let _ = tokio::time::timeout(READ_OWN_WRITES, self.store().wait_until(is_another)).await;
    }
}

impl<K: ResourceType> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self {
            surroundings: self.surroundings.clone(),
            client: self.client.clone(),
            key: self.key.clone(),
            object: self.object.clone(),
            attempts: self.attempts,
        }
    }
}

impl<K: ResourceType> fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("key", &self.key)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

impl<K: ResourceType> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("others", &self.others.len())
            .finish_non_exhaustive()
    }
}
