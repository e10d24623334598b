//! Watchers with all kinds of selectors under random writes; they lose their streams and resume.
//!
//! Writers and watchers take turns, so that the next expected event is always known and nobody waits longer than the
//! server needs.

use fastrand::Rng;
use futures_util::future::BoxFuture;

use super::{Options, Verdicts};
use crate::check::Check;
use crate::objects::{Objects, Stop};
use crate::promises::{
    Change, History, Seen, Selection, Session, Start, Verdict, filtered, gap_free, ordered, resumable,
    snapshots_true, unique,
};
use crate::watcher::{Read, Watcher};

pub(super) const CHECKS: &[Check] = &[
    Check::Ordered,
    Check::Unique,
    Check::GapFree,
    Check::Resumable,
    Check::Faithful,
    Check::LabelSelector,
    Check::FieldSelector,
];

const ROUNDS: usize = 12;
/// The largest number of writes in a round.
const BATCH: usize = 10;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const COLOURS: [&str; 2] = ["red", "blue"];

pub(super) fn run<'a>(
    objects: &'a mut Objects,
    options: &'a Options,
) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        let mut random = Rng::with_seed(options.seed);
        let mut watchers: Vec<Watcher> = selections()
            .map(|selection| Watcher::new(selection, options.patience))
            .into();
        play(objects, &mut watchers, &mut random).await?;
        let histories: Vec<History> = watchers.into_iter().map(|watcher| watcher.history).collect();
        objects.settle(&histories);
        Ok(CHECKS
            .iter()
            .map(|check| (*check, judge(*check, objects.truth(), &histories)))
            .collect())
    })
}

fn selections() -> [Selection; 5] {
    let selection = |colour: Option<&str>, name: Option<&str>| Selection {
        colour: colour.map(str::to_owned),
        name: name.map(str::to_owned),
    };
    [
        selection(None, None),
        selection(Some("red"), None),
        selection(Some("blue"), None),
        selection(None, Some("a")),
        selection(Some("red"), Some("b")),
    ]
}

/// Rounds of writes, after each of which every watcher catches up, or not quite.
async fn play(objects: &mut Objects, watchers: &mut [Watcher], random: &mut Rng) -> Result<(), Stop> {
    for round in 0..ROUNDS {
        for watcher in watchers.iter_mut() {
            if !watcher.is_connected() {
                watcher.connect(objects).await?;
            }
        }
        for _ in 0..random.usize(2..BATCH) {
            some_write(objects, random).await?;
        }
        for watcher in watchers.iter_mut() {
            // A watcher that is cut off before it has read everything reads the rest after it resumes.
            if round + 1 < ROUNDS && random.u32(..4) == 0 {
                watcher.disconnect();
                continue;
            }
            if catch_up(watcher, objects).await? == Read::TimedOut {
                // Stop waiting: the missing event will be reported.
                return Ok(());
            }
            if random.u32(..3) == 0 {
                watcher.disconnect();
            }
        }
    }
    Ok(())
}

async fn catch_up(watcher: &mut Watcher, objects: &Objects) -> Result<Read, Stop> {
    let awaited = objects.awaited(&watcher.history.selection);
    let read = watcher.read_to(awaited, objects).await?;
    watcher.history.caught_up = awaited;
    Ok(read)
}

async fn some_write(objects: &mut Objects, random: &mut Rng) -> Result<(), Stop> {
    let name = NAMES[random.usize(..NAMES.len())];
    if objects.is_live(name) && random.u32(..4) == 0 {
        objects.delete(name).await?;
    }
    let (name, colour) = (
        NAMES[random.usize(..NAMES.len())],
        COLOURS[random.usize(..COLOURS.len())],
    );
    objects.write(name, colour).await?;
    Ok(())
}

fn judge(check: Check, truth: &[Change], histories: &[History]) -> Result<(), Stop> {
    let of = |promise: &dyn Fn(&History) -> Verdict, which: &dyn Fn(&Selection) -> bool| {
        let judged = histories.iter().filter(|history| which(&history.selection));
        for history in judged {
            promise(history)
                .map_err(|seen| Stop::Broken(format!("{seen}{}", through(&history.selection))))?;
        }
        Ok(())
    };
    let true_to = |history: &History| {
        snapshots_true(truth, history)?;
        filtered(truth, history)
    };
    let everyone = |_: &Selection| true;
    match check {
        Check::Ordered => of(&ordered, &everyone),
        Check::Unique => of(&unique, &everyone),
        Check::GapFree => of(&|history| gap_free(truth, history), &everyone),
        Check::Resumable => {
            of(&|history| resumable(truth, history), &everyone)?;
            some_resumed(histories)
        }
        Check::LabelSelector => of(&true_to, &|selection| {
            selection.colour.is_some() && selection.name.is_none()
        }),
        Check::FieldSelector => of(&true_to, &|selection| selection.name.is_some()),
        _ => of(&true_to, &|selection| {
            selection.colour.is_none() && selection.name.is_none()
        }),
    }
}

/// A server that never lets a watch resume would pass every single check.
fn some_resumed(histories: &[History]) -> Result<(), Stop> {
    let sessions: Vec<_> = histories.iter().flat_map(|history| &history.sessions).collect();
    let went_on = |session: &&&Session| {
        let is_event = |seen: &Seen| matches!(seen, Seen::Event(_));
        matches!(session.start, Start::Resumed(_)) && session.seen.iter().any(is_event)
    };
    let expired = sessions.iter().filter(|session| session.expired()).count();
    match (sessions.iter().filter(went_on).count(), expired) {
        (0, 0) => Err(Stop::Skipped("no watch came to be resumed".to_owned())),
        (0, expired) => Err(Stop::Broken(format!(
            "no watch could be resumed within seconds: {expired} were told that their version had expired"
        ))),
        _ => Ok(()),
    }
}

fn through(selection: &Selection) -> String {
    let label = selection.colour.as_ref().map(|colour| format!("colour={colour}"));
    let field = selection
        .name
        .as_ref()
        .map(|name| format!("metadata.name={name}"));
    match [label, field]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
    {
        none if none.is_empty() => String::new(),
        selector => format!(" (selector {selector})"),
    }
}
