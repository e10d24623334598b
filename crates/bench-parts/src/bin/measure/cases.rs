//! The measurements, one function per state of the server.

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use http::Method;
use watchkeeper_server::Server;

use crate::Failure;
use crate::address::Address;
use crate::load::{self, CONFIG_MAPS, Client, JSON, NAMESPACES, PODS, PROTOBUF};
use crate::program::{Keeps, Process, Program, cpu};
use crate::report::{Yardstick, figure, median, millis, millis_of_work, percentiles};
use crate::watches::Watches;

/// The repetitions of a start, a list or a request.
const STARTS: usize = 11;
const LISTS: usize = 5;
const WRITES: usize = 200;
const WRITERS: usize = 64;
/// The creates of a single client.
const LONE_CREATES: usize = 2_000;
/// The creates of the writers while another client reads.
const BUSY_CREATES: usize = 20_000;
const BUSY_GETS: usize = 3_000;
/// About the size of a pod.
const BLOCK: [u8; 4096] = [b'x'; 4096];
const SYNCS: u32 = 1_000;

fn against(goal: &'static str, peer: &'static str) -> Yardstick {
    Yardstick { goal, peer }
}

/// The speed of the disk: the upper bound for durable writes of a single client.
pub(crate) fn disk() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let mut file = File::create(dir.path().join("blocks"))?;
    let began = Instant::now();
    for _ in 0..SYNCS {
        file.write_all(&BLOCK)?;
        file.sync_data()?;
    }
    let per_second = f64::from(SYNCS) / began.elapsed().as_secs_f64();
    figure(
        "append 4 KiB + fdatasync, no server",
        format!("{per_second:.0} /s"),
        Yardstick::default(),
    )?;
    Ok(())
}

/// A server with only its default objects.
pub(crate) async fn start(program: &Program) -> Result<(), Failure> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let server = Server::builder().start().await?;
        times.push(began.elapsed());
        server.shutdown().await;
    }
    figure(
        "start in process",
        millis(median(&mut times)),
        against("<= 10 ms", ""),
    )?;
    for (what, keeps) in [("in memory", Keeps::InMemory), ("on disk", Keeps::OnDisk)] {
        let (mut times, mut work) = (Vec::new(), Vec::new());
        let mut memory = 0.0;
        for _ in 0..STARTS {
            let began = Instant::now();
            let process = program.start(keeps)?;
            Client::connect(&process).await?.get("/readyz", JSON).await?;
            times.push(began.elapsed());
            work.push(process.cpu()?);
            memory = process.memory("VmRSS")?;
        }
        let time = millis_of_work(median(&mut times), median(&mut work));
        figure(
            &format!("program to 200 of /readyz over TLS, {what}"),
            time,
            against("<= 50 ms", "4,600 ms"),
        )?;
        figure(
            &format!("idle memory, {what}"),
            format!("{memory:.1} MB"),
            against("<= 30 MB", "276 + 39 MB"),
        )?;
    }
    Ok(())
}

/// A server with many namespaces and pods, on disk.
pub(crate) async fn full(program: &Program, objects: usize) -> Result<(), Failure> {
    let process = program.start(Keeps::OnDisk)?;
    let all = 0..objects;
    report_creates(
        &process,
        WRITERS,
        NAMESPACES,
        all.clone(),
        load::namespace,
        "namespace",
    )
    .await?;
    report_creates(&process, WRITERS, PODS, all, load::pod, "pod").await?;
    let memory = format!(
        "{:.0} MB, at most {:.0}",
        process.memory("VmRSS")?,
        process.memory("VmHWM")?
    );
    let what = format!("memory with {} objects", 2 * objects);
    figure(&what, memory, against("<= 400 MB", "1,830 + 247 MB"))?;
    lists(&process, objects).await?;
    let memory = format!(
        "{:.0} MB, at most {:.0}",
        process.memory("VmRSS")?,
        process.memory("VmHWM")?
    );
    figure("memory after the lists", memory, Yardstick::default())?;
    report_creates(
        &process,
        1,
        CONFIG_MAPS,
        0..LONE_CREATES,
        load::config_map,
        "config map",
    )
    .await?;
    busy_gets(&process).await?;
    fan_out(&process, 1_000, against("<= 16 / 21 ms", "32 / 42 ms")).await?;
    Ok(())
}

async fn report_creates(
    process: &Process,
    writers: usize,
    path: &'static str,
    range: std::ops::Range<usize>,
    body: fn(usize) -> String,
    what: &str,
) -> Result<(), Failure> {
    let count = range.len();
    let before = process.cpu()?;
    let (mut times, took) = load::create_all(process, writers, path, range, body).await?;
    let work = (process.cpu()? - before).as_secs_f64() * 1e6 / count as f64;
    let yardstick = match writers {
        1 => against(">= 880 /s", "440 /s"),
        _ => against(">= 7,250 /s", "1,450 /s (p50 43 ms)"),
    };
    let per_second = count as f64 / took.as_secs_f64();
    let ours = format!("{per_second:.0} /s (CPU {work:.0} µs)");
    figure(
        &format!("durable {what} creates, {writers} clients"),
        ours,
        yardstick,
    )?;
    figure(
        &format!("  each, p50 / p99, {what}"),
        percentiles(&mut times),
        Yardstick::default(),
    )?;
    Ok(())
}

async fn lists(process: &Process, objects: usize) -> Result<(), Failure> {
    let mut client = Client::connect(process).await?;
    for (accept, name, yardstick) in [
        (PROTOBUF, "protobuf", against("<= 450 ms", "900 ms")),
        (JSON, "JSON", against("<= 1,250 ms", "2,500 ms")),
    ] {
        let (mut times, mut work, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..LISTS {
            let (began, before) = (Instant::now(), process.cpu()?);
            bytes = client.get("/api/v1/pods", accept).await?;
            times.push(began.elapsed());
            work.push(process.cpu()? - before);
        }
        let what = format!(
            "list {objects} pods, {name}, {} bytes each",
            bytes / objects.max(1)
        );
        let ours = millis_of_work(median(&mut times), median(&mut work));
        figure(&what, ours, yardstick)?;
    }
    Ok(())
}

/// The latency of reads during many writes.
async fn busy_gets(process: &Process) -> Result<(), Failure> {
    let mut client = Client::connect(process).await?;
    let range = LONE_CREATES..LONE_CREATES + BUSY_CREATES;
    let writing = load::create_all(process, WRITERS, CONFIG_MAPS, range, load::config_map);
    tokio::pin!(writing);
    let mut times = Vec::new();
    let reading = async {
        for _ in 0..BUSY_GETS {
            let began = Instant::now();
            client.get(&format!("{NAMESPACES}/default"), JSON).await?;
            times.push(began.elapsed());
        }
        Ok::<_, Failure>(())
    };
    // The measurement ends with whichever ends first: gets without writers do not count.
    let still_writing = tokio::select! {
        read = reading => { read?; true }
        written = &mut writing => { written?; false }
    };
    if still_writing {
        writing.await?;
    }
    let ours = percentiles(&mut times);
    figure(
        "get under 64 writers, p50 / p99",
        ours,
        against("<= 9 / 19 ms", "36 / 77 ms"),
    )?;
    Ok(())
}

/// The time until the last of many watches has received a write.
pub(crate) async fn fan_out(
    process: &Process,
    watches: usize,
    yardstick: Yardstick,
) -> Result<Duration, Failure> {
    let mut fan_out = FanOut::open(process, watches).await?;
    let before = (process.cpu()?, cpu(std::process::id())?);
    let mut times = fan_out.write().await?;
    let each = |work: Duration| millis(work / WRITES as u32);
    let work = (
        each(process.cpu()? - before.0),
        each(cpu(std::process::id())? - before.1),
    );
    let ours = format!(
        "{} (CPU {}, of clients {})",
        percentiles(&mut times),
        work.0,
        work.1
    );
    figure(
        &format!("one write to {watches} watches, p50 / p99"),
        ours,
        yardstick,
    )?;
    fan_out.close().await?;
    Ok(median(&mut times))
}

/// Many watches, and a config map that they see.
pub(crate) struct FanOut {
    client: Client,
    watches: Watches,
    count: usize,
}

impl FanOut {
    pub(crate) async fn open(server: &Address, count: usize) -> Result<Self, Failure> {
        let mut this = Self {
            watches: Watches::open(server, count).await?,
            client: Client::connect(server).await?,
            count,
        };
        this.client
            .create(CONFIG_MAPS, r#"{"metadata":{"name":"fanned-out"}}"#.to_owned())
            .await?;
        this.watches.see(count).await?;
        Ok(this)
    }

    /// Writes many times; returns how long each took until all watches had it.
    pub(crate) async fn write(&mut self) -> Result<Vec<Duration>, Failure> {
        let mut times = Vec::new();
        for index in 0..WRITES {
            let body = format!(r#"{{"metadata":{{"name":"fanned-out"}},"data":{{"n":"{index}"}}}}"#);
            let began = Instant::now();
            self.client
                .send(Method::PUT, &format!("{CONFIG_MAPS}/fanned-out"), JSON, body)
                .await?;
            self.watches.see(self.count).await?;
            times.push(began.elapsed());
        }
        Ok(times)
    }

    pub(crate) async fn close(mut self) -> Result<(), Failure> {
        let path = format!("{CONFIG_MAPS}/fanned-out");
        self.client
            .send(Method::DELETE, &path, JSON, String::new())
            .await?;
        Ok(())
    }
}
