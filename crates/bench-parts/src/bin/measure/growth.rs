//! The growth of costs: per object, per watch and per idle connection they must stay constant.

use std::time::{Duration, Instant};

use crate::Failure;
use crate::cases::fan_out;
use crate::load::{self, Client, JSON, NAMESPACES, PODS, PROTOBUF};
use crate::program::{Keeps, Program};
use crate::report::{Yardstick, figure, line, median, percentiles};

const CONNECTIONS: [usize; 3] = [100, 1_000, 10_000];
const GETS: usize = 500;
pub(crate) const WRITERS: usize = 64;
const LISTS: usize = 5;

/// The sizes to measure.
pub(crate) struct Sizes {
    pub(crate) objects: Vec<usize>,
    pub(crate) watches: Vec<usize>,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            objects: vec![1_000, 10_000, 100_000],
            watches: vec![1, 10, 100, 1_000],
        }
    }
}

impl Sizes {
    /// Two lists of numbers: `1000,10000 1,100`.
    pub(crate) fn read(arguments: &[String]) -> Result<Self, Failure> {
        let numbers = |text: &String| text.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
        let [objects, watches] = arguments else {
            return Err("growth needs sizes and watches: growth 1000,10000 1,100".into());
        };
        Ok(Self {
            objects: numbers(objects)?,
            watches: numbers(watches)?,
        })
    }
}

/// Per object, with data on disk: every column must stay flat from line to line.
pub(crate) async fn objects(program: &Program, sizes: &Sizes) -> Result<(), Failure> {
    line("")?;
    line(
        "per pod, on disk         memory    create      CPU     list    watch      most   restart  memory then",
    )?;
    line(
        "                             kB        µs       µs       µs       µs        kB        µs           kB",
    )?;
    for &count in &sizes.objects {
        let process = program.start(Keeps::OnDisk)?;
        let (before, worked) = (process.memory("VmRSS")?, process.cpu()?);
        let (_, created) = load::create_all(&process, WRITERS, PODS, 0..count, load::pod).await?;
        let work = process.cpu()? - worked;
        let memory = (process.memory("VmRSS")? - before) * 1024.0 / count as f64;
        let mut client = Client::connect(&process).await?;
        let listed = listed(&mut client).await?;
        let watched = client.first_events(count).await?;
        let most = (process.memory("VmHWM")? - before) * 1024.0 / count as f64;
        let (process, restarted) = program.restart(process)?;
        let then = (process.memory("VmRSS")? - before) * 1024.0 / count as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        line(&format!(
            "{count:>9} pods      {memory:>11.2} {:>9.0} {:>8.0} {:>8.2} {:>8.2} {most:>9.2} {:>9.2} {then:>12.2}",
            each(created),
            each(work),
            each(listed),
            each(watched),
            each(restarted),
        ))?;
    }
    Ok(())
}

/// The median time of a list of all pods.
pub(crate) async fn listed(client: &mut Client) -> Result<Duration, Failure> {
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let began = Instant::now();
        client.get("/api/v1/pods", PROTOBUF).await?;
        times.push(began.elapsed());
    }
    Ok(median(&mut times))
}

pub(crate) async fn watches(program: &Program, sizes: &Sizes) -> Result<(), Failure> {
    for &count in &sizes.watches {
        let process = program.start(Keeps::InMemory)?;
        let before = process.memory("VmRSS")?;
        let took = fan_out(&process, count, Yardstick::default()).await?;
        let memory = (process.memory("VmRSS")? - before) * 1024.0 / count as f64;
        let each = took.as_secs_f64() * 1e6 / count as f64;
        figure(
            "  per watch: time, memory",
            format!("{each:.0} µs {memory:.1} kB"),
            Yardstick::default(),
        )?;
    }
    Ok(())
}

/// The cost of idle connections, and their effect on others.
pub(crate) async fn connections(program: &Program) -> Result<(), Failure> {
    for count in CONNECTIONS {
        let process = program.start(Keeps::InMemory)?;
        let mut client = Client::connect(&process).await?;
        let before = process.memory("VmRSS")?;
        let mut idle = Vec::new();
        for _ in 0..count {
            idle.push(Client::connect(&process).await?);
        }
        let mut times = Vec::new();
        for _ in 0..GETS {
            let began = Instant::now();
            client.get(&format!("{NAMESPACES}/default"), JSON).await?;
            times.push(began.elapsed());
        }
        let memory = (process.memory("VmRSS")? - before) * 1024.0 / count as f64;
        let ours = format!("{memory:.1} kB, {}", percentiles(&mut times));
        let what = format!("{count} idle connections: memory each, get by another");
        figure(&what, ours, Yardstick::default())?;
    }
    Ok(())
}
