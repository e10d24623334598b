//! Reads recordings: files `area/name.json`, or packed, a gzip file per area with one case per line.
//!
//! The hand-written cases of `goldens/wire` are files. The corpus is generated and large, 26 MB; packed it takes one.
//! Packing only removes white space: the order of keys and the form of numbers are part of a request.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::case::Case;
use crate::replay::compact;

const PACKED: &str = "jsonl.gz";

/// All cases stored as files in the folder of their area.
pub(crate) fn read_files(root: &Path) -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for area in areas(root)? {
        for path in entries(&area)? {
            cases.push(serde_json::from_slice(&std::fs::read(path)?)?);
        }
    }
    Ok(cases)
}

/// All cases of all packed areas.
pub(crate) fn read_packed(root: &Path) -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for path in entries(root)?.iter().filter(|path| is_packed(path)) {
        let mut text = String::new();
        GzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
        for line in text.lines() {
            cases.push(serde_json::from_str(line)?);
        }
    }
    Ok(cases)
}

/// Packs the area folders in `from`.
pub(crate) fn pack(from: &Path, to: &Path) -> io::Result<()> {
    for path in entries(to)?.iter().filter(|path| is_packed(path)) {
        std::fs::remove_file(path)?;
    }
    for area in areas(from)? {
        let name = area
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let file = File::create(to.join(format!("{name}.{PACKED}")))?;
        let mut packed = GzEncoder::new(file, Compression::best());
        for path in entries(&area)? {
            packed.write_all(&compact(&std::fs::read_to_string(path)?))?;
            packed.write_all(b"\n")?;
        }
        packed.finish()?;
    }
    Ok(())
}

fn is_packed(path: &Path) -> bool {
    path.to_string_lossy().ends_with(PACKED)
}

/// The folders; beside them are explanatory texts.
fn areas(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut areas = entries(root)?;
    areas.retain(|path| path.is_dir());
    Ok(areas)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<PathBuf>> = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect();
    let mut entries = entries?;
    entries.sort();
    Ok(entries)
}
