//! A watch that is about to time out: its last bookmark, and a watch that resumes there.
//!
//! kube-apiserver sends a bookmark about every minute, and one two seconds before the requested timeout. A short
//! timeout therefore makes a short check.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{Options, Verdicts};
use crate::check::Check;
use crate::objects::{Objects, Stop};
use crate::promises::{Seen, Selection, bookmarkable, gap_free};
use crate::watcher::{Read, Watcher};

pub(super) const CHECKS: &[Check] = &[Check::Bookmarkable, Check::BookmarkSent];

const TIMEOUT_SECONDS: u64 = 6;
const MAX_RECONNECTS: usize = 2;

pub(super) fn run<'a>(
    objects: &'a mut Objects,
    options: &'a Options,
) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        let mut watcher = Watcher::new(Selection::default(), options.patience);
        objects.write("a", "red").await?;
        watcher.list(objects, Some(TIMEOUT_SECONDS)).await?;
        objects.write("b", "red").await?;
        objects.delete("a").await?;
        let last = objects.write("c", "blue").await?;
        watcher.read_to(last, objects).await?;
        let Some(bookmark) = next_bookmark(&mut watcher, objects, options.patience).await? else {
            let seen = format!("no bookmark within a timeout of {TIMEOUT_SECONDS} s");
            let none = Stop::Skipped("no bookmark was sent".to_owned());
            return Ok(vec![
                (Check::Bookmarkable, Err(none)),
                (Check::BookmarkSent, Err(Stop::Broken(seen))),
            ]);
        };
        let kept = go_on(&mut watcher, bookmark, objects).await;
        Ok(vec![(Check::Bookmarkable, kept), (Check::BookmarkSent, Ok(()))])
    })
}

/// Reads to the next bookmark; `None` if the stream ends without one.
async fn next_bookmark(
    watcher: &mut Watcher,
    objects: &Objects,
    patience: Duration,
) -> Result<Option<u64>, Stop> {
    let deadline = Instant::now() + Duration::from_secs(TIMEOUT_SECONDS) + patience;
    let mut reconnects = 0;
    loop {
        let session = watcher.history.sessions.last();
        if let Some(Seen::Bookmark(version)) = session.and_then(|session| session.seen.last()) {
            return Ok(Some(*version));
        }
        match watcher.read_until(deadline, objects).await? {
            Read::Something => {}
            // Servers may end a watch at any time, but not always before its bookmark.
            Read::Ended if reconnects < MAX_RECONNECTS => {
                reconnects += 1;
                watcher
                    .resume_at(watcher.position(), objects, Some(TIMEOUT_SECONDS))
                    .await?;
            }
            Read::Ended | Read::TimedOut => return Ok(None),
        }
    }
}

/// Events after the bookmark are newer, on the same stream and on one that resumes there.
async fn go_on(watcher: &mut Watcher, bookmark: u64, objects: &mut Objects) -> Result<(), Stop> {
    judge(watcher, objects)?;
    objects.write("b", "blue").await?;
    let deadline = Instant::now() + watcher.patience();
    watcher.read_until(deadline, objects).await?;
    judge(watcher, objects)?;
    watcher.disconnect();
    watcher.resume_at(bookmark, objects, None).await?;
    let last = objects.write("d", "blue").await?;
    watcher.read_to(last, objects).await?;
    watcher.history.caught_up = last;
    judge(watcher, objects)?;
    Ok(gap_free(objects.truth(), &watcher.history)?)
}

fn judge(watcher: &mut Watcher, objects: &mut Objects) -> Result<(), Stop> {
    objects.settle([&watcher.history]);
    Ok(bookmarkable(objects.truth(), &watcher.history)?)
}
