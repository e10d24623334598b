//! A watch that starts with a list, with every kind of selector.

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
        for name in ["a", "b", "c", "d"] {
            objects.write(name, "red").await?;
        }
        objects.delete("a").await?;
        objects.write("b", "blue").await?;
        let by_label = Selection {
            colour: Some("red".to_owned()),
            name: None,
        };
        for selection in [Selection::default(), by_label] {
            follow(objects, Watcher::new(selection, options.patience)).await?;
        }
        kept(Check::StreamingList)
    })
}

async fn follow(objects: &mut Objects, mut watcher: Watcher) -> Result<(), Stop> {
    let newest = objects.newest();
    watcher.stream_list(objects).await?;
    if watcher.position() < newest {
        return Err(Stop::Broken(format!(
            "the initial events end at {}, before a write that was answered with {newest}",
            watcher.position()
        )));
    }
    objects.write("c", "blue").await?;
    objects.write("e", "red").await?;
    objects.delete("e").await?;
    objects.write("c", "red").await?;
    let awaited = objects.awaited(&watcher.history.selection);
    watcher.read_to(awaited, objects).await?;
    watcher.history.caught_up = awaited;
    objects.settle([&watcher.history]);
    Ok(all_kept(objects.truth(), &watcher.history)?)
}
