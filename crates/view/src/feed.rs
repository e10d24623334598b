//! Follows a cluster into a board.
//! One stream per kind, all in one task. Discovery is repeated every [`REDISCOVER_EVERY`] to add new kinds and retire
//! removed ones.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use watchkeeper_client::{Client, DiscoveryClient, DiscoveryOptions, Error};
use watchkeeper_meta::{FieldSelector, LabelSelector, Resource, Scope, error_chain};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::follow::{Follow, Followed};
use watchkeeper_runtime::watcher::Config;

use crate::board::Board;

/// The interval of discovery.
pub const REDISCOVER_EVERY: Duration = Duration::from_secs(30);

/// A shared board with change notification.
#[derive(Debug)]
pub struct Live {
    selection: Selection,
    board: Mutex<Board>,
    changed: watch::Sender<u64>,
    generation: AtomicU64,
}

impl Default for Live {
    fn default() -> Self {
        Self::of(Selection::default())
    }
}

impl Live {
    /// An empty board of some objects.
    fn of(selection: Selection) -> Self {
        Self {
            selection,
            board: Mutex::default(),
            changed: watch::Sender::new(0),
            generation: AtomicU64::new(0),
        }
    }

    /// The objects that are shown.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Replaces the board. Readers of the log start over.
    pub fn replace(&self, board: Board) {
        self.update(|shown| {
            self.generation.fetch_add(1, Ordering::AcqRel);
            *shown = board;
        });
    }

    /// The number of boards before this one.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Reads the board. Updates wait meanwhile, so copy data for longer work.
    pub fn read<R>(&self, look: impl FnOnce(&Board) -> R) -> R {
        look(&self.board.lock())
    }

    /// Notifies of the board's revision after changes. Several changes may be combined.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Changes the board and notifies readers.
    pub fn update<R>(&self, change: impl FnOnce(&mut Board) -> R) -> R {
        let mut board = self.board.lock();
        let result = change(&mut board);
        let revision = board.revision();
        drop(board);
        self.changed.send_replace(revision);
        result
    }
}

/// The objects of every kind that are shown.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
}

/// The kinds and objects to follow.
#[derive(Clone, Debug, Default)]
pub struct FeedOptions {
    /// The kinds; if empty, every kind that can be listed and watched, except Secrets.
    pub kinds: Vec<Resource>,
    /// Only this namespace, and no cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
    /// Includes Secrets if all kinds are followed.
    pub secrets: bool,
}

/// Follows the kinds of a cluster into a board.
#[derive(Debug)]
pub struct Feed {
    live: Arc<Live>,
    client: Client,
    discovery: DiscoveryClient,
    options: FeedOptions,
    follow: Follow,
    /// The board's index of each stream.
    numbers: HashMap<Arc<str>, usize>,
    retired: BTreeSet<Arc<str>>,
}

impl Feed {
    /// Runs discovery. Objects are followed by [`run`](Self::run).
    pub async fn new(client: Client, options: FeedOptions) -> Result<Self, Error> {
        let selection = Selection {
            namespace: options.namespace.clone(),
            labels: options.labels.clone(),
            fields: options.fields.clone(),
        };
        let mut feed = Self {
            live: Arc::new(Live::of(selection)),
            discovery: DiscoveryClient::new(client.clone(), DiscoveryOptions::default()),
            client,
            options,
            follow: Follow::new(),
            numbers: HashMap::new(),
            retired: BTreeSet::new(),
        };
        match feed.options.kinds.clone() {
            kinds if kinds.is_empty() => feed.discover().await?,
            kinds => kinds.into_iter().for_each(|kind| feed.add(kind)),
        }
        Ok(feed)
    }

    /// The board it feeds.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Feeds the board until it is dropped.
    pub async fn run(mut self) {
        let mut again = tokio::time::interval(REDISCOVER_EVERY);
        again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        again.tick().await;
        loop {
            tokio::select! {
                followed = self.follow.next() => match followed {
                    Ok(Some(followed)) => self.note(&followed),
                    // Every stream has ended for good, with the reason in its state. New kinds may appear.
                    Ok(None) => { again.tick().await; self.rediscover().await; }
                    Err(error) => {
                        tracing::error!(%error, "the view has ended");
                        return;
                    }
                },
                _ = again.tick() => self.rediscover().await,
            }
        }
    }

    fn note(&self, followed: &Followed) {
        let Some(&number) = self.numbers.get(&followed.stream) else {
            return;
        };
        self.live.update(|board| match &followed.what {
            Ok(event) => board.note(number, event, now()),
            // An undecodable object does not stop the stream.
            Err(failure) if failure.unread().is_some() => board.remark(number, &error_chain(failure), now()),
            Err(failure) => board.fail(number, &error_chain(failure), now()),
        });
    }

    async fn rediscover(&mut self) {
        if self.options.kinds.is_empty()
            && let Err(error) = self.discover().await
        {
            tracing::warn!(%error, "cannot ask for new kinds");
        }
    }

    async fn discover(&mut self) -> Result<(), Error> {
        let found = self.discovery.refresh().await?;
        let wanted = found
            .watchable_resources()
            .filter(|resource| self.is_wanted(resource));
        let wanted: Vec<Resource> = wanted.cloned().collect();
        // The kinds of a group that does not answer are not removed.
        if found.failures.is_empty() {
            self.retire_all_but(&wanted);
        }
        for resource in wanted {
            self.add(resource);
        }
        Ok(())
    }

    /// True for a kind that is followed by default.
    fn is_wanted(&self, resource: &Resource) -> bool {
        let is_secrets = resource.group.is_empty() && resource.plural == "secrets";
        let is_in_scope = self.options.namespace.is_none() || resource.scope == Scope::Namespaced;
        is_in_scope && (self.options.secrets || !is_secrets)
    }

    fn retire_all_but(&mut self, wanted: &[Resource]) {
        let served: BTreeSet<Arc<str>> = wanted.iter().map(stream_name).collect();
        for (name, &number) in &self.numbers {
            if !served.contains(name) && self.retired.insert(name.clone()) {
                self.live
                    .update(|board| board.retire(number, "the server no longer has this kind", now()));
            }
        }
    }

    fn add(&mut self, resource: Resource) {
        let name = stream_name(&resource);
        self.retired.remove(&name);
        if self.numbers.contains_key(&name) {
            return;
        }
        let number = self
            .live
            .update(|board| board.add(name.clone(), resource.clone()));
        self.numbers.insert(name.clone(), number);
        // Managed fields have the authors; the board stores objects without them.
        let mut api = self.client.dynamic(resource).keep_managed_fields();
        api = match &self.options.namespace {
            Some(namespace) => api.namespace(namespace),
            None => api.all_namespaces(),
        };
        let (labels, fields) = (self.options.labels.clone(), self.options.fields.clone());
        let source = ApiSource::selected(api, labels, fields);
        self.follow.add(&name, Arc::new(source), Config::default());
    }
}

/// `deployments.apps`: the name of a kind with its group.
fn stream_name(resource: &Resource) -> Arc<str> {
    resource
        .group_version_resource()
        .group_resource()
        .to_string()
        .into()
}

/// The wall clock, which a test can control.
pub(crate) fn now() -> Timestamp {
    Timestamp::try_from(watchkeeper_clock::now()).unwrap_or_default()
}
