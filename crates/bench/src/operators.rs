//! Compares the same operator written with this library and with kube: the cost to write, build and run it.
//!
//! ```text
//! cargo build --release -p watchkeeper-bench-server
//! cargo run --release -p watchkeeper-bench -- operators 10000
//! ```
//!
//! Each program runs with its own server over TLS. The server runs no pods, so a reconcile ends with the status that
//! says so: its time is that from sending a change of a website to the event of the resulting status.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use watchkeeper_client::{Client, DynamicApi};
use watchkeeper_meta::{PatchKind, Resource};
use watchkeeper_runtime::factory::{Factory, Selection};
use watchkeeper_runtime::informer::{Notice, Subscription};

use crate::client;
use crate::process::Process;

/// The default number of websites.
pub(crate) const WEBSITES: usize = 10_000;

/// Timed changes, one after another.
const CHANGES: usize = 300;

/// Concurrent writes while websites are created.
const WRITERS: usize = 16;

/// A generous timeout.
const PATIENCE: Duration = Duration::from_secs(600);

/// An operator as a program.
struct Operator {
    title: &'static str,
    package: &'static str,
    program: &'static str,
    /// Relative to the workspace root.
    sources: &'static [&'static str],
}

const OPERATORS: [Operator; 2] = [
    Operator {
        title: "ours",
        package: "website-operator",
        program: "website-operator",
        sources: &[
            "examples/website-operator/src/children.rs",
            "examples/website-operator/src/domains.rs",
            "examples/website-operator/src/lib.rs",
            "examples/website-operator/src/main.rs",
            "examples/website-operator/src/reconcile.rs",
            "examples/website-operator/src/website.rs",
            "examples/website-operator/src/admission.rs",
        ],
    },
    Operator {
        title: "kube",
        package: "watchkeeper-bench",
        program: "website-operator-kube",
        sources: &["crates/bench/src/bin/website-operator-kube.rs"],
    },
];

/// The measurements, in the order of the table.
const ROWS: [&str; 9] = [
    "lines, without comments",
    "rebuild after a change, s",
    "program, MB",
    "all websites reconciled, wall s",
    "… CPU s",
    "memory with all of them, MB",
    "… peak MB",
    "a change reconciled, p50 ms",
    "… p99 ms",
];

/// Measures both and prints the table.
pub(crate) fn compare(websites: usize) -> Result<()> {
    let mut columns = Vec::new();
    for operator in &OPERATORS {
        let mut column = vec![operator.lines()? as f64];
        column.extend(operator.build()?);
        column.extend(run(operator, websites)?);
        columns.push(column);
    }
    println!("\n{websites} websites\n");
    println!(
        "| | {} | {} | ours ÷ kube |\n|---|---|---|---|",
        OPERATORS[0].title, OPERATORS[1].title
    );
    for (row, name) in ROWS.iter().enumerate() {
        let (ours, kube) = (columns[0][row], columns[1][row]);
        println!("| {name} | {ours:.1} | {kube:.1} | {:.2} |", ours / kube);
    }
    Ok(())
}

impl Operator {
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        self.sources.iter().map(move |source| root.join(source))
    }

    /// Lines that are neither empty nor comments.
    fn lines(&self) -> Result<usize> {
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let mut lines = 0;
        for path in self.paths() {
            lines += fs::read_to_string(path)?.lines().filter(is_code).count();
        }
        Ok(lines)
    }

    /// Seconds to build it with prebuilt dependencies, and megabytes of the program.
    fn build(&self) -> Result<[f64; 2]> {
        self.cargo_build()?;
        for path in self.paths() {
            File::options()
                .append(true)
                .open(path)?
                .set_modified(SystemTime::now())?;
        }
        let begun = Instant::now();
        self.cargo_build()?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok([seconds, fs::metadata(self.path()?)?.len() as f64 / 1e6])
    }

    fn cargo_build(&self) -> Result<()> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([
            "build",
            "--quiet",
            "--release",
            "--package",
            self.package,
            "--bin",
            self.program,
        ]);
        ensure!(cargo.status()?.success(), "{} cannot be built", self.program);
        Ok(())
    }

    /// Next to this program.
    fn path(&self) -> Result<PathBuf> {
        Ok(std::env::current_exe()?.with_file_name(self.program))
    }
}

/// A running operator.
struct Running(Child);

impl Running {
    fn start(operator: &Operator, kubeconfig: &Path) -> Result<Self> {
        let mut command = Command::new(operator.path()?);
        command
            .env("KUBECONFIG", kubeconfig)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self(command.spawn().with_context(|| operator.program)?))
    }

    /// A line of its `/proc` status, in MB.
    fn megabytes(&self, name: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kilobytes.context("no such line in /proc")?.parse::<f64>()? * 1024.0 / 1e6)
    }

    /// Seconds of CPU time of all its threads.
    fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let (_, behind_name) = stat.rsplit_once(") ").context("no name in /proc")?;
        let ticks = behind_name.split(' ').skip(11).take(2).map(str::parse::<f64>);
        let ticks: f64 = ticks.sum::<Result<f64, _>>()?;
        Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs an operator on its own server.
#[tokio::main]
async fn run(operator: &Operator, websites: usize) -> Result<[f64; 6]> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let _server = Process::serving(&kubeconfig)?;
    let running = Running::start(operator, &kubeconfig)?;
    let client = client::connect(&kubeconfig)?;
    let api = served(&client).await?;
    let mut statuses = Statuses::follow(&client).await?;

    let begun = Instant::now();
    let created = stream::iter(0..websites).map(async |number| api.create(&website(number)).await);
    let created = created.buffer_unordered(WRITERS).try_for_each(async |_| Ok(()));
    let (created, all) = tokio::join!(created, statuses.until(|seen| seen.len() == websites));
    created?;
    all?;
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), running.cpu_seconds()?);

    let mut times = Vec::new();
    for number in 0..CHANGES {
        let name = name(number * websites / CHANGES);
        let pages = json!({"spec": {"pages": {"index.html": format!("change {number}")}}});
        let begun = Instant::now();
        let changed = api.patch(&name, PatchKind::Merge, &pages);
        let told = statuses.until(|seen| seen.get(&name) == Some(&2));
        let (changed, told) = tokio::join!(changed, told);
        changed?;
        told?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    Ok([
        wall,
        cpu,
        running.megabytes("VmRSS:")?,
        running.megabytes("VmHWM:")?,
        p50,
        p99,
    ])
}

fn name(number: usize) -> String {
    format!("website-{number:05}")
}

fn website(number: usize) -> Value {
    let pages =
        json!({"index.html": "<h1>Welcome</h1>".repeat(20), "about.html": "<p>About us</p>".repeat(20)});
    let spec = json!({"domain": format!("{number}.example.org"), "pages": pages, "replicas": 2});
    json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": name(number)}, "spec": spec})
}

fn resource() -> Resource {
    Resource::namespaced("example.com", "v1", "Website", "websites")
}

/// Waits until the operator has installed its kind.
async fn served(client: &Client) -> Result<DynamicApi> {
    let api = client.dynamic(resource()).namespace("default");
    let begun = Instant::now();
    while let Err(error) = api.list().await {
        ensure!(
            begun.elapsed() < PATIENCE,
            "the operator does not install its kind: {error}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(api)
}

/// The generation that the status of each website is about.
struct Statuses {
    changes: Subscription,
    seen: HashMap<String, i64>,
}

impl Statuses {
    async fn follow(client: &Client) -> Result<Self> {
        let informer = Factory::new(client.clone(), Default::default()).informer(Selection::all(resource()));
        informer.synced(PATIENCE).await?;
        let changes = informer.subscribe(Default::default());
        Ok(Self {
            changes,
            seen: HashMap::new(),
        })
    }

    async fn until(&mut self, is_done: impl Fn(&HashMap<String, i64>) -> bool) -> Result<()> {
        let seeing = async {
            while !is_done(&self.seen) {
                let Some(notice) = self.changes.next().await else {
                    bail!("no more changes");
                };
                let Notice::Change(delta) = notice else { continue };
                let website = delta.object().to_value()?;
                if let Some(generation) = website["status"]["conditions"][0]["observedGeneration"].as_i64() {
                    self.seen.insert(delta.key().name().to_owned(), generation);
                }
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, seeing)
            .await
            .context("the operator does not come to an end")?
    }
}
