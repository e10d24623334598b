//! Version 1, older than anything this check has done: the server answers with the history since, or with 410.
//!
//! A client cannot make a server compact. But a server that still has the history must show all of it.

use futures_util::future::BoxFuture;
use watchkeeper_meta::{ListOptions, ResourceVersionMatch};

use super::{Options, Verdicts, kept};
use crate::check::Check;
use crate::objects::{Objects, Stop, text};
use crate::promises::{Selection, all_kept};
use crate::watcher::{Read, Watcher};

const OLDEST: u64 = 1;

pub(super) fn run<'a>(
    objects: &'a mut Objects,
    options: &'a Options,
) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        objects.write("a", "red").await?;
        objects.write("a", "blue").await?;
        objects.write("b", "red").await?;
        objects.delete("a").await?;
        objects.write("b", "blue").await?;
        watch(objects, Watcher::new(Selection::default(), options.patience)).await?;
        list(objects).await?;
        kept(Check::Expired)
    })
}

async fn watch(objects: &mut Objects, mut watcher: Watcher) -> Result<(), Stop> {
    watcher.resume_at(OLDEST, objects, None).await?;
    let newest = objects.newest();
    let deadline = tokio::time::Instant::now() + watcher.patience();
    while watcher.position() < newest && watcher.is_connected() {
        if watcher.read_until(deadline, objects).await? != Read::Something {
            break;
        }
    }
    if watcher.history.sessions.iter().any(|session| session.expired()) {
        return Ok(());
    }
    watcher.history.caught_up = newest;
    objects.settle([&watcher.history]);
    let judged = all_kept(objects.truth(), &watcher.history);
    judged.map_err(|seen| Stop::Broken(format!("a watch from {OLDEST} was not told 410, and {seen}")))
}

async fn list(objects: &Objects) -> Result<(), Stop> {
    let options = ListOptions {
        resource_version: text(OLDEST),
        resource_version_match: Some(ResourceVersionMatch::Exact),
        ..ListOptions::default()
    };
    match objects.list(&Selection::default(), options).await {
        Err(error) if error.is_expired() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(listed) if listed.objects.is_empty() && listed.version == OLDEST => Ok(()),
        Ok(listed) => Err(Stop::Broken(format!(
            "a list of exactly version {OLDEST} was not told 410, and shows version {}",
            listed.version
        ))),
    }
}
