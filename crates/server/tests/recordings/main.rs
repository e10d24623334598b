//! Replays exchanges recorded from a real API server and reports differences.
//!
//! Every case has its own in-process server with paused time: what took minutes to record takes seconds to replay, on
//! all cores. `goldens/wire` has hand-written cases, `goldens/corpus` those generated for all resources. Known
//! differences are in two lists ([`known`]); any other difference fails the test, and so does a listed step that does
//! not differ.
//!
//! ```text
//! cargo test -p watchkeeper-server --test recordings                      # all, with a table per area
//! cargo test -p watchkeeper-server --test recordings -- watch/            # cases whose name contains it, with every difference
//! cargo test -p watchkeeper-server --test recordings -- kinds/secrets     # one case
//! cargo test -p watchkeeper-server --test recordings -- --write-open      # rewrites the list of differences without a reason
//! cargo test -p watchkeeper-server --test recordings -- --write-page      # writes docs/fidelity.md
//! cargo test -p watchkeeper-server --test recordings -- --pack FOLDER     # packs a newly recorded corpus
//! ```

mod case;
mod compare;
mod known;
mod pack;
mod page;
mod protobuf;
mod replay;
mod report;
mod template;

use std::io::{self, Write as _};
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::Case;
use compare::Difference;
use known::Known;
use report::Report;

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let goldens = here.join("../../goldens");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--pack") {
        let from = arguments.get(at + 1).expect("the folder of the recordings");
        return pack::pack(Path::new(from), &goldens.join("corpus"));
    }
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut cases = pack::read_files(&goldens.join("wire"))?;
    cases.extend(pack::read_packed(&goldens.join("corpus"))?);
    cases.retain(|case| wanted.is_empty() || wanted.iter().any(|name| case.full_name().contains(*name)));

    let known = Known::read(&here.join("tests/recordings"))?;
    let mut report = Report::new(&known);
    let mut out = io::stdout();
    for (case, differences) in cases.iter().zip(replay_all(&cases)) {
        report.add(case, &differences, !wanted.is_empty(), &mut out)?;
    }
    if arguments.iter().any(|argument| argument == "--write-open") {
        known.write_open(&report.open)?;
    }
    report.print(&mut out)?;
    let writes_page = arguments.iter().any(|argument| argument == "--write-page");
    let is_stale = wanted.is_empty() && is_page_stale(&goldens.join(".."), &report, &known, writes_page)?;
    if is_stale {
        writeln!(out, "{} is stale: run this test with --write-page", page::PAGE)?;
    }
    std::process::exit(i32::from(report.failed() || is_stale));
}

/// True if the page differs from this run; writes it if requested.
fn is_page_stale(root: &Path, report: &Report<'_>, known: &Known, writes: bool) -> io::Result<bool> {
    let page = page::page(root, report, known)?;
    let path = root.join(page::PAGE);
    if writes {
        std::fs::write(&path, &page)?;
    }
    Ok(std::fs::read_to_string(&path).unwrap_or_default() != page)
}

/// The differences of every case, in order; each thread takes the next unclaimed case.
fn replay_all(cases: &[Case]) -> Vec<Vec<Difference>> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let found: Vec<Mutex<Vec<Difference>>> = cases.iter().map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { break };
                    *found[index].lock().expect("no panic") = differences(case);
                }
            });
        }
    });
    found
        .into_iter()
        .map(|found| found.into_inner().expect("no panic"))
        .collect()
}

/// Replays one case on its own server.
fn differences(case: &Case) -> Vec<Difference> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let seen = runtime.block_on(replay::replay(case));
    compare::differences(case, &seen)
}
