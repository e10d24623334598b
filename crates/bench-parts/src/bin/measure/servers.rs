//! One, two and three servers over an etcd with three members, all on this machine: writes, lists, events, and the lag
//! between servers.

#[path = "../../../../storage/tests/support/etcd.rs"]
mod etcd;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use self::etcd::Etcd;
use crate::Failure;
use crate::load::{self, CONFIG_MAPS, Client, PROTOBUF, Seen};
use crate::program::{Process, Program, cpu};
use crate::report::{line, percentiles};
use crate::watches::Watches;

const SERVERS: usize = 3;
const WRITERS: usize = 64;
/// The clients that list at the same time, and the lists of each.
const READERS: usize = 6;
const LISTS: usize = 10;
/// The watches in all, and the writes they see.
const WATCHES: usize = 300;
const WATCHED: usize = 1_000;
/// The writes whose lag is measured.
const LAGS: usize = 300;

pub(crate) async fn measure(program: &Program, arguments: &[String]) -> Result<(), Failure> {
    let [objects] = arguments else {
        return Err("servers needs a number of objects: servers 10000".into());
    };
    let objects: usize = objects.parse()?;
    let Some(members) = Etcd::start_three() else {
        return Err("there is no etcd on this machine".into());
    };
    line(
        "              writes   CPU of servers   CPU of etcd       lists     events     lag of another server",
    )?;
    line(
        "                  /s      µs per write  µs per write          /s         /s               p50 / p99",
    )?;
    for count in 1..=SERVERS {
        let row = Row::measure(program, &members, count, objects).await?;
        line(&format!(
            "{count} server{}   {:>9.0} {:>17.0} {:>13.0} {:>11.1} {:>10.0} {:>23}",
            if count == 1 { " " } else { "s" },
            row.writes,
            row.server_work,
            row.etcd_work,
            row.lists,
            row.events,
            row.lag,
        ))?;
    }
    Ok(())
}

struct Row {
    writes: f64,
    server_work: f64,
    etcd_work: f64,
    lists: f64,
    events: f64,
    lag: String,
}

impl Row {
    async fn measure(
        program: &Program,
        members: &[Etcd],
        count: usize,
        objects: usize,
    ) -> Result<Self, Failure> {
        let servers = start(program, members, count)?;
        let before = (work_of(&servers)?, work_of_etcd(members)?);
        let writes = write(&servers, 0..objects).await?;
        let each = |work: Duration| work.as_secs_f64() * 1e6 / objects as f64;
        let work = (work_of(&servers)? - before.0, work_of_etcd(members)? - before.1);
        Ok(Self {
            writes,
            server_work: each(work.0),
            etcd_work: each(work.1),
            lists: list(&servers).await?,
            events: events(&servers, objects..objects + WATCHED).await?,
            lag: lag(&servers, objects + WATCHED).await?,
        })
    }
}

/// Servers of one cluster; each number of servers has a cluster of its own.
fn start(program: &Program, members: &[Etcd], count: usize) -> Result<Vec<Process>, Failure> {
    let urls: Vec<String> = members.iter().map(Etcd::url).collect();
    let (urls, prefix) = (urls.join(","), format!("/of-{count}"));
    let flags = [
        "--no-simulator",
        "--etcd-servers",
        &urls,
        "--etcd-prefix",
        &prefix,
    ];
    (0..count).map(|_| program.start_with(&flags)).collect()
}

fn work_of(servers: &[Process]) -> Result<Duration, Failure> {
    servers.iter().map(Process::cpu).sum()
}

fn work_of_etcd(members: &[Etcd]) -> Result<Duration, Failure> {
    members.iter().map(|member| cpu(member.id())).sum()
}

/// Creates config maps through all servers; returns the creates per second.
async fn write(servers: &[Process], range: std::ops::Range<usize>) -> Result<f64, Failure> {
    let (count, share) = (range.len(), range.len() / servers.len());
    let began = Instant::now();
    let each = servers.iter().enumerate().map(|(index, server)| {
        let start = range.start + index * share;
        let end = if index + 1 == servers.len() {
            range.end
        } else {
            start + share
        };
        let writers = WRITERS / servers.len();
        load::create_all(server, writers, CONFIG_MAPS, start..end, load::config_map)
    });
    futures_util::future::try_join_all(each).await?;
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

/// Lists everything through all servers; returns the lists per second.
async fn list(servers: &[Process]) -> Result<f64, Failure> {
    let mut clients = Vec::new();
    for reader in 0..READERS {
        clients.push(Client::connect(&servers[reader % servers.len()]).await?);
    }
    let began = Instant::now();
    let mut reading = JoinSet::new();
    for mut client in clients {
        reading.spawn(async move {
            for _ in 0..LISTS {
                client.get(CONFIG_MAPS, PROTOBUF).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = reading.join_next().await {
        done??;
    }
    Ok((READERS * LISTS) as f64 / began.elapsed().as_secs_f64())
}

/// Writes while watches are open on all servers; returns the events per second.
async fn events(servers: &[Process], range: std::ops::Range<usize>) -> Result<f64, Failure> {
    let share = WATCHES / servers.len();
    let mut watches = Vec::new();
    for server in servers {
        watches.push(Watches::open(server, share).await?);
    }
    let count = range.len();
    let began = Instant::now();
    write(servers, range).await?;
    for watches in &mut watches {
        watches.see(share * count).await?;
    }
    Ok((servers.len() * share * count) as f64 / began.elapsed().as_secs_f64())
}

/// The time from the answer to a write through the first server to its event on the last server, in the form
/// `p50 / p99`. With one server, it is the time to an event on the same server.
async fn lag(servers: &[Process], first: usize) -> Result<String, Failure> {
    let (here, there) = (&servers[0], &servers[servers.len() - 1]);
    let mut seen: Seen = load::watch_names(there).await?;
    let mut client = Client::connect(here).await?;
    let mut written = HashMap::new();
    for index in first..first + LAGS {
        client.create(CONFIG_MAPS, load::config_map(index)).await?;
        written.insert(format!("settings-{index:06}"), Instant::now());
    }
    let mut lags = Vec::new();
    while lags.len() < LAGS {
        let (name, at) = seen.recv().await.ok_or("the watch has ended")?;
        lags.extend(
            written
                .get(&name)
                .map(|written| at.saturating_duration_since(*written)),
        );
    }
    Ok(percentiles(&mut lags))
}
