//! The testing API, for tests in any language: clock, faults, snapshots and write log. Only for administrators, on
//! servers started with it.
//!
//! Bodies are JSON. Durations are Go's: `"1m30s"`.
//!
//! The operations are listed in [`operation`], their bodies and answers in the [OpenAPI document](openapi), `GET
//! /testing/v1/openapi.json`. Faults are [`Rule`]s, [`RequestMatch`]es and [`Flow`]s as JSON.

mod openapi;
mod operation;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_clock::moving::{self, Frozen};
use watchkeeper_meta::Status;
use watchkeeper_storage::Snapshot;
use watchkeeper_wire::values;

use self::operation::Operation;
use crate::activity::Activity;
use crate::body::{RequestBody, collect};
use crate::faults::{Faults, Flow, RequestMatch, Rule};
use crate::filter::Call;
use crate::limits::MAX_KEPT_SNAPSHOTS;
use crate::respond::{self, Answer, Failure};
use crate::shared::Shared;

/// The polling interval of a wait for idleness.
const LOOK: Duration = Duration::from_millis(1);
/// The default time without activity.
const QUIET: Duration = Duration::from_millis(50);
/// The default limit of the wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// The testing state of a server.
#[derive(Debug)]
pub(crate) struct Testing {
    beginning: Snapshot,
    kept: Mutex<Kept>,
    frozen: Mutex<Option<Frozen>>,
    /// Held while time is moved: one request at a time.
    moving: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Kept {
    last_id: u64,
    snapshots: BTreeMap<u64, Snapshot>,
}

impl Testing {
    pub(crate) fn new(beginning: Snapshot) -> Self {
        Self {
            beginning,
            kept: Mutex::default(),
            frozen: Mutex::default(),
            moving: Default::default(),
        }
    }

    /// Lets frozen time run again: shutdown has deadlines.
    pub(crate) fn thaw(&self) {
        self.frozen.lock().take();
    }
}

/// Dispatches a request of the testing API.
pub(super) fn testing<'a>(
    call: &'a Call,
    path: &'a [&'a str],
    body: &'a mut RequestBody,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let Some(testing) = &call.server.testing else {
            return Err(Failure::NoSuchPage);
        };
        let Some((operation, id)) = Operation::find(call.head.method.as_str(), path) else {
            return Err(Failure::NoSuchPage);
        };
        let body = collect(&call.head.headers, body).await?;
        let (server, faults) = (&*call.server, &call.server.faults);
        let answer = match operation {
            Operation::Describe => openapi::document(),
            Operation::ReadClock => clock(testing),
            Operation::MoveClock => move_clock(server, testing, read(&body)?).await?,
            Operation::WaitForQuiet => idle(server, read(&body)?).await?,
            Operation::ListFaults => rules(faults),
            Operation::AddFault => inject(faults, read(&body)?)?,
            Operation::ClearFaults => done(|| faults.clear()),
            Operation::RemoveFault => found(faults.remove(read(id.as_bytes())?))?,
            Operation::ListFired => json!(faults.fired()),
            Operation::ClearFired => done(|| faults.clear_fired()),
            Operation::SetFlow => set_flow(faults, &read(&body)?),
            Operation::Compact => compact(server).await?,
            Operation::ListWrites => json!(server.write_log.writes()),
            Operation::ClearWrites => done(|| server.write_log.clear()),
            Operation::KeepSnapshot => testing.keep(server.registry.store().snapshot())?,
            Operation::RestoreSnapshot => restore(server, &testing.kept(id)?).await?,
            Operation::ForgetSnapshot => found(testing.forget(id)?)?,
            Operation::Reset => reset(server, &testing.beginning).await?,
        };
        Ok(respond::json(&answer, call.pretty))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Streams {
    #[serde(default)]
    request: RequestMatch,
    flow: Flow,
}

/// A change of the clock.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ClockChange {
    advance: Option<values::Duration>,
    frozen: Option<bool>,
}

/// A wait for idleness.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct IdleWait {
    quiet: Option<values::Duration>,
    timeout: Option<values::Duration>,
}

/// Decodes a body; an empty one is an empty object.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Status> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))
}

/// Runs an action without a result.
fn done(something: impl FnOnce()) -> Value {
    something();
    json!({})
}

fn found(was_there: bool) -> Result<Value, Failure> {
    match was_there {
        true => Ok(json!({})),
        false => Err(Failure::NoSuchPage),
    }
}

fn span(options: Option<values::Duration>, otherwise: Duration) -> Result<Duration, Status> {
    let negative = || Status::bad_request("a duration must not be negative");
    options.map_or(Ok(otherwise), |options| options.to_std().ok_or_else(negative))
}

fn clock(testing: &Testing) -> Value {
    #[derive(Serialize)]
    struct Now {
        now: watchkeeper_meta::Time,
        frozen: bool,
    }
    let now = Now {
        now: watchkeeper_clock::now().into(),
        frozen: testing.frozen.lock().is_some(),
    };
    json!(now)
}

async fn move_clock(server: &Shared, testing: &Testing, options: ClockChange) -> Result<Value, Status> {
    if !moving::can_be_moved() {
        let text = "the clock cannot be moved: the server runs on several threads";
        return Err(Status::bad_request(text));
    }
    let by = span(options.advance, Duration::ZERO)?;
    if let Some(freeze) = options.frozen {
        let mut frozen = testing.frozen.lock();
        *frozen = freeze.then(|| frozen.take().unwrap_or_else(Frozen::begin));
    }
    let _one_at_a_time = testing.moving.lock().await;
    let lifted = Unfrozen::begin(testing);
    let look = || {
        let Activity {
            in_flight,
            over_sockets,
            ..
        } = server.counts.activity();
        moving::Others {
            in_flight,
            seen: over_sockets,
        }
    };
    moving::advance_with_others(by, look).await;
    drop(lifted);
    Ok(clock(testing))
}

/// Unfreezes time until it is dropped.
struct Unfrozen<'a>(&'a Testing);

impl<'a> Unfrozen<'a> {
    fn begin(testing: &'a Testing) -> Self {
        if let Some(frozen) = &mut *testing.frozen.lock() {
            frozen.lift();
        }
        Self(testing)
    }
}

impl Drop for Unfrozen<'_> {
    fn drop(&mut self) {
        if let Some(frozen) = &mut *self.0.frozen.lock() {
            frozen.hold();
        }
    }
}

/// Waits until no request is in flight and nothing has happened for a while. Uses real time: other processes need it,
/// and the server's clock may be frozen.
async fn idle(server: &Shared, options: IdleWait) -> Result<Value, Status> {
    let (quiet, patience) = (span(options.quiet, QUIET)?, span(options.timeout, PATIENCE)?);
    let begun = Instant::now();
    let (mut seen, mut since) = (server.counts.activity(), begun);
    while since.elapsed() < quiet || seen.in_flight > 0 {
        if begun.elapsed() > patience {
            let text = format!("the server is still busy after {patience:?}");
            return Err(Status::timeout(text, 0));
        }
        moving::real_pause(LOOK).await;
        let now = server.counts.activity();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    Ok(json!({}))
}

fn rules(faults: &Faults) -> Value {
    let rules = faults.rules().into_iter();
    rules.map(|(id, rule)| json!({"id": id, "rule": rule})).collect()
}

fn inject(faults: &Faults, rule: Rule) -> Result<Value, Status> {
    let id = faults.inject(rule);
    let id = id.map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(json!({"id": id}))
}

fn set_flow(faults: &Faults, options: &Streams) -> Value {
    json!({"streams": faults.set_flow(&options.request, options.flow)})
}

async fn compact(server: &Shared) -> Result<Value, Status> {
    let store = server.registry.store();
    let compacted = store.compact(store.current_revision()).await;
    compacted.map(|()| json!({})).map_err(Status::internal_error)
}

async fn restore(server: &Shared, snapshot: &Snapshot) -> Result<Value, Status> {
    let restored = server.registry.restore(snapshot).await?;
    Ok(json!({"restored": restored}))
}

async fn reset(server: &Shared, beginning: &Snapshot) -> Result<Value, Status> {
    server.faults.clear();
    let restored = restore(server, beginning).await?;
    server.faults.clear_fired();
    server.write_log.clear();
    Ok(restored)
}

impl Testing {
    fn keep(&self, snapshot: Snapshot) -> Result<Value, Status> {
        let mut kept = self.kept.lock();
        if kept.snapshots.len() >= MAX_KEPT_SNAPSHOTS {
            let text = format!("{MAX_KEPT_SNAPSHOTS} snapshots are kept already: delete one");
            return Err(Status::bad_request(text));
        }
        kept.last_id += 1;
        let (id, revision) = (kept.last_id, snapshot.revision().get());
        kept.snapshots.insert(id, snapshot);
        Ok(json!({"id": id, "revision": revision}))
    }

    fn kept(&self, id: &str) -> Result<Snapshot, Failure> {
        let id: u64 = read(id.as_bytes())?;
        let kept = self.kept.lock();
        kept.snapshots.get(&id).cloned().ok_or(Failure::NoSuchPage)
    }

    fn forget(&self, id: &str) -> Result<bool, Status> {
        let id: u64 = read(id.as_bytes())?;
        Ok(self.kept.lock().snapshots.remove(&id).is_some())
    }
}
