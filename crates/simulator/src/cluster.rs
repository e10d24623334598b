//! What every controller here needs: the server, shared informers, and the few calls they all make.
//!
//! Controllers read what the informers keep, which may be behind. A write here is therefore done only when the
//! informer of its kind shows it: whoever looks next counts it, and nothing is created or deleted twice.

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

/// So long a reconcile waits until its own write is in the store. Should it go on without, a stale write is refused.
const CATCH_UP: Duration = Duration::from_secs(30);

/// Who the simulator says it is in managed fields.
const MANAGER: &str = "watchkeeper-simulator";

/// The index of objects by the uid of their controller; those that have none are under no name.
const BY_CONTROLLER: &str = "controller-uid";

/// Something that runs until the simulation is stopped.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The server and what is known of it.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) events: Events,
    factory: Factory,
    /// Held here, so that an informer lives as long as the simulation and not as long as one look at it.
    informers: Arc<Mutex<HashMap<Resource, Informer>>>,
    /// Says when the simulation ends.
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

    /// Stops all informers, lets Events be written that wait, and waits for both.
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
        // The informer is new: nobody can have added the index before.
        let _ = informer.store().add_index(BY_CONTROLLER, move |object| {
            vec![controller(object).unwrap_or_default()]
        });
        informer
    }

    /// What is known of a resource at this moment.
    pub(crate) fn snapshot(&self, resource: &Resource) -> Arc<Snapshot> {
        self.informer(resource).store().snapshot()
    }

    /// The objects that another one controls.
    pub(crate) fn controlled_by(&self, owner: &Object, resource: &Resource) -> Vec<Item> {
        let snapshot = self.snapshot(resource);
        match snapshot.by_index(BY_CONTROLLER, owner.uid()) {
            Ok(owned) => owned.map(Item::read).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// The objects that belong to another one by its selector and their name: those it controls, and those that
    /// nobody does, which it adopts. One that it controls and that has other labels now is released.
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

    /// Whether an object is there and not being deleted, as the server has it: who adopts must not be on its way out.
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

    /// The objects of a resource in a namespace.
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

    /// Changes fields of exactly the object that was seen.
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

    /// The same with entries of lists, such as one of several owners.
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

    /// Changes annotations by way of the status: they are nothing that is wanted, so there is no new generation.
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

    /// Tells the status of an object, unless it says all of this. One that is gone needs none.
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
        // What was counted must be seen as counted: a job would otherwise run once more.
        if let Ok(patched) = &patched {
            self.catch_up(resource, patched).await;
        }
        ignore_gone(patched.map(drop))
    }

    /// Puts another status in the place of the one that was seen. If somebody has changed the object meanwhile, it is to be
    /// looked at again.
    pub(crate) async fn replace_status(
        &self,
        resource: &Resource,
        item: &Item,
        status: Value,
    ) -> Result<(), Error> {
        let mut object = item.value().clone();
        object["status"] = status;
        let api = self.api(resource, item.namespace()).subresource("status");
        let updated = api.update(item.name(), &object).with(&update_options()).await;
        if let Ok(updated) = &updated {
            self.catch_up(resource, updated).await;
        }
        ignore_gone(updated.map(drop))
    }

    /// Puts another object in the place of the one that was seen. If somebody has changed it meanwhile, it is to be looked
    /// at again.
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

    /// Deletes exactly the object that was seen; one that is gone is no error.
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

    /// Takes away what keeps an object from going, if it has it. Somebody who adds a finalizer meanwhile wins.
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

    /// Waits until the informer of a resource knows what was written, or does not seem to learn of it.
    async fn catch_up(&self, resource: &Resource, written: &Object) {
        if let Some(informer) = self.known_informer(resource) {
            let version = written.version();
            let caught_up = informer.store().wait_for(&version, CATCH_UP);
            self.unless_stopped(caught_up).await;
        }
    }

    /// Waits until the informer of a resource, if there is one, shows something.
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

    /// A controller of a resource, which may be given more to watch before it is run.
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

    /// Runs a controller until it is told to stop.
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
        let reconciler = Reconcile(move |request| reconcile(cluster.clone(), request));
        Box::pin(async move {
            controller.run(reconciler, stopped).await;
        })
    }

    /// Leads from an object to those of a resource, in its namespace, that select it by its labels.
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

    /// Leads from an object that nobody controls to the workloads that may adopt it.
    pub(crate) fn adopting(&self, resource: &Resource) -> Mapping {
        let selecting = self.selecting(resource, workload_selector);
        Arc::new(move |object| match object.controller() {
            Some(_) => Vec::new(),
            None => selecting(object),
        })
    }

    /// Leads from any object to all objects of a resource in its namespace, or to all there are from one that has
    /// none.
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

/// A reconcile function with what it needs.
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

/// What is gone already is as good as done. A conflict is not: what was seen is out of date, and is looked at again.
pub(crate) fn ignore_gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        result => result,
    }
}

/// Which objects a workload means. A replication controller's selector is a plain map of labels.
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
