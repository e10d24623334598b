//! Compares reads and writes of the store with a hash map behind a lock, idle and under a busy writer: `cargo run
//! --release -p watchkeeper-bench-parts --bin store_reads`.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use watchkeeper_meta::{ObjectKey, ResourceVersion};
use watchkeeper_runtime::delta::Delta;
use watchkeeper_runtime::store::{self, Writer};
use watchkeeper_runtime::watcher::Event;
use watchkeeper_wire::{Object, ObjectOptions};

const OBJECTS: usize = 30_000;
const READS: usize = 1_000_000;

fn object(number: usize, version: usize) -> Object {
    let namespace = number % 50;
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{number:06}","namespace":"ns-{namespace:02}","uid":"u{number}","resourceVersion":"{version}","labels":{{"app":"app-{app}"}}}}}}"#,
        app = number % 100,
    );
    Object::from_json(json.as_bytes(), &ObjectOptions::default()).expect("valid JSON")
}

/// Calls `work` for each number and prints the time per call.
fn time(what: &str, times: usize, mut work: impl FnMut(usize)) {
    let start = Instant::now();
    (0..times).for_each(&mut work);
    println!(
        "{what:<44} {:>9.0} ns",
        start.elapsed().as_nanos() as f64 / times as f64
    );
}

/// The time of a complete list.
fn list(writer: &mut Writer, objects: &[Object], deltas: &mut Vec<Delta>) -> Duration {
    let start = Instant::now();
    writer.apply(0, Event::Init, deltas);
    for object in objects {
        writer.apply(0, Event::InitApply(object.clone()), deltas);
    }
    writer.apply(0, Event::InitDone(ResourceVersion::new("30000")), deltas);
    writer.publish();
    start.elapsed()
}

fn main() {
    let objects: Vec<Object> = (0..OBJECTS).map(|number| object(number, number + 1)).collect();
    let keys: Vec<ObjectKey> = objects.iter().map(Object::key).collect();
    let scattered = |turn: usize| turn.wrapping_mul(7_919) % OBJECTS;

    let (reader, mut writer) = store::new();
    reader
        .add_index("app", |object| {
            object
                .label("app")
                .map(|app| app.into_owned())
                .into_iter()
                .collect()
        })
        .expect("a new index");
    let mut deltas = Vec::new();
    println!(
        "first list of {OBJECTS}: {:?}",
        list(&mut writer, &objects, &mut deltas)
    );
    deltas.clear();
    let relist = list(&mut writer, &objects, &mut deltas);
    println!("relist without changes: {relist:?}, {} deltas", deltas.len());
    println!(
        "arrays: {} kB",
        (reader.snapshot().memory_size() - objects.iter().map(Object::memory_size).sum::<usize>()) / 1024
    );

    let map: HashMap<ObjectKey, Object> = keys.iter().cloned().zip(objects.iter().cloned()).collect();
    let map = Arc::new(RwLock::new(map));

    time("store get", READS, |turn| {
        drop(black_box(reader.get(&keys[scattered(turn)])))
    });
    time("map   get", READS, |turn| {
        drop(black_box(
            map.read().unwrap().get(&keys[scattered(turn)]).cloned(),
        ));
    });
    time("store snapshot + namespace of 600", 2_000, |turn| {
        let namespace = format!("ns-{:02}", turn % 50);
        black_box(reader.snapshot().in_namespace(&namespace).count());
    });
    time("map   namespace of 600", 200, |turn| {
        let namespace = format!("ns-{:02}", turn % 50);
        black_box(
            map.read()
                .unwrap()
                .keys()
                .filter(|key| key.namespace() == namespace)
                .count(),
        );
    });
    time("store index lookup of 300", 2_000, |turn| {
        let app = format!("app-{}", turn % 100);
        black_box(reader.snapshot().by_index("app", &app).expect("index").count());
    });
    let changed: Vec<Object> = (0..OBJECTS)
        .map(|number| object(number, OBJECTS + number))
        .collect();
    time("store apply + publish, each event", OBJECTS, |turn| {
        writer.apply(0, Event::Modified(changed[scattered(turn)].clone()), &mut deltas);
        writer.publish();
        deltas.clear();
    });
    let mut turn = 0;
    time("store apply, published per 100 events", OBJECTS, |_| {
        writer.apply(0, Event::Modified(objects[scattered(turn)].clone()), &mut deltas);
        turn += 1;
        if turn % 100 == 0 {
            writer.publish();
            deltas.clear();
        }
    });

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0;
            while !stop.load(Ordering::Relaxed) {
                writer.apply(0, Event::Modified(changed[scattered(turn)].clone()), &mut deltas);
                writer.publish();
                deltas.clear();
                turn += 1;
            }
            println!("writes meanwhile: {turn}");
        });
        let mut longest = Duration::ZERO;
        time("store get under a busy writer", READS, |turn| {
            let start = Instant::now();
            drop(black_box(reader.get(&keys[scattered(turn)])));
            longest = longest.max(start.elapsed());
        });
        println!("longest: {longest:?}");
        stop.store(true, Ordering::Relaxed);
    });
}
