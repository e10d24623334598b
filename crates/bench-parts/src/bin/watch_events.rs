//! Watch events per second through watcher, store and one subscriber on one core, with and without cutting the
//! objects out of JSON: `cargo run --release -p watchkeeper-bench-parts --bin watch_events`. An argument sets
//! the number of events, for counting instructions.
#![allow(clippy::print_stdout)]

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures_util::{FutureExt, StreamExt, stream};
use watchkeeper_meta::{ListMeta, ResourceVersion};
use watchkeeper_runtime::informer::{Informer, Notice};
use watchkeeper_runtime::watcher::{Config, Input, ListRequest, Opening, Source, WatchRequest};
use watchkeeper_wire::{Object, ObjectOptions};

const OBJECTS: usize = 30_000;
const EVENTS: usize = 500_000;

/// A server whose watch is always ready with the next event.
struct Endless {
    parse: bool,
    events: usize,
    /// The time at which the events were ready.
    started: Arc<OnceLock<Instant>>,
}

impl Source for Endless {
    type Object = Object;

    fn list(&self, _: ListRequest) -> Opening<Object> {
        let items = (0..OBJECTS).map(|number| Input::Item(object(&json(number, number + 1))));
        let end = Input::PageEnd(ListMeta {
            resource_version: ResourceVersion::from(OBJECTS as u64),
            ..Default::default()
        });
        async { Ok(stream::iter(items.chain([end])).boxed()) }.boxed()
    }

    fn watch(&self, _: WatchRequest) -> Opening<Object> {
        let texts: Vec<String> = (0..self.events)
            .map(|turn| json(turn.wrapping_mul(7_919) % OBJECTS, OBJECTS + 1 + turn))
            .collect();
        let parsed: Vec<Object> = match self.parse {
            true => Vec::new(),
            false => texts.iter().map(|text| object(text)).collect(),
        };
        let parse = self.parse;
        let _ = self.started.set(Instant::now());
        let events = (0..self.events).map(move |turn| {
            Input::Modified(if parse {
                object(&texts[turn])
            } else {
                parsed[turn].clone()
            })
        });
        async { Ok(stream::iter(events).chain(stream::pending()).boxed()) }.boxed()
    }
}

/// A pod of some 4 kB, most of it never parsed.
fn json(number: usize, version: usize) -> String {
    let body = "x".repeat(3_700);
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{number:06}","namespace":"ns-{:02}","uid":"u{number}","resourceVersion":"{version}","labels":{{"app":"app-{}"}}}},"spec":{{"body":"{body}"}}}}"#,
        number % 50,
        number % 100,
    )
}

fn object(json: &str) -> Object {
    Object::from_json(json.as_bytes(), &ObjectOptions::default()).expect("valid JSON")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let events = std::env::args()
        .nth(1)
        .map_or(EVENTS, |count| count.parse().expect("a number"));
    for (what, parse) in [("objects as they are", false), ("objects cut out of JSON", true)] {
        let started = Arc::new(OnceLock::new());
        let source = Endless {
            parse,
            events,
            started: started.clone(),
        };
        let informer = Informer::start(Arc::new(source), Config::paged().into());
        let mut changes = informer.subscribe(Default::default());
        while changes.next().await != Some(Notice::Synced) {}
        let last = ResourceVersion::from((OBJECTS + events) as u64);
        let mut told = 0_u64;
        while informer.store().snapshot().version() != &last || changes.backlog() > 0 {
            changes.next().await;
            told += 1;
        }
        let per_second = events as f64 / started.get().expect("it watches").elapsed().as_secs_f64();
        let coalesced = changes.coalesced();
        println!(
            "{what}: {:.0} k events/s, {told} told, {coalesced} coalesced",
            per_second / 1e3
        );
    }
}
