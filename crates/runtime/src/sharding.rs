//! Sharded controllers: replicas divide the objects of a kind among themselves.
//!
//! ```text
//!   object ──hash of its uid──▶ shard (a range of hashes, one Lease each) ──▶ replica (the holder of the Lease)
//! ```
//!
//! The number of shards is fixed, for instance four times the number of replicas. Each replica announces itself with a
//! Lease of its own. From the live replicas, each computes the same assignment of shards ([`assignment`]), acquires
//! the Leases of its own shards and releases those that another replica should have. For each shard it holds, it runs
//! a controller with informers of that shard's objects only, so its memory is proportional to its share.
//!
//! Guarantees:
//! - **No overlap.** A shard's controller runs only while its Lease is held, by the rules of
//!   [leader election](crate::leader): it is stopped, or dropped, before another replica can hold it. Replicas that
//!   disagree about the assignment only wait for each other.
//! - **No gap.** A new holder lists the shard and reconciles every object of it.
//! - A replica that ends hands over at once, one that crashes after the lease duration.
//! - Few shards move when a replica comes or goes.
//!
//! `shardSelector` (KEP-5866) asks the server for one shard only. A server without it returns everything, which is
//! filtered here: the memory is the same, the traffic is not. Objects of an owned kind belong to the shard of their
//! controller; if objects are hashed by uid, they are filtered here in any case.
//!
//! An object that is deleted and created again has another uid and may be in another shard: the replica of the old
//! one may still be ending a reconcile then. Finalizers exclude it, and so does hashing by namespace.

mod members;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use watchkeeper_client::{Client, DynamicApi, Error, ResourceType};
use watchkeeper_meta::{
    Collect, DeleteOptions, LabelSelector, ListOptions, MetricKind, MetricsText, PatchKind, Preconditions,
    Resource, ShardField, shard_hash,
};
use watchkeeper_wire::Object;

use self::members::Members;
use crate::controller::{BoundController, Controller};
use crate::factory::Factory;
use crate::leader::{
    LEASE_DURATION, LeaderElector, LeaderOptions, LeaderOptionsError, RENEW_DEADLINE, RETRY_PERIOD,
};
use crate::metrics::Metrics;

pub use crate::shard::{Shard, ShardPart};
pub use members::assignment;

/// The most shards of a controller. Each has a Lease that is renewed every few seconds.
pub const MOST_SHARDS: u32 = 1024;

/// The label of the Leases by which replicas announce themselves; its value is the name of the sharded controller.
pub const MEMBER_LABEL: &str = "watchkeeper.dev/sharded-controller";

/// The annotation with the number of shards a replica was started with.
pub const SHARDS_ANNOTATION: &str = "watchkeeper.dev/shards";

/// Options of a sharded controller, equal in all replicas but for the identity.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// The prefix of the Leases: a DNS label of at most 40 characters.
    pub name: String,
    /// The identity of this replica, unique per process; for example host name and a random suffix.
    pub identity: String,
    /// The namespace of the Leases.
    pub namespace: String,
    /// The number of shards. To change it, replicas with the old number must end first: a replica with another number
    /// than the one that has been running the longest waits.
    pub shards: u32,
    /// The hashed field. By namespace, owned objects are selected by the server as well, and objects of one namespace
    /// stay together.
    pub by: ShardField,
    /// As in [`LeaderOptions::lease_duration`].
    pub lease_duration: Duration,
    /// As in [`LeaderOptions::renew_deadline`].
    pub renew_deadline: Duration,
    /// The interval at which Leases are renewed and the other replicas are looked at.
    pub retry_period: Duration,
}

impl ShardOptions {
    /// By uid, with Leases in the namespace `default` and client-go's durations.
    pub fn new(name: impl Into<String>, identity: impl Into<String>, shards: u32) -> Self {
        Self {
            name: name.into(),
            identity: identity.into(),
            namespace: "default".to_owned(),
            shards,
            by: ShardField::Uid,
            lease_duration: LEASE_DURATION,
            renew_deadline: RENEW_DEADLINE,
            retry_period: RETRY_PERIOD,
        }
    }
}

/// Options that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardOptionsError {
    /// No shards, or too many.
    #[error("the number of shards must be from 1 to {MOST_SHARDS}")]
    Shards,
    /// The name is no prefix of a Lease's name.
    #[error("the name must be a DNS label of at most 40 characters")]
    Name,
    /// The durations or the identity.
    #[error(transparent)]
    Leases(#[from] LeaderOptionsError),
}

impl<K: ResourceType> Controller<K> {
    /// A controller of all objects of the kind, divided among replicas. `build` completes the controller of a shard:
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use serde::{Deserialize, Serialize};
    /// # use watchkeeper_client::ResourceType;
    /// # use watchkeeper_meta::{ObjectMeta, Resource};
    /// # use watchkeeper_runtime::controller::{Action, BoxError, Context, Controller};
    /// # use watchkeeper_runtime::factory::Factory;
    /// # use watchkeeper_runtime::sharding::ShardOptions;
    /// # #[derive(Clone, Serialize, Deserialize)]
    /// # struct Website { metadata: ObjectMeta }
    /// # impl ResourceType for Website {
    /// #     fn resource() -> Resource { Resource::namespaced("example.com", "v1", "Website", "websites") }
    /// # }
    /// # async fn reconcile(_: Arc<Website>, _: Context<Website>) -> Result<Action, BoxError> { Ok(Action::Done) }
    /// # async fn run(factory: Factory, pod: String) -> Result<(), Box<dyn std::error::Error>> {
    /// let options = ShardOptions::new("websites", pod, 16);
    /// let websites = Controller::<Website>::sharded(&factory, options, |shard| shard.reconcile(reconcile))?;
    /// websites.run(std::future::pending()).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sharded(
        factory: &Factory,
        options: ShardOptions,
        build: impl Fn(Self) -> BoundController + Send + Sync + 'static,
    ) -> Result<ShardedController, ShardOptionsError> {
        let (shards, name) = (factory.clone(), options.name.clone());
        ShardedController::new(factory.client(), options, move |shard| {
            build(Self::of_shard(&shards, shard).named(&*name))
        })
    }
}

/// Makes the controller of one shard.
type Build = Arc<dyn Fn(Shard) -> BoundController + Send + Sync>;

/// A controller whose objects are divided among replicas; made by [`Controller::sharded`].
pub struct ShardedController {
    options: Arc<ShardOptions>,
    leases: DynamicApi,
    build: Build,
    held: watch::Sender<BTreeSet<u32>>,
    metrics: Option<Metrics>,
}

impl ShardedController {
    /// `build` is called each time a shard is acquired.
    pub fn new(
        client: &Client,
        options: ShardOptions,
        build: impl Fn(Shard) -> BoundController + Send + Sync + 'static,
    ) -> Result<Self, ShardOptionsError> {
        if !(1..=MOST_SHARDS).contains(&options.shards) {
            return Err(ShardOptionsError::Shards);
        }
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let starts = options.name.starts_with(|first: char| first.is_ascii_lowercase());
        if !starts || options.name.len() > 40 || !options.name.bytes().all(is_plain) {
            return Err(ShardOptionsError::Name);
        }
        let leases = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
        let leases = client.dynamic(leases).namespace(&*options.namespace);
        LeaderElector::new(leases.clone(), options.elector(0))?;
        Ok(Self {
            options: Arc::new(options),
            leases,
            build: Arc::new(build),
            held: watch::Sender::default(),
            metrics: None,
        })
    }

    /// The name, as in its options.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Adds the number of its shards to `metrics`, `sharded_controller_shards`, and those held here. The queues and the
    /// reconciles of all shards are added together, under the name of the sharded controller.
    pub fn measure(&mut self, metrics: &Metrics) {
        // So that they are shown before there is a shard.
        metrics.queue(self.name());
        metrics.controller(self.name());
        self.metrics = Some(metrics.clone());
        metrics.add(Arc::new(Shares {
            name: self.options.name.clone(),
            shards: self.options.shards,
            held: self.held.subscribe(),
        }));
    }

    /// The shards whose controllers run here.
    pub fn held(&self) -> watch::Receiver<BTreeSet<u32>> {
        self.held.subscribe()
    }

    /// Runs until `shutdown` completes, then hands its shards over: running reconciles finish within their deadline,
    /// and the Leases are released. If this future is dropped, the Leases expire.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        self.work(Box::pin(shutdown)).await;
    }

    /// Boxed, so that the caller's crate need not compile it.
    fn work(self, shutdown: BoxFuture<'_, ()>) -> BoxFuture<'_, ()> {
        async move {
            let (assign, assigned) = watch::channel(BTreeSet::new());
            let mut shards = JoinSet::new();
            for index in 0..self.options.shards {
                shards.spawn(self.holder(index, assigned.clone()).hold());
            }
            let mut attendance = Attendance::new(self.leases.clone(), self.options.clone());
            tokio::select! {
                biased;
                () = shutdown => {}
                () = attendance.attend(&assign) => {}
            }
            assign.send_replace(BTreeSet::new());
            drop(assign);
            while shards.join_next().await.is_some() {}
            attendance.leave().await;
        }
        .boxed()
    }

    fn holder(&self, index: u32, assigned: watch::Receiver<BTreeSet<u32>>) -> Holder {
        Holder {
            index,
            options: self.options.clone(),
            leases: self.leases.clone(),
            build: self.build.clone(),
            assigned,
            held: self.held.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

impl ShardOptions {
    /// The options of the election for a shard.
    fn elector(&self, index: u32) -> LeaderOptions {
        LeaderOptions {
            lease: format!("{}-shard-{index}", self.name),
            identity: self.identity.clone(),
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        }
    }

    /// The name of the Lease by which a replica announces itself.
    fn member(&self) -> String {
        format!("{}-member-{:016x}", self.name, shard_hash(&self.identity))
    }
}

/// The metrics of a sharded controller.
struct Shares {
    name: String,
    shards: u32,
    held: watch::Receiver<BTreeSet<u32>>,
}

impl Collect for Shares {
    fn collect(&self, text: &mut MetricsText) {
        let mut gauge = |name: &str, help: &str, value: usize| {
            text.family(name, help, MetricKind::Gauge);
            text.sample(name, &[("name", &*self.name)], value);
        };
        let held = self.held.borrow().len();
        gauge(
            "sharded_controller_shards",
            "Shards of a controller.",
            self.shards as usize,
        );
        gauge(
            "sharded_controller_shards_held",
            "Shards of a controller that this replica holds.",
            held,
        );
    }
}

/// Runs the controller of one shard while it is assigned to this replica and its Lease is held.
struct Holder {
    index: u32,
    options: Arc<ShardOptions>,
    leases: DynamicApi,
    build: Build,
    assigned: watch::Receiver<BTreeSet<u32>>,
    held: watch::Sender<BTreeSet<u32>>,
    metrics: Option<Metrics>,
}

impl Holder {
    async fn hold(mut self) {
        let index = self.index;
        let Some(shard) = Shard::new(self.options.by, index, self.options.shards) else {
            return;
        };
        let Ok(mut elector) = LeaderElector::new(self.leases.clone(), self.options.elector(index)) else {
            return;
        };
        // Fails once no assignment will follow.
        while self.assigned.wait_for(|mine| mine.contains(&index)).await.is_ok() {
            let work = async || {
                let _held = Held::new(&self.held, index);
                let mut controller = (self.build)(shard.clone());
                if let Some(metrics) = &self.metrics {
                    controller.measure_work(metrics, &self.options.name);
                }
                controller.run(unassigned(self.assigned.clone(), index)).await
            };
            elector.lead(work, unassigned(self.assigned.clone(), index)).await;
            // The work may have ended by itself: its informer has stopped, or the lease is lost. Others may try first.
            tokio::time::sleep(self.options.retry_period).await;
        }
    }
}

/// Completes when a shard is no longer assigned to this replica.
async fn unassigned(mut assigned: watch::Receiver<BTreeSet<u32>>, index: u32) {
    let _ = assigned.wait_for(|mine| !mine.contains(&index)).await;
}

/// Shows a shard as held, until it is dropped.
struct Held<'a> {
    held: &'a watch::Sender<BTreeSet<u32>>,
    index: u32,
}

impl<'a> Held<'a> {
    fn new(held: &'a watch::Sender<BTreeSet<u32>>, index: u32) -> Self {
        held.send_modify(|held| {
            held.insert(index);
        });
        Self { held, index }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.held.send_modify(|held| {
            held.remove(&self.index);
        });
    }
}

/// Announces this replica and looks at the others.
struct Attendance {
    leases: DynamicApi,
    options: Arc<ShardOptions>,
    members: Members,
    /// The last time it was announced.
    announced: Instant,
}

impl Attendance {
    fn new(leases: DynamicApi, options: Arc<ShardOptions>) -> Self {
        Self {
            members: Members::new(options.clone()),
            leases,
            options,
            announced: Instant::now(),
        }
    }

    /// Publishes the shards of this replica, again and again.
    async fn attend(&mut self, assign: &watch::Sender<BTreeSet<u32>>) {
        loop {
            let asked = Instant::now();
            let limit = self.options.renew_deadline / 2;
            match tokio::time::timeout(limit, self.look()).await {
                Ok(Ok(mine)) => {
                    self.announced = asked;
                    assign.send_if_modified(|known| {
                        *known != mine && {
                            *known = mine;
                            true
                        }
                    });
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, name = self.options.name, "cannot announce this replica")
                }
                Err(_) => tracing::warn!(name = self.options.name, "no answer within {limit:?}"),
            }
            // The others will soon take this replica for dead, and may work with another number of shards.
            if self.announced.elapsed() >= self.options.renew_deadline {
                assign.send_if_modified(|known| !std::mem::take(known).is_empty());
            }
            tokio::time::sleep(self.options.retry_period).await;
        }
    }

    /// Announces this replica; returns its shards.
    async fn look(&mut self) -> Result<BTreeSet<u32>, Error> {
        self.announce().await?;
        let options = ListOptions {
            label_selector: LabelSelector::from_labels([(MEMBER_LABEL, &*self.options.name)])
                .unwrap_or_default(),
            ..ListOptions::default()
        };
        let list = self.leases.list().with(&options).await?;
        let now = Instant::now();
        self.members.observe(&list.items, now);
        for lease in self.members.long_dead(now) {
            self.forget(&lease).await;
        }
        Ok(self.members.mine(now))
    }

    async fn announce(&self) -> Result<(), Error> {
        let (name, renewed) = (self.options.member(), members::wall_clock());
        let renewal = json!({"spec": {"renewTime": renewed}});
        match self.leases.patch(&name, PatchKind::Merge, &renewal).await {
            Err(error) if error.is_not_found() => {}
            renewed => return renewed.map(drop),
        }
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "labels": {MEMBER_LABEL: self.options.name},
                "annotations": {SHARDS_ANNOTATION: self.options.shards.to_string()},
            },
            "spec": {
                "holderIdentity": self.options.identity,
                "leaseDurationSeconds": self.options.lease_duration.as_secs().max(1),
                "acquireTime": renewed,
                "renewTime": renewed,
            },
        });
        match self.leases.create(&lease).await {
            Err(error) if error.is_already_exists() => Ok(()),
            created => created.map(drop),
        }
    }

    /// Deletes the Lease of a replica that has been dead for long, unless it has just been renewed.
    async fn forget(&self, lease: &Object) {
        let options = DeleteOptions {
            preconditions: Preconditions {
                resource_version: Some(lease.resource_version().to_owned()),
                ..Preconditions::default()
            },
            ..DeleteOptions::default()
        };
        // Another replica may be faster, or the next look tries again.
        let _ = self.leases.delete(lease.name()).with(&options).await;
    }

    /// Others need not wait for the end of this replica's Lease.
    async fn leave(&self) {
        let limit = self.options.renew_deadline;
        let _ = tokio::time::timeout(limit, async { self.leases.delete(&self.options.member()).await }).await;
    }
}

impl fmt::Debug for ShardedController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedController")
            .field("options", &self.options)
            .field("held", &*self.held.borrow())
            .finish_non_exhaustive()
    }
}
