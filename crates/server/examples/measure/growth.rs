//! The growth of costs: per object, per watch and per idle connection they must stay constant.

use std::time::{Duration, Instant};

use crate::Failure;
use crate::cases::fan_out;
use crate::load::{self, Client, JSON, NAMESPACES, PODS, PROTOBUF};
use crate::program::{Keeps, Program};
use crate::report::{Yardstick, figure, median, percentiles};

const OBJECTS: [usize; 3] = [1_000, 10_000, 100_000];
const WATCHES: [usize; 4] = [1, 10, 100, 1_000];
const CONNECTIONS: [usize; 3] = [100, 1_000, 10_000];
const GETS: usize = 500;
const WRITERS: usize = 64;
const LISTS: usize = 5;

pub(crate) async fn objects(program: &Program) -> Result<(), Failure> {
    for count in OBJECTS {
        let process = program.start(Keeps::InMemory)?;
        let before = process.memory("VmRSS")?;
        let (_, took) = load::create_all(&process, WRITERS, PODS, 0..count, load::pod).await?;
        let memory = (process.memory("VmRSS")? - before) * 1024.0 / count as f64;
        let mut client = Client::connect(&process).await?;
        let mut times = Vec::new();
        for _ in 0..LISTS {
            let began = Instant::now();
            client.get("/api/v1/pods", PROTOBUF).await?;
            times.push(began.elapsed());
        }
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        let (create, list) = (each(took), each(median(&mut times)));
        let ours = format!("{memory:.1} kB {create:.0} µs {list:.1} µs");
        figure(
            &format!("{count} pods: memory, create, list, per pod"),
            ours,
            Yardstick::default(),
        )?;
    }
    Ok(())
}

pub(crate) async fn watches(program: &Program) -> Result<(), Failure> {
    for count in WATCHES {
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
