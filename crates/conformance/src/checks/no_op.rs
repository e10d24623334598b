//! A write without a change.

use futures_util::future::BoxFuture;

use super::{Options, Verdicts, kept};
use crate::check::Check;
use crate::objects::{Objects, Stop};
use crate::promises::{Selection, all_kept};
use crate::watcher::Watcher;

pub(super) fn run<'a>(
    objects: &'a mut Objects,
    options: &'a Options,
) -> BoxFuture<'a, Result<Verdicts, Stop>> {
    Box::pin(async move {
        let mut watcher = Watcher::new(Selection::default(), options.patience);
        objects.write("a", "red").await?;
        watcher.list(objects, None).await?;
        let (before, after) = objects.write_nothing_new("a").await?;
        if before != after {
            return Err(Stop::Broken(format!(
                "a write of what was there already made version {after} of version {before}"
            )));
        }
        let last = objects.write("a", "blue").await?;
        watcher.read_to(last, objects).await?;
        watcher.history.caught_up = last;
        all_kept(objects.truth(), &watcher.history)?;
        kept(Check::NoOp)
    })
}
