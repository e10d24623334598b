//! The time from sending a write to its event, for ours and for kube.
//!
//! Writer and subscriber are one program, which continues after both the answer and the event have arrived, so writes
//! do not overlap. Each client writes in its own way, which is part of the time. Under load there are many writers,
//! each with its own pod; then the cost of a write and its event dominates.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::{BoxFuture, try_join_all};
use futures_util::{Stream, StreamExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use watchkeeper_bench_codec::written::WRITERS;

use super::child::report;

/// The scenario of a realistic pod: the server, which decodes such an object, dominates.
pub(crate) const OF_A_POD: &str = "latency, a pod";

/// The scenario of a small object: the transport dominates.
pub(crate) const OF_A_CONFIG_MAP: &str = "latency, a config map";

/// The scenario of many concurrent writers.
pub(crate) const OF_MANY_PODS: &str = "latency, 16 pods at once";

/// The annotation that identifies the event of a write.
pub(crate) const MARK: &str = "write";

/// Timed writes.
pub(crate) const WRITES: usize = 300;

/// Timed writes of many writers: each has a hundred.
const LOADED_WRITES: usize = 1_600;

/// Untimed writes before those, to warm up connections, caches and allocators.
pub(crate) const FIRST_WRITES: usize = 50;

/// Reports p50 and p99 of the time until the event of a write, and p50 of the time until its answer. `marks` has the
/// mark of each event's object.
pub(crate) async fn measure(
    write: impl Fn(Value) -> BoxFuture<'static, Result<()>>,
    mut marks: impl Stream<Item = Result<Option<String>>> + Unpin,
) -> Result<()> {
    let (mut answered, mut seen) = (Vec::new(), Vec::new());
    for turn in 0..FIRST_WRITES + WRITES {
        let mark = format!("{}-{turn}", std::process::id());
        let patch = json!({"metadata": {"annotations": {MARK: mark}}});
        let began = Instant::now();
        let writing = async { write(patch).await.map(|()| began.elapsed()) };
        let seeing = async {
            while let Some(seen) = marks.next().await {
                if seen?.as_ref() == Some(&mark) {
                    return Ok(began.elapsed());
                }
            }
            bail!("no more events")
        };
        let (written, told) = tokio::try_join!(writing, seeing)?;
        if turn >= FIRST_WRITES {
            answered.push(written);
            seen.push(told);
        }
    }
    report_times(answered, seen);
    Ok(())
}

/// Like [`measure`], with [`WRITERS`] concurrent writers that share the number of writes.
pub(crate) async fn measure_many(
    write: impl Fn(usize, Value) -> BoxFuture<'static, Result<()>>,
    mut marks: impl Stream<Item = Result<Option<String>>> + Unpin,
) -> Result<()> {
    let expected = Expected::default();
    let writing = try_join_all((0..WRITERS).map(|writer| write_in_turn(writer, &write, &expected)));
    let seeing = async {
        while let Some(seen) = marks.next().await {
            expected.seen(&seen?.unwrap_or_default());
        }
        bail!("no more events")
    };
    let times = tokio::select! {
        times = writing => times?,
        end = seeing => return end,
    };
    let (answered, seen): (Vec<_>, Vec<_>) = times.into_iter().flatten().unzip();
    report_times(answered, seen);
    Ok(())
}

/// The writes of one of many writers: the times until answer and event.
async fn write_in_turn(
    writer: usize,
    write: &impl Fn(usize, Value) -> BoxFuture<'static, Result<()>>,
    expected: &Expected,
) -> Result<Vec<(Duration, Duration)>> {
    let mut times = Vec::new();
    let first = FIRST_WRITES.div_ceil(WRITERS);
    for turn in 0..first + LOADED_WRITES / WRITERS {
        let mark = format!("{}-{writer}-{turn}", std::process::id());
        let patch = json!({"metadata": {"annotations": {MARK: mark}}});
        let began = Instant::now();
        let seen = expected.expect(mark, began);
        write(writer, patch).await?;
        let answered = began.elapsed();
        let seen = seen.await.context("no more events")?;
        if turn >= first {
            times.push((answered, seen));
        }
    }
    Ok(times)
}

/// The marks that were written and not yet seen, with their start times and waiters.
#[derive(Default)]
struct Expected(Mutex<HashMap<String, (Instant, oneshot::Sender<Duration>)>>);

impl Expected {
    fn expect(&self, mark: String, since: Instant) -> oneshot::Receiver<Duration> {
        let (teller, told) = oneshot::channel();
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        marks.insert(mark, (since, teller));
        told
    }

    fn seen(&self, mark: &str) {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, teller)) = marks.remove(mark) {
            let _ = teller.send(since.elapsed());
        }
    }
}

/// Reports the times until writes were seen and answered.
pub(crate) fn report_times(answered: Vec<Duration>, seen: Vec<Duration>) {
    let (answered, seen) = (Sorted::new(answered), Sorted::new(seen));
    report(&[seen.at(50), seen.at(99), answered.at(50)]);
}

struct Sorted(Vec<Duration>);

impl Sorted {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// A percentile in milliseconds.
    fn at(&self, share: usize) -> f64 {
        self.0[(self.0.len() - 1) * share / 100].as_secs_f64() * 1e3
    }
}
