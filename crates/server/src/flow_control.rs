//! API Priority and Fairness: decides which requests run, wait or are rejected.
//!
//! The first [flow schema](flow_schema) that matches a request names its priority level. A level has [seats](seats);
//! when they are in use, its requests wait in [fair queues](fair_queues), so that a flow with many requests delays
//! itself more than others. Requests of the exempt level, such as those of `system:masters`, never wait. A watch
//! holds its seat only until its initial events are sent; other streams need none.
//!
//! Schemas and levels are compiled on first use, and again when one of them changes. The mandatory ones (`exempt`,
//! `catch-all`) exist even if they are deleted.
//!
//! Differences from kube-apiserver: borrowing follows demand at once instead of every ten seconds; writes take one
//! seat, however many watches they wake; lists take seats by the [size of the last response](list_width).

mod fair_queues;
mod flow_schema;
mod list_width;
mod priority_level;
mod retry_after;
mod seats;
mod shuffle_shard;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use watchkeeper_kinds::{builtin, suggested_flow_schemas, suggested_priority_levels};
use watchkeeper_meta::{Bounds, Histogram, Status};
use watchkeeper_registry::{Reader, User};
use watchkeeper_storage::Signal;

use crate::request_info::RequestInfo;
use flow_schema::FlowSchema;
use list_width::ListWidths;
use priority_level::{PriorityLevel, share_out};
use seats::{Arrival, Granted, LevelId, LevelState, Place, Running, Seats};

const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The names of mandatory schemas and levels.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

/// The limit on reclassifications because the level was removed; then the request is rejected.
const MAX_CLASSIFICATIONS: usize = 8;

/// The seats of a server. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct FlowControl(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The seats of all levels together.
    server_seats: u32,
    began: Instant,
    configuration: RwLock<Option<Arc<Configuration>>>,
    /// Held while schemas and levels are read.
    reading: tokio::sync::Mutex<()>,
    seats: Mutex<Seats<Waiter>>,
    list_widths: ListWidths,
}

/// The compiled schemas and levels.
#[derive(Debug, Default)]
struct Configuration {
    /// In the order of matching precedence.
    flows: Vec<Flow>,
    /// Signals that this is outdated.
    changes: Vec<Signal>,
}

/// A schema and its level.
#[derive(Debug)]
struct Flow {
    schema: FlowSchema,
    level_uid: HeaderValue,
    /// `None` for the exempt level.
    level: Option<LevelId>,
    counts: Arc<Counts>,
}

/// The counters of a flow schema.
#[derive(Debug)]
pub(crate) struct Counts {
    dispatched: AtomicU64,
    rejected: [AtomicU64; REASONS.len()],
    waiting: AtomicUsize,
    running: AtomicUsize,
    seats_in_use: AtomicUsize,
    /// The time in a queue of requests that ran, and of those that were rejected after it.
    pub waited: Histogram,
    pub waited_in_vain: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            dispatched: AtomicU64::default(),
            rejected: Default::default(),
            waiting: AtomicUsize::default(),
            running: AtomicUsize::default(),
            seats_in_use: AtomicUsize::default(),
            waited: Histogram::new(WAITS),
            waited_in_vain: Histogram::new(WAITS),
        }
    }
}

/// kube-apiserver's buckets of waiting times, in seconds.
const WAITS: Bounds = &[
    (0.0, "0"),
    (0.005, "0.005"),
    (0.02, "0.02"),
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.2, "0.2"),
    (0.5, "0.5"),
    (1.0, "1"),
    (2.0, "2"),
    (5.0, "5"),
    (10.0, "10"),
    (15.0, "15"),
    (30.0, "30"),
];

/// The reasons of rejections: those of [`seats::Rejection`] in order, and [`TIMED_OUT`].
const REASONS: [&str; 3] = ["concurrency-limit", "queue-full", "time-out"];
const TIMED_OUT: usize = 2;

/// The flow of a request.
#[derive(Clone, Debug)]
pub(crate) struct Classified {
    configuration: Arc<Configuration>,
    flow: usize,
}

/// The seat of a request; released on drop.
#[derive(Debug)]
pub(crate) struct Seat {
    control: FlowControl,
    running: Option<Running>,
    counts: Arc<Counts>,
    began: Instant,
}

/// A request in a queue.
#[derive(Debug)]
struct Waiter {
    sender: oneshot::Sender<Seat>,
    counts: Arc<Counts>,
}

/// A rejected request.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub retry_after_seconds: u64,
}

/// The state of all levels and flows, for `/metrics`.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub levels: Vec<LevelFigures>,
    pub flows: Vec<FlowFigures>,
}

#[derive(Debug)]
pub(crate) struct LevelFigures {
    pub name: String,
    pub nominal_seats: u32,
}

#[derive(Debug)]
pub(crate) struct FlowFigures {
    pub schema: String,
    pub level: String,
    pub dispatched: u64,
    /// By reason.
    pub rejected: Vec<(&'static str, u64)>,
    pub waiting: usize,
    pub running: usize,
    pub seats_in_use: usize,
    pub counts: Arc<Counts>,
}

impl FlowControl {
    /// Distributes this many seats among the levels.
    pub(crate) fn new(server_seats: usize) -> Self {
        Self(Arc::new(Inner {
            server_seats: u32::try_from(server_seats).unwrap_or(u32::MAX).max(1),
            began: Instant::now(),
            configuration: RwLock::default(),
            reading: tokio::sync::Mutex::default(),
            seats: Mutex::default(),
            list_widths: ListWidths::default(),
        }))
    }

    /// Waits for a seat. `classified` is set first, so that rejected requests have it too.
    pub(crate) async fn admit(
        &self,
        reader: &Reader,
        user: &User,
        request: &RequestInfo,
        patience: Duration,
        classified: &mut Option<Classified>,
    ) -> Result<Option<Seat>, Rejected> {
        if request.is_long_running() && request.verb != "watch" {
            return Ok(None);
        }
        for _ in 0..MAX_CLASSIFICATIONS {
            let configuration = self.configuration(reader).await;
            let Some(flow) = configuration.classify(user, request) else {
                break;
            };
            let found = Classified { configuration, flow };
            let admitted = self.seat(found.flow(), user, request, patience);
            *classified = Some(found.clone());
            match admitted {
                Admitted::Now(seat) => return Ok(Some(seat)),
                // Boxed: few requests wait, and all would reserve space for it.
                Admitted::Later(waiting) => return Box::pin(waiting.seat(found.flow())).await.map(Some),
                Admitted::Never(rejected) => return Err(rejected),
                Admitted::Stale => {}
            }
        }
        Err(Rejected {
            retry_after_seconds: 1,
        })
    }

    /// Updates the width of a list from the size of its response, if known.
    pub(crate) fn learn(&self, request: &RequestInfo, bytes: Option<usize>) {
        self.0.list_widths.learn(request, bytes);
    }

    fn seat(&self, flow: &Flow, user: &User, request: &RequestInfo, patience: Duration) -> Admitted {
        let Some(level) = flow.level else {
            flow.counts.dispatched.fetch_add(1, Ordering::Relaxed);
            return Admitted::Now(self.seat_for(None, flow.counts.clone()));
        };
        let (hash, width) = (flow.schema.flow(user, request), self.0.list_widths.seats(request));
        let (mut granted, mut receiver) = (Vec::new(), None);
        let waiter = || {
            let (sender, waiting) = oneshot::channel();
            receiver = Some(waiting);
            Waiter {
                sender,
                counts: flow.counts.clone(),
            }
        };
        let mut seats = self.0.seats.lock();
        let width = width.min(seats.widest(level));
        let arrival = seats.arrive(level, hash, width, waiter, &mut granted);
        let rejected = matches!(arrival, Arrival::Rejected(_));
        let retry_after_seconds = match rejected {
            true => seats.retry_after(level, self.0.began.elapsed().as_secs()),
            false => 0,
        };
        drop(seats);
        self.hand_out(granted);
        match (arrival, receiver) {
            (Arrival::Runs(running), _) => {
                flow.counts.dispatched.fetch_add(1, Ordering::Relaxed);
                flow.counts.waited.record(Duration::ZERO);
                Admitted::Now(self.seat_for(Some(running), flow.counts.clone()))
            }
            (Arrival::Waits(place), Some(receiver)) => Admitted::Later(Waiting {
                receiver,
                leave: Leave::new(self.clone(), place, flow.counts.clone()),
                began: Instant::now(),
                level,
                patience,
            }),
            (Arrival::Rejected(why), _) => {
                flow.counts.rejected(why as usize);
                Admitted::Never(Rejected { retry_after_seconds })
            }
            (Arrival::Waits(_) | Arrival::Stale, _) => Admitted::Stale,
        }
    }

    fn seat_for(&self, running: Option<Running>, counts: Arc<Counts>) -> Seat {
        counts.running.fetch_add(1, Ordering::Relaxed);
        counts.seats_in_use.fetch_add(width(running), Ordering::Relaxed);
        Seat {
            control: self.clone(),
            running,
            counts,
            began: Instant::now(),
        }
    }

    /// Grants seats to waiting requests. A seat whose request is gone passes to the next.
    fn hand_out(&self, granted: Granted<Waiter>) {
        for (waiter, running) in granted {
            let Waiter { sender, counts } = waiter;
            drop(sender.send(self.seat_for(Some(running), counts)));
        }
    }

    /// The current configuration.
    async fn configuration(&self, reader: &Reader) -> Arc<Configuration> {
        let current = || self.0.configuration.read().clone();
        match current().filter(|found| found.holds()) {
            Some(found) => found,
            None => Box::pin(self.read_configuration(reader)).await,
        }
    }

    async fn read_configuration(&self, reader: &Reader) -> Arc<Configuration> {
        let _one_at_a_time = self.0.reading.lock().await;
        let before = self.0.configuration.read().clone();
        if let Some(found) = before.as_ref().filter(|found| found.holds()) {
            return found.clone();
        }
        let (schemas, levels, changes) = match stored(reader).await {
            Ok(stored) => stored,
            // If the store cannot be read, requests that need it fail by themselves.
            Err(_) if before.is_some() => return before.unwrap_or_default(),
            Err(_) => Default::default(),
        };
        let configuration = Arc::new(self.compile(&schemas, &levels, changes, before.as_deref()));
        *self.0.configuration.write() = Some(configuration.clone());
        configuration
    }

    fn compile(
        &self,
        schemas: &[Value],
        levels: &[Value],
        changes: Vec<Signal>,
        before: Option<&Configuration>,
    ) -> Configuration {
        let levels: Vec<_> = with_mandatory(levels, suggested_priority_levels())
            .map(|level| PriorityLevel::read(&level))
            .collect();
        let (limits, spare) = share_out(&levels, self.0.server_seats);
        let mut granted = Vec::new();
        let ids = self.0.seats.lock().configure(&limits, spare, &mut granted);
        self.hand_out(granted);
        let limited = levels.iter().filter(|level| !level.is_exempt);
        let ids: HashMap<_, _> = limited.map(|level| level.name.as_str()).zip(ids).collect();
        let counted = |name: &str, level: &str| {
            let flows = before.map_or(&[][..], |before| &before.flows);
            let same = flows
                .iter()
                .find(|flow| flow.schema.name == name && flow.schema.level == level);
            same.map(|flow| flow.counts.clone()).unwrap_or_default()
        };
        let schemas =
            with_mandatory(schemas, suggested_flow_schemas()).map(|schema| FlowSchema::read(&schema));
        // A schema without an existing level is ignored.
        let flows = schemas.filter_map(|schema| {
            let level = levels.iter().find(|level| level.name == schema.level)?;
            Some(Flow {
                level_uid: level.uid.clone(),
                level: ids.get(level.name.as_str()).copied(),
                counts: counted(&schema.name, &schema.level),
                schema,
            })
        });
        let mut flows: Vec<_> = flows.collect();
        flows.sort_by(|a, b| a.schema.order().cmp(&b.schema.order()));
        Configuration { flows, changes }
    }

    /// The current state.
    pub(crate) fn figures(&self) -> Figures {
        let exempt = LevelState {
            name: MANDATORY[0].to_owned(),
            ..LevelState::default()
        };
        let levels = self.0.seats.lock().levels().chain([exempt]).collect::<Vec<_>>();
        let configuration = self.0.configuration.read().clone().unwrap_or_default();
        Figures {
            levels: levels.into_iter().map(LevelFigures::from).collect(),
            flows: configuration.flows.iter().map(Flow::figures).collect(),
        }
    }
}

/// The stored schemas and levels, and the signals of changes.
async fn stored(reader: &Reader) -> Result<(Vec<Value>, Vec<Value>, Vec<Signal>), Status> {
    let (schemas, a) = reader.followed_values(&builtin::FLOW_SCHEMA).await?;
    let (levels, b) = reader
        .followed_values(&builtin::PRIORITY_LEVEL_CONFIGURATION)
        .await?;
    Ok((schemas, levels, vec![a.signal(), b.signal()]))
}

/// The stored objects, and the mandatory ones that are missing.
fn with_mandatory(
    stored: &[Value],
    suggested: impl IntoIterator<Item = Value>,
) -> impl Iterator<Item = Value> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let missing = suggested.into_iter().filter(move |object| {
        let name_of = name(object);
        MANDATORY.contains(&name_of.as_str()) && !stored.iter().any(|stored| name(stored) == name_of)
    });
    missing.collect::<Vec<_>>().into_iter().chain(stored.to_vec())
}

impl Configuration {
    /// False if a schema or level has changed, or could not be read.
    fn holds(&self) -> bool {
        !self.changes.is_empty() && !self.changes.iter().any(Signal::has_changed)
    }

    fn classify(&self, user: &User, request: &RequestInfo) -> Option<usize> {
        self.flows
            .iter()
            .position(|flow| flow.schema.matches(user, request))
    }
}

impl Flow {
    fn figures(&self) -> FlowFigures {
        let counts = self
            .counts
            .rejected
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        FlowFigures {
            schema: self.schema.name.clone(),
            level: self.schema.level.clone(),
            dispatched: self.counts.dispatched.load(Ordering::Relaxed),
            rejected: REASONS.into_iter().zip(counts).collect(),
            waiting: self.counts.waiting.load(Ordering::Relaxed),
            running: self.counts.running.load(Ordering::Relaxed),
            seats_in_use: self.counts.seats_in_use.load(Ordering::Relaxed),
            counts: self.counts.clone(),
        }
    }
}

impl Counts {
    fn rejected(&self, reason: usize) {
        self.rejected[reason].fetch_add(1, Ordering::Relaxed);
    }
}

impl From<LevelState> for LevelFigures {
    fn from(state: LevelState) -> Self {
        Self {
            name: state.name,
            nominal_seats: state.limits.nominal,
        }
    }
}

impl Classified {
    fn flow(&self) -> &Flow {
        &self.configuration.flows[self.flow]
    }

    /// Adds the headers with the uids of schema and level.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        let flow = self.flow();
        headers.insert(FLOW_SCHEMA_UID, flow.schema.uid.clone());
        headers.insert(PRIORITY_LEVEL_UID, flow.level_uid.clone());
    }
}

enum Admitted {
    Now(Seat),
    Later(Waiting),
    Never(Rejected),
    Stale,
}

/// A waiting request. Dropping it leaves the queue.
struct Waiting {
    receiver: oneshot::Receiver<Seat>,
    leave: Leave,
    began: Instant,
    level: LevelId,
    patience: Duration,
}

impl Waiting {
    async fn seat(self, flow: &Flow) -> Result<Seat, Rejected> {
        let granted = tokio::time::timeout(self.patience, self.receiver).await;
        let waited = self.began.elapsed();
        if let Ok(Ok(seat)) = granted {
            flow.counts.dispatched.fetch_add(1, Ordering::Relaxed);
            flow.counts.waited.record(waited);
            return Ok(seat);
        }
        flow.counts.rejected(TIMED_OUT);
        flow.counts.waited_in_vain.record(waited);
        let inner = &self.leave.control.0;
        let now = inner.began.elapsed().as_secs();
        Err(Rejected {
            retry_after_seconds: inner.seats.lock().retry_after(self.level, now),
        })
    }
}

/// Leaves the queue, if the request still waits.
struct Leave {
    control: FlowControl,
    place: Place,
    counts: Arc<Counts>,
}

impl Leave {
    fn new(control: FlowControl, place: Place, counts: Arc<Counts>) -> Self {
        counts.waiting.fetch_add(1, Ordering::Relaxed);
        Self {
            control,
            place,
            counts,
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut granted = Vec::new();
        self.control.0.seats.lock().leave(self.place, &mut granted);
        self.control.hand_out(granted);
    }
}

/// The seats that a request takes. An exempt one takes one, which nobody misses.
fn width(running: Option<Running>) -> usize {
    running.map_or(1, |running| running.seats as usize)
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.counts.running.fetch_sub(1, Ordering::Relaxed);
        self.counts
            .seats_in_use
            .fetch_sub(width(self.running), Ordering::Relaxed);
        let Some(running) = self.running else { return };
        let mut granted = Vec::new();
        let seconds = self.began.elapsed().as_secs_f64();
        self.control.0.seats.lock().finish(running, seconds, &mut granted);
        self.control.hand_out(granted);
    }
}
