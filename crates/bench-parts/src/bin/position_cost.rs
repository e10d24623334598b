//! The cost of a position on disk for a follower of 30,000 objects at 1,000 events a second, compared with one in
//! memory: `cargo run --release -p watchkeeper-bench-parts --bin position_cost`.
//!
//! Objects are made in advance and come from memory, so that the CPU time is the follower's own.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{FutureExt, StreamExt, stream};
use watchkeeper_meta::ListMeta;
use watchkeeper_runtime::follow::{Follow, FollowEvent};
use watchkeeper_runtime::position::Position;
use watchkeeper_runtime::watcher::{Config, Input, ListRequest, Opening, Source, WatchRequest};
use watchkeeper_wire::{Object, ObjectOptions};

const OBJECTS: usize = 30_000;
const EVENTS: usize = 20_000;
const EVENTS_PER_SECOND: usize = 1_000;

/// Events arrive in groups, as from a busy server.
const GROUP: usize = 10;

struct Scripted {
    objects: Vec<Object>,
    changes: Vec<Object>,
}

impl Source for Scripted {
    type Object = Object;

    fn list(&self, _: ListRequest) -> Opening<Object> {
        let items = self.objects.iter().cloned().map(Input::Item);
        let end = Input::PageEnd(ListMeta {
            resource_version: (OBJECTS as u64).into(),
            ..Default::default()
        });
        let answer = stream::iter(items.chain([end]).collect::<Vec<_>>()).boxed();
        async { Ok(answer) }.boxed()
    }

    fn watch(&self, _: WatchRequest) -> Opening<Object> {
        let groups: Vec<Vec<Object>> = self.changes.chunks(GROUP).map(<[_]>::to_vec).collect();
        let pause = Duration::from_secs(1) * GROUP as u32 / EVENTS_PER_SECOND as u32;
        let groups = groups.into_iter();
        let answer = stream::unfold(
            (tokio::time::interval(pause), groups),
            |(mut ticks, mut groups)| async {
                let group = groups.next()?;
                ticks.tick().await;
                Some((stream::iter(group).map(Input::Modified), (ticks, groups)))
            },
        );
        let answer = answer.flatten();
        let answer = answer.chain(stream::pending()).boxed();
        async { Ok(answer) }.boxed()
    }
}

fn object(number: usize, version: usize) -> Object {
    let namespace = number % 50;
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-6d4b75cb6d-{number:06}","namespace":"team-{namespace:02}","uid":"0e1a9f6c-0c3c-4b5e-9a5b-{number:012}","resourceVersion":"{version}"}}}}"#,
    );
    Object::from_json(json.as_bytes(), &ObjectOptions::default()).expect("valid JSON")
}

/// User and system time of this process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux counts 100 ticks a second.
    Duration::from_millis(ticks * 10)
}

async fn follow(what: &str, position: Position, source: &Arc<Scripted>) {
    let mut follow = Follow::from_position(position);
    follow.add("pods", source.clone(), Config::paged());
    let (start, cpu) = (Instant::now(), cpu_time());
    let (mut events, mut watching) = (0, (start, cpu));
    while events < EVENTS {
        let next = follow.next().await.expect("a position").expect("not the end");
        match next.what.expect("no failure") {
            FollowEvent::Synced(_) => {
                watching = (Instant::now(), cpu_time());
                let listed = watching.0 - start;
                println!("{what}: list of {OBJECTS} objects handled in {listed:.2?}");
            }
            FollowEvent::Modified(_) => events += 1,
            _ => {}
        }
    }
    let (wall, cpu) = (watching.0.elapsed(), cpu_time() - watching.1);
    println!(
        "{what}: {EVENTS} events, {:.0} a second, {:.1} % of a core",
        EVENTS as f64 / wall.as_secs_f64(),
        100.0 * cpu.as_secs_f64() / wall.as_secs_f64(),
    );
    follow.finish().expect("written");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let source = Arc::new(Scripted {
        objects: (0..OBJECTS).map(|number| object(number, number + 1)).collect(),
        changes: (0..EVENTS)
            .map(|turn| object(turn.wrapping_mul(7_919) % OBJECTS, OBJECTS + turn + 1))
            .collect(),
    });
    follow("without a file", Position::in_memory(), &source).await;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("position");
    let position = Position::open(&path).expect("a position");
    follow("with a file", position, &source).await;
    let bytes = std::fs::metadata(&path).expect("a file").len();
    println!("file: {:.2} MB", bytes as f64 / 1e6);
    let start = Instant::now();
    let position = Position::open(&path).expect("a position");
    let held = position.get("pods").map_or(0, |known| known.inventory.len());
    println!("read back: {held} objects in {:.1?}", start.elapsed());
}
