//! Peak memory: a new process per case reads the body from a file in chunks, as from a socket, keeps the result, and
//! reports its peak.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use watchkeeper_wire::{Encoding, ListSplitter, Object, ObjectOptions};

use watchkeeper_bench_codec::pods::Bodies;
use watchkeeper_bench_codec::work::{pod_kind, prost_list, serde_list};

/// The first argument of a child.
pub(crate) const CHILD: &str = "--child";

/// The size of the read buffer.
const BUFFER: usize = 64 << 10;

const CASES: [(&str, Encoding); 6] = [
    ("nothing is kept (JSON)", Encoding::Json),
    ("objects without managedFields (JSON)", Encoding::Json),
    ("objects without managedFields (protobuf)", Encoding::Protobuf),
    ("objects with managedFields (protobuf)", Encoding::Protobuf),
    ("peer: serde_json into List<Pod>", Encoding::Json),
    ("peer: prost into PodList", Encoding::Protobuf),
];

/// Runs every case in its own process and prints its peak.
pub(crate) fn compare(bodies: &Bodies, only: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |encoding| directory.path().join(format!("{encoding:?}"));
    fs::write(path(Encoding::Json), &bodies.json)?;
    fs::write(path(Encoding::Protobuf), &bodies.protobuf)?;
    println!("\nPeak memory of a fresh process\n{:<52}{:>10}", "", "MB");
    for (case, encoding) in CASES.into_iter().filter(|(case, _)| case.contains(only)) {
        let mut child = Command::new(std::env::current_exe()?);
        let output = child.arg(CHILD).arg(case).arg(path(encoding)).output()?;
        if !output.status.success() {
            bail!("{case}: {}", String::from_utf8_lossy(&output.stderr));
        }
        println!("{case:<52}{:>10}", String::from_utf8(output.stdout)?.trim());
    }
    Ok(())
}

/// Runs one case and prints the peak of this process in MB.
pub(crate) fn run_child(case: &str, body: &Path) -> Result<()> {
    let keep_managed_fields = case.contains("with managedFields");
    let options = ObjectOptions { keep_managed_fields };
    let encoding = CASES
        .iter()
        .find(|(name, _)| *name == case)
        .context("no such case")?
        .1;
    let kept: Box<dyn std::any::Any> = match case {
        "nothing is kept (JSON)" => Box::new(read_objects(body, encoding, &options, |_| ())?),
        "peer: serde_json into List<Pod>" => Box::new((serde_list(&fs::read(body)?)?, ())),
        "peer: prost into PodList" => Box::new(prost_list(&fs::read(body)?)?),
        _ => Box::new(read_objects(body, encoding, &options, |object| object)?),
    };
    println!("{:.1}", peak_megabytes()?);
    drop(kept);
    Ok(())
}

fn read_objects<T>(
    body: &Path,
    encoding: Encoding,
    options: &ObjectOptions,
    keep: impl Fn(Object) -> T,
) -> Result<Vec<T>> {
    let (mut file, mut buffer) = (File::open(body)?, vec![0; BUFFER]);
    let (kind, mut kept) = (pod_kind(), Vec::new());
    let mut splitter = ListSplitter::new(encoding);
    loop {
        let mut chunk = match file.read(&mut buffer)? {
            0 => break,
            length => &buffer[..length],
        };
        while let Some(item) = splitter.next(&mut chunk)? {
            kept.push(keep(Object::from_item(encoding, item, &kind, options)?));
        }
    }
    splitter.finish()?;
    Ok(kept)
}

fn peak_megabytes() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .context("no VmHWM in /proc")?;
    Ok(kilobytes.parse::<f64>()? * 1024.0 / 1e6)
}
