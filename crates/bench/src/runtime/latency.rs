//! How long it takes from sending a write to hearing of it, for ours and for kube's in the same words.
//!
//! Writer and subscriber are one program, which goes on when both the answer and the event have come: the next write
//! does not meet the last one. Each client writes in its own way, and its way is part of the time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use serde_json::{Value, json};

use super::child::report;

/// The scenario of a realistic pod: most of its time is the server's, which takes such an object apart.
pub(crate) const OF_A_POD: &str = "latency, a pod";

/// The scenario of a small object: most of its time is spent on the way.
pub(crate) const OF_A_CONFIG_MAP: &str = "latency, a config map";

/// What is written to: namespace and name.
pub(crate) const LATENCY_OBJECT: (&str, &str) = ("bench", "latency");

/// The annotation by which the event of a write is known.
pub(crate) const MARK: &str = "write";

/// Writes that are timed.
const WRITES: usize = 300;

/// Writes before those: connections, caches and allocators are as they are in a program that runs.
const FIRST_WRITES: usize = 50;

/// Reports p50 and p99 of the time until the mark of a write is seen, and p50 of the time until it is answered.
/// `marks` has an item for each event, with the mark its object has.
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
    let (answered, seen) = (Sorted::new(answered), Sorted::new(seen));
    report(&[seen.at(50), seen.at(99), answered.at(50)]);
    Ok(())
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
