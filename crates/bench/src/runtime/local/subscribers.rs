//! The cost of one more subscriber: a continuous stream of events through an informer to 1, 10, 100 and 1,000 of them.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::Notify;
use watchkeeper_meta::{ListMeta, ResourceVersion};
use watchkeeper_runtime::informer::{Informer, Notice, Subscription};
use watchkeeper_runtime::watcher::{Config, Input, ListRequest, Opening, Source, WatchRequest};
use watchkeeper_wire::Object;

use super::super::child::cpu_time;
use super::super::median;
use super::{config_map, object};

/// Objects in the store; each changes once.
const OBJECTS: usize = 1000;

/// The numbers of subscribers.
const SUBSCRIBERS: [usize; 4] = [1, 10, 100, 1000];

/// Prints the CPU time per event and subscriber, for each number of them.
pub(super) fn time(rounds: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for count in SUBSCRIBERS {
        let mut times = Vec::new();
        for _ in 0..rounds {
            times.push(runtime.block_on(one_round(count))?);
        }
        let each = median(&mut times);
        println!(
            "{:<44}{each:>14.3}",
            format!("event for {count} subscribers, ns each")
        );
    }
    Ok(())
}

/// Nanoseconds of CPU time per event and subscriber.
async fn one_round(count: usize) -> Result<f64> {
    let source = Changing::new()?;
    let begin = source.begin.clone();
    let informer = Informer::start(Arc::new(source), Config::paged().into());
    let mut subscribers: Vec<Subscription> = (0..count)
        .map(|_| informer.subscribe(Default::default()))
        .collect();
    for subscriber in &mut subscribers {
        while subscriber.next().await.context("the informer has ended")? != Notice::Synced {}
    }
    let began = cpu_time();
    begin.notify_one();
    for subscriber in &mut subscribers {
        for _ in 0..OBJECTS {
            subscriber.next().await.context("the informer has ended")?;
        }
    }
    Ok((cpu_time() - began).as_nanos() as f64 / (OBJECTS * count) as f64)
}

/// A server with a list, and a watch in which each object changes once.
struct Changing {
    /// Starts the changes.
    begin: Arc<Notify>,
    before: Vec<Object>,
    after: Vec<Object>,
}

impl Changing {
    fn new() -> Result<Self> {
        let version = |version: &str| -> Result<Vec<Object>> {
            let maps = (0..OBJECTS).map(|number| {
                let mut map = config_map(number);
                map["metadata"]["resourceVersion"] = version.into();
                object(&map)
            });
            maps.collect()
        };
        Ok(Self {
            begin: Arc::default(),
            before: version("1")?,
            after: version("2")?,
        })
    }
}

impl Source for Changing {
    type Object = Object;

    fn list(&self, _: ListRequest) -> Opening<Object> {
        let items: Vec<_> = self.before.iter().cloned().map(Input::Item).collect();
        let end = Input::PageEnd(ListMeta {
            resource_version: ResourceVersion::from(1),
            ..Default::default()
        });
        async { Ok(stream::iter(items).chain(stream::iter([end])).boxed()) }.boxed()
    }

    fn watch(&self, _: WatchRequest) -> Opening<Object> {
        let changes: Vec<_> = self.after.iter().cloned().map(Input::Modified).collect();
        let begin = self.begin.clone();
        let begun = stream::once(async move { begin.notified().await });
        let changes = begun.flat_map(move |()| stream::iter(changes.clone()));
        async { Ok(changes.chain(stream::pending()).boxed()) }.boxed()
    }
}
