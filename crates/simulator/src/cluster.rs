//! The environment of all controllers: the server, shared informers, and common requests.
//!
//! Controllers read the informers' stores, which may lag behind. A write here therefore returns only when the store
//! shows it: the next reconcile sees it, and nothing is created or deleted twice.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watchkeeper_client::{Client, DynamicApi, Error};
use watchkeeper_meta::{
    CreateOptions, DeleteOptions, LabelSelector, ObjectKey, PatchKind, PatchOptions, Preconditions,
    PropagationPolicy, Resource, UpdateOptions,
};
use watchkeeper_runtime::controller::{
    Action, ControllerOptions, DynamicController, Mapping, Reconciler, Request,
};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::informer::Informer;
use watchkeeper_runtime::store::Snapshot;
use watchkeeper_wire::Object;
use watchkeeper_wire::schema::resources;

use crate::events::Events;
use crate::item::Item;

/// The time a reconcile waits for its own write to appear in the store. After that, a stale write is refused by the
/// server.
const CATCH_UP: Duration = Duration::from_secs(30);

/// The simulator's field manager.
const MANAGER: &str = "watchkeeper-simulator";

/// The index of objects by the uid of their controller; those without one are under the empty value.
const BY_CONTROLLER: &str = "controller-uid";

/// A task that runs until the simulation is stopped.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The server and its informers.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) events: Events,
    factory: Factory,
    /// Held here, so that an informer lives as long as the simulation.
    informers: Arc<Mutex<HashMap<Resource, Informer>>>,
    /// Cancelled when the simulation ends.
    pub(crate) stop: CancellationToken,
}

impl Cluster {
    pub(crate) fn new(client: Client) -> Self {
        let factory = Factory::new(client.clone(), FactoryOptions::default());
        Self {
            events: Events::new(client.clone()),
            client,
            factory,
            informers: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Stops all informers, writes queued Events, and waits for both.
    pub(crate) async fn finish(&self) {
        self.events.stop().await;
        self.factory.stop().await;
        self.informers.lock().clear();
    }

    /// The shared informer of a resource.
    pub(crate) fn informer(&self, resource: &Resource) -> Informer {
        let mut informers = self.informers.lock();
        if let Some(informer) = informers.get(resource) {
            return informer.clone();
        }
        let informer = self.factory.informer(Selection::all(resource.clone()));
        informers.insert(resource.clone(), informer.clone());
        let controller = |object: &Object| object.controller().map(|owner| owner.uid.into_owned());
        // The informer is new: the index cannot exist yet.
        let _ = informer.store().add_index(BY_CONTROLLER, move |object| {
            vec![controller(object).unwrap_or_default()]
        });
        informer
    }

    /// The current snapshot of a resource.
    pub(crate) fn snapshot(&self, resource: &Resource) -> Arc<Snapshot> {
        self.informer(resource).store().snapshot()
    }

    /// The objects controlled by `owner`.
    pub(crate) fn controlled_by(&self, owner: &Object, resource: &Resource) -> Vec<Item> {
        let snapshot = self.snapshot(resource);
        match snapshot.by_index(BY_CONTROLLER, owner.uid()) {
            Ok(owned) => owned.map(Item::read).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// The objects that belong to a workload by its selector and their name: those it controls, and those without a
    /// controller, which it adopts. A controlled object that no longer matches is released.
    pub(crate) async fn claim(
        &self,
        owner: &Item,
        resource: &Resource,
        is_member: impl Fn(&Object) -> bool,
    ) -> Result<Vec<Item>, Error> {
        let Some(selector) = workload_selector(owner) else {
            return Ok(self.controlled_by(owner, resource));
        };
        let (mut own, strangers): (Vec<Item>, Vec<Item>) = self
            .controlled_by(owner, resource)
            .into_iter()
            .partition(|item| item.is_deleting() || selector.matches(&item.header()));
        for stranger in strangers {
            let free = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner.uid()}]}});
            ignore_gone(self.merge_lists(resource, &stranger, free).await.map(drop))?;
        }
        let snapshot = self.snapshot(resource);
        let orphans = snapshot.by_index(BY_CONTROLLER, "").into_iter().flatten();
        let near = orphans.filter(|orphan| orphan.namespace() == owner.namespace());
        for orphan in near.filter(|orphan| !orphan.is_deleting() && is_member(orphan)) {
            if selector.matches(&orphan.header()) && self.is_living(owner).await? {
                let owned = json!({"metadata": {"ownerReferences": [owner.as_controller()]}});
                own.push(Item::read(&self.merge_lists(resource, orphan, owned).await?));
            }
        }
        Ok(own)
    }

    /// True if an object exists on the server and is not being deleted: only such an owner may adopt.
    async fn is_living(&self, object: &Item) -> Result<bool, Error> {
        let kind = object.group_version_kind();
        let Some(known) = resources::by_kind(&kind.group, &kind.version, &kind.kind) else {
            return Ok(false);
        };
        let found = self
            .api(&known.resource, object.namespace())
            .get(object.name())
            .await;
        match found {
            Err(error) if error.is_not_found() => Ok(false),
            found => found.map(|found| found.uid() == object.uid() && !found.is_deleting()),
        }
    }

    /// The API of a resource in a namespace.
    pub(crate) fn api(&self, resource: &Resource, namespace: &str) -> DynamicApi {
        match namespace {
            "" => self.client.dynamic(resource.clone()),
            namespace => self.client.dynamic(resource.clone()).namespace(namespace),
        }
    }

    /// Creates an object.
    pub(crate) async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
    ) -> Result<Object, Error> {
        object["apiVersion"] = json!(resource.group_version_kind().api_version());
        object["kind"] = json!(resource.kind);
        let options = CreateOptions {
            field_manager: Some(MANAGER.to_owned()),
            ..Default::default()
        };
        let created = self
            .api(resource, namespace)
            .create(&object)
            .with(&options)
            .await?;
        self.catch_up(resource, &created).await;
        Ok(created)
    }

    /// Merge-patches an object, if it is still the one that was seen.
    pub(crate) async fn merge(
        &self,
        resource: &Resource,
        object: &Object,
        patch: Value,
    ) -> Result<Object, Error> {
        let api = self.api(resource, object.namespace());
        self.merge_by(api, PatchKind::Merge, resource, object, patch)
            .await
    }

    /// Strategic-merge-patches an object, for lists such as the owner references.
    pub(crate) async fn merge_lists(
        &self,
        resource: &Resource,
        object: &Object,
        patch: Value,
    ) -> Result<Object, Error> {
        let api = self.api(resource, object.namespace());
        self.merge_by(api, PatchKind::Strategic, resource, object, patch)
            .await
    }

    /// Sets annotations through the status subresource, which keeps the generation.
    pub(crate) async fn note(
        &self,
        resource: &Resource,
        object: &Object,
        annotations: Value,
    ) -> Result<Object, Error> {
        let api = self.api(resource, object.namespace()).subresource("status");
        let patch = json!({"metadata": {"annotations": annotations}});
        self.merge_by(api, PatchKind::Merge, resource, object, patch)
            .await
    }

    async fn merge_by(
        &self,
        api: DynamicApi,
        kind: PatchKind,
        resource: &Resource,
        object: &Object,
        mut patch: Value,
    ) -> Result<Object, Error> {
        patch["metadata"]["uid"] = json!(object.uid());
        let patched = api
            .patch(object.name(), kind, &patch)
            .with(&patch_options())
            .await?;
        self.catch_up(resource, &patched).await;
        Ok(patched)
    }

    /// Updates the status of an object, unless it already contains this. A missing object is ignored.
    pub(crate) async fn report(&self, resource: &Resource, item: &Item, status: Value) -> Result<(), Error> {
        if item.says(&status) {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": item.uid()}, "status": status});
        let api = self.api(resource, item.namespace()).subresource("status");
        let patched = api
            .patch(item.name(), PatchKind::Merge, &patch)
            .with(&patch_options())
            .await;
        // The store must show the counts: a job would otherwise run again.
        if let Ok(patched) = &patched {
            self.catch_up(resource, patched).await;
        }
        ignore_gone(patched.map(drop))
    }

    /// Replaces the status of an object. If the object has changed meanwhile, the conflict causes a retry.
    pub(crate) async fn replace_status(
        &self,
        resource: &Resource,
        item: &Item,
        status: Value,
    ) -> Result<(), Error> {
        self.replace_status_of(resource, item, "status", status).await
    }

    /// Replaces the status of an object through a subresource.
    pub(crate) async fn replace_status_of(
        &self,
        resource: &Resource,
        item: &Item,
        subresource: &str,
        status: Value,
    ) -> Result<(), Error> {
        let mut object = item.value().clone();
        object["status"] = status;
        let api = self.api(resource, item.namespace()).subresource(subresource);
        let updated = api.update(item.name(), &object).with(&update_options()).await;
        if let Ok(updated) = &updated {
            self.catch_up(resource, updated).await;
        }
        ignore_gone(updated.map(drop))
    }

    /// Replaces an object. If it has changed meanwhile, the conflict causes a retry.
    pub(crate) async fn replace(
        &self,
        resource: &Resource,
        item: &Item,
        change: impl FnOnce(&mut Value),
    ) -> Result<Object, Error> {
        let mut object = item.value().clone();
        change(&mut object);
        let api = self.api(resource, item.namespace());
        let updated = api.update(item.name(), &object).with(&update_options()).await?;
        self.catch_up(resource, &updated).await;
        Ok(updated)
    }

    /// Deletes exactly the object that was seen; a missing one is not an error.
    pub(crate) async fn delete(
        &self,
        resource: &Resource,
        object: &Object,
        grace: Option<i64>,
    ) -> Result<(), Error> {
        let options = DeleteOptions {
            grace_period_seconds: grace,
            preconditions: Preconditions {
                uid: Some(object.uid().to_owned()),
                ..Default::default()
            },
            propagation_policy: Some(PropagationPolicy::Background),
            ..Default::default()
        };
        let api = self.api(resource, object.namespace());
        let deleted = api.delete(object.name()).with(&options).await;
        ignore_gone(deleted.map(drop))?;
        self.see(resource, |objects| {
            let known = objects.find(object.namespace(), object.name());
            known.is_none_or(|known| known.uid() != object.uid() || known.is_deleting())
        })
        .await;
        Ok(())
    }

    /// Removes a finalizer from an object, if it has it. A concurrent change of the finalizers wins.
    pub(crate) async fn drop_finalizer(
        &self,
        resource: &Resource,
        object: &Object,
        finalizer: &str,
    ) -> Result<(), Error> {
        let finalizers = object.finalizers();
        let left: Vec<_> = finalizers.iter().filter(|name| *name != finalizer).collect();
        if left.len() == finalizers.len() {
            return Ok(());
        }
        let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": left}});
        ignore_gone(self.merge(resource, object, patch).await.map(drop))
    }

    /// Waits until the store of a resource shows a write, up to a limit.
    async fn catch_up(&self, resource: &Resource, written: &Object) {
        if let Some(informer) = self.known_informer(resource) {
            let version = written.version();
            let caught_up = informer.store().wait_for(&version, CATCH_UP);
            self.unless_stopped(caught_up).await;
        }
    }

    /// Waits until the store of a resource, if there is one, meets a condition.
    pub(crate) async fn see(&self, resource: &Resource, condition: impl Fn(&Snapshot) -> bool) {
        if let Some(informer) = self.known_informer(resource) {
            self.unless_stopped(informer.store().wait_until(condition)).await;
        }
    }

    fn known_informer(&self, resource: &Resource) -> Option<Informer> {
        self.informers.lock().get(resource).cloned()
    }

    async fn unless_stopped<T>(&self, wait: impl Future<Output = T>) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = wait => {}
        }
    }

    /// A controller of a resource; more triggers may be added before it is run.
    pub(crate) fn controller(&self, name: &str, resource: &Resource) -> DynamicController {
        DynamicController::new(name, self.informer(resource), ControllerOptions::default())
    }

    /// Runs a controller until the simulation ends.
    pub(crate) fn run<F, R>(&self, controller: DynamicController, reconcile: F) -> Task
    where
        F: Fn(Cluster, Request) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, Error>> + Send,
    {
        self.run_until(self.stop.clone(), controller, reconcile)
    }

    /// Runs a controller until it is stopped.
    pub(crate) fn run_until<F, R>(
        &self,
        stop: CancellationToken,
        controller: DynamicController,
        reconcile: F,
    ) -> Task
    where
        F: Fn(Cluster, Request) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, Error>> + Send,
    {
        let cluster = self.clone();
        let stopped = stop.cancelled_owned();
        let reconcile = Arc::new(reconcile);
        let reconciler = Reconcile(move |request| {
            let (cluster, reconcile) = (cluster.clone(), reconcile.clone());
            async move {
                let stop = cluster.stop.clone();
                unless_ended(&stop, || reconcile(cluster, request)).await
            }
        });
        Box::pin(async move {
            controller.run(reconciler, stopped).await;
        })
    }

    /// Maps an object to those of a resource, in its namespace, whose selectors match it.
    pub(crate) fn selecting(
        &self,
        resource: &Resource,
        selector: fn(&Item) -> Option<LabelSelector>,
    ) -> Mapping {
        let store = self.informer(resource).store().clone();
        Arc::new(move |object| {
            let snapshot = store.snapshot();
            let near = snapshot.in_namespace(object.namespace());
            let selects = |other: &&Object| {
                let selector = selector(&Item::read(other));
                selector.is_some_and(|selector| selector.matches(&object.header()))
            };
            near.filter(selects).map(Object::key).collect()
        })
    }

    /// Maps an object without a controller to the workloads that may adopt it.
    pub(crate) fn adopting(&self, resource: &Resource) -> Mapping {
        let selecting = self.selecting(resource, workload_selector);
        Arc::new(move |object| match object.controller() {
            Some(_) => Vec::new(),
            None => selecting(object),
        })
    }

    /// Maps any object to all objects of a resource in its namespace; a cluster-scoped object to all of them.
    pub(crate) fn all_of(&self, resource: &Resource) -> Mapping {
        let store = self.informer(resource).store().clone();
        Arc::new(move |object| {
            let snapshot = store.snapshot();
            let keys = snapshot.keys();
            keys.filter(|key| object.namespace().is_empty() || key.namespace() == object.namespace())
                .collect()
        })
    }
}

/// Reconciles, unless the simulation has ended. Then nobody waits for the stores to show writes: a reconcile that starts
/// now would read what the one before it has already changed.
async fn unless_ended<R>(stop: &CancellationToken, reconcile: impl FnOnce() -> R) -> Result<Action, Error>
where
    R: Future<Output = Result<Action, Error>>,
{
    match stop.is_cancelled() {
        true => Ok(Action::Done),
        false => reconcile().await,
    }
}

/// A reconcile function as a reconciler.
struct Reconcile<F>(F);

impl<F, R> Reconciler for Reconcile<F>
where
    F: Fn(Request) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, Error>> + Send,
{
    type Error = Error;

    fn reconcile(&self, request: Request) -> impl Future<Output = Result<Action, Error>> + Send {
        (self.0)(request)
    }
}

fn update_options() -> UpdateOptions {
    UpdateOptions {
        field_manager: Some(MANAGER.to_owned()),
        ..Default::default()
    }
}

fn patch_options() -> PatchOptions {
    PatchOptions {
        field_manager: Some(MANAGER.to_owned()),
        ..Default::default()
    }
}

/// Ignores that an object is gone. A conflict is kept: it causes a retry.
pub(crate) fn ignore_gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        result => result,
    }
}

/// The selector of a workload. That of a replication controller is a plain map of labels.
pub(crate) fn workload_selector(workload: &Item) -> Option<LabelSelector> {
    let selector = workload.at("/spec/selector");
    if workload.kind() != "ReplicationController" {
        return LabelSelector::from_json(selector).ok();
    }
    let labels = selector.as_object()?.iter();
    let labels = labels.filter_map(|(name, value)| Some((name, value.as_str()?)));
    LabelSelector::from_labels(labels).ok()
}

/// The key of another object in the same namespace.
pub(crate) fn neighbour(object: &Object, name: &str) -> ObjectKey {
    ObjectKey::new(object.namespace(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_reconcile_starts_after_the_end_of_the_simulation() {
        let stop = CancellationToken::new();
        let reconcile = || std::future::ready(Ok(Action::After(CATCH_UP)));
        let during = unless_ended(&stop, reconcile).await.unwrap();
        assert!(matches!(during, Action::After(_)));
        stop.cancel();
        let after = unless_ended(&stop, reconcile).await.unwrap();
        assert!(matches!(after, Action::Done));
    }
}
