//! Measures a durable store on this machine: creates per second with 1 and with 64 writers, the read latency meanwhile,
//! and the restart time.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench-parts --bin throughput [directory]
//! cargo run --release -p watchkeeper-bench-parts --features etcd --bin throughput [directory] http://127.0.0.1:2379
//! ```
//!
//! Given the address of an etcd, which should be empty, it also measures creates through etcd.

#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use watchkeeper_storage::{RangeRequest, Retention, Revision, Store, StoreOptions, WriteError};

/// A realistic pod.
const VALUE_BYTES: usize = 3500;
/// Creates per measurement.
const CREATES: usize = 20_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => std::env::temp_dir().join(format!("watchkeeper-throughput-{}", std::process::id())),
    };
    println!("memory engine");
    let memory = Store::memory(StoreOptions::default());
    measure(&memory, 1, "m1").await?;
    measure(&memory, 64, "m64").await?;
    memory.close().await;

    println!("durable engine in {}", dir.display());
    let store = Store::open(&dir, StoreOptions::default()).await?;
    measure(&store, 1, "d1").await?;
    measure(&store, 64, "d64").await?;
    measure_range(&store).await?;
    measure_wakes(&store).await?;
    let started = Instant::now();
    store.close().await;
    println!("  close                        {:>9.1?}", started.elapsed());
    let started = Instant::now();
    let store = Store::open(&dir, StoreOptions::default()).await?;
    println!(
        "  open with {} revisions    {:>9.1?}",
        store.current_revision(),
        started.elapsed()
    );
    store.close().await;
    std::fs::remove_dir_all(&dir)?;

    let started = Instant::now();
    let retention = Retention {
        revisions: 1000,
        ..Retention::default()
    };
    let options = StoreOptions {
        retention,
        ..StoreOptions::default()
    };
    let store = Store::open(&dir, options).await?;
    println!("  open a new directory         {:>9.1?}", started.elapsed());
    measure_updates(&store).await?;
    store.close().await;
    std::fs::remove_dir_all(&dir)?;
    #[cfg(feature = "etcd")]
    if let Some(url) = std::env::args().nth(2) {
        println!("etcd, a process of its own, at {url}");
        let etcd = watchkeeper_storage::EtcdOptions::at([url]);
        let store = Store::etcd(etcd, StoreOptions::default()).await?;
        measure(&store, 1, "e1").await?;
        measure(&store, 64, "e64").await?;
        store.close().await;
    }
    Ok(())
}

/// 64 writers that each update one key. The retention is so short that every write produces garbage.
async fn measure_updates(store: &Store) -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let writers: Vec<_> = (0..64)
        .map(|writer| tokio::spawn(update(store.clone(), format!("/{writer}"))))
        .collect();
    for writer in writers {
        writer.await??;
    }
    let per_second = CREATES as f64 / started.elapsed().as_secs_f64();
    println!("  64 writers: {per_second:>9.0} updates/s while history is being compacted");
    Ok(())
}

async fn update(store: Store, key: String) -> Result<(), WriteError> {
    let value = || Bytes::from(vec![b'x'; VALUE_BYTES]);
    let mut revision = store.create(&key, value(), None).await?;
    for _ in 1..CREATES / 64 {
        revision = store.update(&key, value(), revision, None).await?;
    }
    Ok(())
}

/// Creates keys with that many writers, while a reader gets one key in a loop.
async fn measure(store: &Store, writers: usize, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    // A single writer waits for every fsync, so fewer creates suffice.
    let each = if writers == 1 {
        CREATES / 5
    } else {
        CREATES / writers
    };
    store.create(&format!("/{name}/read"), "x".into(), None).await?;
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn(read_until(store.clone(), format!("/{name}/read"), done.clone()));
    let started = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| tokio::spawn(write(store.clone(), format!("/{name}/{writer}"), each)))
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await?);
    }
    let elapsed = started.elapsed();
    done.store(true, Ordering::Relaxed);
    let per_second = (writers * each) as f64 / elapsed.as_secs_f64();
    println!(
        "  {writers:>2} writers: {per_second:>9.0} creates/s, {}",
        percentiles(latencies)
    );
    println!("              get meanwhile:   {}", percentiles(reader.await?));
    Ok(())
}

async fn write(store: Store, prefix: String, count: usize) -> Vec<Duration> {
    let mut latencies = Vec::with_capacity(count);
    for number in 0..count {
        let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
        let started = Instant::now();
        let created = store.create(&format!("{prefix}/{number}"), value, None).await;
        latencies.push(started.elapsed());
        if let Err(error) = created {
            println!("  create failed: {error}");
            break;
        }
    }
    latencies
}

/// Gets a key about every 100 µs and returns the latencies.
async fn read_until(store: Store, key: String, done: Arc<AtomicBool>) -> Vec<Duration> {
    let mut latencies = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let started = Instant::now();
        let found = store.get(&key, None).await;
        latencies.push(started.elapsed());
        if !matches!(found, Ok(Some(_))) {
            println!("  get failed: {found:?}");
            break;
        }
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    latencies
}

async fn measure_range(store: &Store) -> Result<(), Box<dyn std::error::Error>> {
    let first_page = RangeRequest {
        limit: Some(500),
        ..RangeRequest::default()
    };
    let started = Instant::now();
    let page = store.range(&first_page).await?;
    println!(
        "  page of 500, {} counted   {:>9.1?}",
        page.remaining,
        started.elapsed()
    );
    let started = Instant::now();
    let range = store.range(&RangeRequest::default()).await?;
    println!(
        "  range of {} items         {:>9.1?}",
        range.items.len(),
        started.elapsed()
    );
    Ok(())
}

/// Measures the time from a write until the last of 1,000 feeds has it.
async fn measure_wakes(store: &Store) -> Result<(), Box<dyn std::error::Error>> {
    let mut latencies = Vec::new();
    for round in 0..50 {
        let after = store.current_revision();
        let feeds: Vec<_> = (0..1000)
            .map(|_| store.watch("/wake/", after))
            .collect::<Result<_, _>>()?;
        let readers: Vec<_> = feeds
            .into_iter()
            .map(|mut feed| tokio::spawn(async move { feed.next().await.map(|batch| batch.revision) }))
            .collect();
        tokio::task::yield_now().await;
        let created: Revision = store.create(&format!("/wake/{round}"), "x".into(), None).await?;
        let started = Instant::now();
        for reader in readers {
            assert_eq!(reader.await??, created);
        }
        latencies.push(started.elapsed());
    }
    println!("  write to last of 1,000 feeds: {}", percentiles(latencies));
    Ok(())
}

fn percentiles(mut latencies: Vec<Duration>) -> String {
    latencies.sort_unstable();
    let at = |percent: usize| {
        latencies
            .get(latencies.len() * percent / 100)
            .copied()
            .unwrap_or_default()
    };
    let max = latencies.last().copied().unwrap_or_default();
    format!("p50 {:.1?}, p99 {:.1?}, max {max:.1?}", at(50), at(99))
}
