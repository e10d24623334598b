//! Replays exchanges that were recorded from a real API server and reports what differs.
//!
//! Every case gets a server of its own, in-process, on paused time: what took minutes to record takes seconds to
//! replay. `goldens/wire` holds the recordings; `differences.txt` names the cases that are known to differ, with the
//! reason. A case that differs and is not named there fails the test.
//!
//! ```text
//! cargo test -p watchkeeper-server --test recordings              # all
//! cargo test -p watchkeeper-server --test recordings -- watch/    # one area, with every difference
//! ```

mod case;
mod compare;
mod protobuf;
mod replay;
mod template;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use case::Case;

/// How many differences of a case are printed.
const SHOWN: usize = 12;

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let known = known_differences(&root)?;
    let mut out = io::stdout();
    let mut report = Report::default();
    let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/wire");
    for path in cases(&recordings)? {
        let case: Case = serde_json::from_slice(&std::fs::read(&path)?)?;
        let name = format!("{}/{}", case.area, case.name);
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted)) {
            continue;
        }
        let differences = differences(&case);
        report.add(&case.area, &name, &differences, &known);
        if !differences.is_empty() && (!wanted.is_empty() || !known.contains_key(&name)) {
            writeln!(out, "{name} ({} differences)", differences.len())?;
            for difference in differences.iter().take(SHOWN) {
                writeln!(out, "    {difference}")?;
            }
        }
    }
    report.print(&mut out, &known)?;
    std::process::exit(i32::from(report.failed()));
}

/// Replays one case on a server of its own.
fn differences(case: &Case) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let seen = runtime.block_on(replay::replay(case));
    compare::differences(case, &seen)
}

/// Every recording, by area and name.
fn cases(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for area in std::fs::read_dir(root)? {
        let area = area?.path();
        // Beside the areas lie the texts that explain them.
        if area.is_dir() {
            for case in std::fs::read_dir(area)? {
                found.push(case?.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// `area/name: reason` per line.
fn known_differences(root: &Path) -> io::Result<HashMap<String, String>> {
    let text = std::fs::read_to_string(root.join("differences.txt"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(": "));
    Ok(pairs
        .map(|(name, reason)| (name.to_owned(), reason.to_owned()))
        .collect())
}

#[derive(Default)]
struct Report {
    /// Same and different cases, by area.
    areas: BTreeMap<String, (usize, usize)>,
    different: Vec<String>,
    /// Named as different, but the same.
    mended: Vec<String>,
    unexpected: usize,
}

impl Report {
    fn add(&mut self, area: &str, name: &str, differences: &[String], known: &HashMap<String, String>) {
        let counts = self.areas.entry(area.to_owned()).or_default();
        match (differences.is_empty(), known.contains_key(name)) {
            (true, is_known) => {
                counts.0 += 1;
                self.mended.extend(is_known.then(|| name.to_owned()));
            }
            (false, is_known) => {
                counts.1 += 1;
                self.different.push(name.to_owned());
                self.unexpected += usize::from(!is_known);
            }
        }
    }

    fn failed(&self) -> bool {
        self.unexpected > 0
    }

    fn print(&self, out: &mut impl Write, known: &HashMap<String, String>) -> io::Result<()> {
        writeln!(out, "\n{:15}{:>6}{:>6}", "area", "same", "diff")?;
        for (area, (same, different)) in &self.areas {
            writeln!(out, "{area:15}{same:6}{different:6}")?;
        }
        for name in &self.different {
            let reason = known.get(name).map_or("NOT EXPECTED", String::as_str);
            writeln!(out, "differs: {name}: {reason}")?;
        }
        for name in &self.mended {
            writeln!(out, "no longer differs: {name}: take it out of differences.txt")?;
        }
        Ok(())
    }
}
