//! Keeps the copy in memory up to date: one watch of all keys, for as long as the store lives.
//!
//! ```text
//! watch ─▶ whole revisions ─▶ visible to readers and feeds ─▶ writers and readers who wait for them
//!   │ cut       ▶ a new watch after the last visible revision: nothing twice, nothing lost
//!   │ compacted ▶ all keys are listed again; feeds report lost history, so that their readers list again too
//!   └ went back ▶ this is another etcd: the store closes
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::error::CallError;
use super::grpc::{Answers, Further};
use super::keys::Meaning;
use super::load::{load, revision};
use super::messages::{
    Event, EventType, KeyValue, StatusRequest, StatusResponse, WatchCreateRequest, WatchResponse,
};
use super::shared::Shared;
use crate::model::Record;
use crate::mvcc::Mvcc;
use crate::transform::Seal;
use crate::{Key, Revision};

/// The backoff before a broken watch is restarted: doubled until an event arrives, with jitter. Finding another member
/// has its own backoff.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// A fraction of the time that a reader waits for the watch.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time a new watch waits for the version of its member.
const STATUS_PATIENCE: Duration = Duration::from_secs(1);

/// The reason a watch ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("etcd has ended the watch: {0}")]
    Canceled(String),
    #[error("etcd has compacted changes that the watch had not delivered")]
    Compacted,
    #[error("an event of {key} contradicts earlier ones")]
    Contradiction { key: Key },
}

/// The health of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// It delivers events, or has only just started.
    Well,
    /// It has delivered nothing since it broke.
    Broken {
        /// The backoff before it is restarted.
        pause: Duration,
    },
}

impl Health {
    /// Records that the watch delivers.
    fn recovered(&mut self) {
        if *self != Self::Well {
            tracing::info!("the etcd watch has recovered");
            *self = Self::Well;
        }
    }

    /// Records that the watch broke. Returns true the first time, so that a log need not repeat it.
    fn broke(&mut self) -> bool {
        let (is_news, pause) = match *self {
            Self::Well => (true, FIRST_PAUSE),
            Self::Broken { pause } => (false, (2 * pause).min(LONGEST_PAUSE)),
        };
        *self = Self::Broken { pause };
        is_news
    }

    /// Waits before the watch is restarted.
    async fn pause(&self) {
        if let Self::Broken { pause } = self {
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        }
    }
}

/// Follows etcd until the store is closed.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut health = Health::Well;
    loop {
        let broken = match follow(&shared, &mut health).await {
            Ok(never) => match never {},
            Err(broken) => broken,
        };
        let is_news = health.broke();
        let mended = match &broken {
            Broken::Compacted | Broken::Contradiction { .. } => {
                tracing::error!("{broken}: listing all keys again");
                list_again(&shared).await.map_err(Broken::Call)
            }
            Broken::Call(_) | Broken::Canceled(_) => Err(broken),
        };
        match mended {
            Ok(()) => {}
            Err(broken @ Broken::Call(CallError::OtherEtcd { .. })) => {
                tracing::error!("{broken}");
                return shared.fail(broken.to_string());
            }
            Err(broken) if is_news => tracing::warn!("restarting the etcd watch: {broken}"),
            Err(broken) => tracing::debug!("restarting the etcd watch: {broken}"),
        }
        health.pause().await;
    }
}

async fn list_again(shared: &Shared) -> Result<(), CallError> {
    let mvcc = load(&shared.client, &shared.keys, &shared.values, shared.origin(), 0).await?;
    shared.state.replace(mvcc);
    shared.arrivals.wake(&shared.state);
    Ok(())
}

/// Follows etcd until the watch broke.
async fn follow(shared: &Shared, health: &mut Health) -> Result<Infallible, Broken> {
    let known = shared.origin().revision;
    shared.newest_revision().await?;
    let (key, range_end) = shared.keys.bounds();
    let create = WatchCreateRequest {
        key,
        range_end,
        start_revision: known.get() as i64 + 1,
        progress_notify: true,
        fragment: true,
    };
    let mut answers = shared.client.watch(create).await?;
    shared.note_watch(progress_requests(&answers).await);
    let broken = take_all(shared, &mut answers, health).await;
    if shared.watched_for() >= LONGEST_PAUSE {
        // The watch was healthy; there was nothing to deliver.
        *health = Health::Well;
    }
    // Another member may work better.
    shared.client.leave(&answers.connection).await;
    broken
}

/// The requests for progress of a watch, if its member answers them reliably.
async fn progress_requests(answers: &Answers) -> Option<Further> {
    let status = answers
        .connection
        .unary("/etcdserverpb.Maintenance/Status", &StatusRequest {});
    match timeout(STATUS_PATIENCE, status).await {
        Ok(Ok(StatusResponse { version })) if answers_progress_requests(&version) => answers.further(),
        Ok(Ok(_)) => None,
        // The watch works all the same.
        Ok(Err(error)) => {
            tracing::debug!("the version of etcd is unknown: {error}");
            None
        }
        Err(_) => None,
    }
}

/// Whether this version of etcd answers a request for progress only after it has delivered all events, and on the
/// stream of the watch. Kubernetes asks the same versions.
fn answers_progress_requests(version: &str) -> bool {
    let numbers = version.split(['.', '-', '+']).map(|number| number.parse().ok());
    let numbers: Option<Vec<u32>> = numbers.take(3).collect();
    match numbers.as_deref() {
        Some(&[3, 4, patch]) => patch >= 31,
        Some(&[3, 5, patch]) => patch >= 13,
        Some(newer) => *newer >= [3, 6, 0][..],
        None => false,
    }
}

async fn take_all(shared: &Shared, answers: &mut Answers, health: &mut Health) -> Result<Infallible, Broken> {
    let mut pieces = Vec::new();
    loop {
        let Some(response) = answers.next::<WatchResponse>().await? else {
            return Err(Broken::Canceled("the stream ended".to_owned()));
        };
        // The confirmation that a watch was created does not prove that it works.
        let recovered = !response.created;
        take(shared, response, &mut pieces)?;
        if recovered {
            health.recovered();
        }
    }
}

/// Applies one response. Events of an incomplete revision stay in `pieces`.
fn take(shared: &Shared, response: WatchResponse, pieces: &mut Vec<Event>) -> Result<(), Broken> {
    if response.compact_revision > 0 {
        return Err(Broken::Compacted);
    }
    if response.canceled {
        return Err(Broken::Canceled(response.cancel_reason));
    }
    let is_progress = response.events.is_empty() && pieces.is_empty() && !response.fragment;
    if response.created {
        // A progress notification: the revision of the member, not of the watch.
        return Ok(());
    }
    pieces.extend(response.events);
    let whole = whole_revisions(pieces, response.fragment);
    let mut reached = publish(shared, whole)?;
    if is_progress {
        reached = revision(response.header.unwrap_or_default().revision);
    }
    if reached > shared.state.mvcc.read().current() {
        shared.state.advance(reached);
    }
    shared.arrivals.wake(&shared.state);
    Ok(())
}

/// Takes out all events except those of a last revision that continues in the next fragment.
fn whole_revisions(pieces: &mut Vec<Event>, goes_on: bool) -> Vec<Event> {
    let revision_of = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
    let kept = match (goes_on, pieces.last().map(revision_of)) {
        (true, Some(last)) => pieces.partition_point(|event| revision_of(event) < last),
        _ => pieces.len(),
    };
    let rest = pieces.split_off(kept);
    std::mem::replace(pieces, rest)
}

/// Makes events visible. Returns the revision of the last one, even if its key is not the store's.
fn publish(shared: &Shared, events: Vec<Event>) -> Result<Revision, Broken> {
    let now = shared.state.clock.now();
    let mut reached = Revision::ZERO;
    let mut records = Vec::with_capacity(events.len());
    for event in events {
        let is_deletion = event.kind == EventType::Delete as i32;
        let kv = event.kv.unwrap_or_default();
        reached = revision(kv.mod_revision);
        if let Meaning::Key(key) = shared.keys.meaning(&kv.key) {
            records.push(shared.values.opened(record(key, kv, is_deletion, now)));
        }
    }
    complete(&shared.state.mvcc.read(), &mut records)?;
    shared.state.publish(records);
    shared.drop_excess_history();
    Ok(reached)
}

fn record(key: Key, kv: KeyValue, is_deletion: bool, now: u64) -> Record {
    Record {
        revision: revision(kv.mod_revision),
        key,
        value: (!is_deletion).then(|| kv.value.into()),
        create_revision: revision(kv.create_revision),
        written_at: now,
        expires_at: None,
        seal: Seal::Current,
    }
}

/// Adds the create revision to deletions, which etcd does not send, and checks that every event follows from the known
/// state: a created key did not exist, a changed or deleted one did.
fn complete(mvcc: &Mvcc, records: &mut [Record]) -> Result<(), Broken> {
    let mut created: HashMap<Key, Option<Revision>> = HashMap::new();
    for record in records {
        let known = created
            .entry(record.key.clone())
            .or_insert_with(|| mvcc.latest(&record.key).map(|found| found.create_revision));
        let is_creation = record.create_revision == record.revision;
        let follows = match (&record.value, *known) {
            (Some(_), None) => is_creation,
            (Some(_), Some(known)) => known == record.create_revision,
            (None, Some(known)) => {
                record.create_revision = known;
                true
            }
            (None, None) => false,
        };
        if !follows {
            return Err(Broken::Contradiction {
                key: record.key.clone(),
            });
        }
        *known = record.value.is_some().then_some(record.create_revision);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_until_an_event_arrives_and_only_the_first_failure_is_news() {
        let mut health = Health::Well;
        let mut broke = || {
            let is_news = health.broke();
            (is_news, health)
        };
        let pause = |pause| Health::Broken { pause };
        assert_eq!(broke(), (true, pause(FIRST_PAUSE)));
        assert_eq!(broke(), (false, pause(2 * FIRST_PAUSE)));
        let last = (0..20).map(|_| broke()).last();
        assert_eq!(last, Some((false, pause(LONGEST_PAUSE))));
        health.recovered();
        assert!(health.broke());
        assert_eq!(health, pause(FIRST_PAUSE));
    }

    #[test]
    fn only_versions_that_answer_progress_requests_in_order_are_asked() {
        let asked = |versions: &[&str], expected: bool| {
            for version in versions {
                assert_eq!(answers_progress_requests(version), expected, "{version}");
            }
        };
        asked(
            &[
                "3.4.31",
                "3.5.13",
                "3.5.30",
                "3.6.0",
                "3.6.0-rc.1",
                "3.10.0",
                "4.0.0",
            ],
            true,
        );
        asked(
            &[
                "3.3.27", "3.4.23", "3.4.30", "3.5.0", "3.5.12", "3.5", "", "unknown",
            ],
            false,
        );
    }

    fn event(revision: i64) -> Event {
        Event {
            kind: EventType::Put as i32,
            kv: Some(KeyValue {
                mod_revision: revision,
                ..Default::default()
            }),
        }
    }

    #[test]
    fn revisions_become_visible_as_a_whole() {
        let check = |pieces: &[i64], goes_on: bool, whole: usize| {
            let mut pieces: Vec<_> = pieces.iter().map(|&revision| event(revision)).collect();
            let count = pieces.len();
            assert_eq!(whole_revisions(&mut pieces, goes_on).len(), whole);
            assert_eq!(pieces.len(), count - whole);
        };
        check(&[], true, 0);
        check(&[2, 3, 3], false, 3);
        check(&[2, 3, 3], true, 1);
        check(&[3, 3], true, 0);
    }

    fn change(key: &str, revision: u64, created: u64, value: Option<&'static str>) -> Record {
        Record {
            revision: Revision::new(revision),
            key: key.into(),
            value: value.map(Into::into),
            create_revision: Revision::new(created),
            written_at: 0,
            expires_at: None,
            seal: Seal::Current,
        }
    }

    #[test]
    fn a_lost_event_is_detected() {
        let mut mvcc = Mvcc::new();
        mvcc.apply(change("a", 2, 2, Some("x")));
        let check = |records: &[Record], follows: bool| {
            let mut records = records.to_vec();
            assert_eq!(complete(&mvcc, &mut records).is_ok(), follows, "{records:?}");
        };
        check(&[change("a", 3, 2, Some("y")), change("a", 4, 0, None)], true);
        check(&[change("a", 3, 0, None), change("a", 4, 4, Some("y"))], true);
        check(
            &[change("b", 3, 3, Some("y")), change("b", 4, 3, Some("z"))],
            true,
        );
        check(&[change("a", 4, 4, Some("y"))], false);
        check(&[change("b", 4, 3, Some("y"))], false);
        check(&[change("b", 4, 0, None)], false);
    }

    #[test]
    fn deletions_have_the_create_revision_of_their_key() {
        let mut mvcc = Mvcc::new();
        mvcc.apply(change("a", 2, 2, Some("x")));
        let mut records = [change("a", 5, 0, None)];
        complete(&mvcc, &mut records).unwrap();
        assert_eq!(records[0].create_revision, Revision::new(2));
    }
}
