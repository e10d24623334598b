//! The files of a recording: `incident.rec`, then `incident.rec.2`, `incident.rec.3` and so on.
//!
//! Every segment can be read alone, because it starts with the final objects of the previous one. So old ones may be
//! deleted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::RecordingError;

/// The path of a segment.
pub(crate) fn path_of(first: &Path, number: u32) -> PathBuf {
    match number {
        0 | 1 => first.to_owned(),
        number => {
            let mut name = first.as_os_str().to_owned();
            name.push(format!(".{number}"));
            name.into()
        }
    }
}

/// The path of a segment before it is whole. It is not one of the segments yet.
pub(crate) fn unfinished(segment: &Path) -> PathBuf {
    let mut name = segment.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

/// The existing segments, in order. Empty if nothing was recorded.
pub(crate) fn find(first: &Path) -> Result<Vec<(u32, PathBuf)>, RecordingError> {
    let failed = |source: io::Error| RecordingError::Read {
        path: first.to_owned(),
        source,
    };
    let directory = match first.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = first
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut found = Vec::new();
    let files = match fs::read_dir(directory) {
        // The caller that opens or creates the file reports it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        files => files.map_err(failed)?,
    };
    for file in files {
        let file = file.map_err(failed)?.file_name();
        let file = file.to_string_lossy();
        let number = match file.strip_prefix(name.as_str()) {
            Some("") => Some(1),
            Some(rest) => rest
                .strip_prefix('.')
                .and_then(|number| number.parse().ok())
                .filter(|&number| number > 1),
            None => None,
        };
        found.extend(number.map(|number| (number, path_of(first, number))));
    }
    found.sort_unstable();
    Ok(found)
}
