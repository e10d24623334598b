//! A position: how far the events of several streams were handled, kept in a file.
//!
//! The file is one JSON object of stream names and versions. It is replaced as a whole and never written in place, so
//! that a crash leaves either the old or the new one. An old one means that events are seen again, never that any
//! are missed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use watchkeeper_meta::ResourceVersion;

/// Why a position cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum PositionError {
    /// The file cannot be read or written.
    #[error("position file {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{} is not a position file", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
}

/// The versions up to which each stream was handled.
#[derive(Debug)]
pub struct PositionFile {
    path: PathBuf,
    versions: BTreeMap<String, ResourceVersion>,
    /// Whether the file is older than what is known.
    changed: bool,
}

impl PositionFile {
    /// Reads the file. One that does not exist is a start from nothing.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, PositionError> {
        let path = path.into();
        let versions = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| PositionError::Format {
                path: path.clone(),
                source,
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(PositionError::File { path, source }),
        };
        Ok(Self {
            path,
            versions,
            changed: false,
        })
    }

    /// How far a stream was handled.
    pub fn get(&self, stream: &str) -> Option<&ResourceVersion> {
        self.versions.get(stream)
    }

    /// A stream was handled up to a version. [`PositionFile::save`] writes it down.
    pub fn advance(&mut self, stream: &str, version: &ResourceVersion) {
        if version.is_unset() || self.versions.get(stream) == Some(version) {
            return;
        }
        self.changed = true;
        match self.versions.get_mut(stream) {
            Some(known) => known.clone_from(version),
            None => {
                self.versions.insert(stream.to_owned(), version.clone());
            }
        }
    }

    /// Writes the file if there is anything new. Once this has returned it survives a crash of the machine.
    pub fn save(&mut self) -> Result<(), PositionError> {
        if !self.changed {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&self.versions).unwrap_or_default();
        replace(&self.path, &text).map_err(|source| PositionError::File {
            path: self.path.clone(),
            source,
        })?;
        self.changed = false;
        Ok(())
    }
}

/// Writes a file beside the old one and puts it in its place, durably.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = directory.join(name);
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.write_all(b"\n")?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    // The rename itself must survive, too.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("position.json");
        let mut position = PositionFile::open(&path).unwrap();
        assert_eq!(position.get("pods"), None);
        position.advance("pods", &ResourceVersion::new("7"));
        position.advance("apps/deployments in shop", &ResourceVersion::new("9"));
        position.save().unwrap();
        let again = PositionFile::open(&path).unwrap();
        assert_eq!(again.get("pods").unwrap().as_str(), "7");
        assert_eq!(again.get("apps/deployments in shop").unwrap().as_str(), "9");
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "nothing is left behind"
        );
    }

    #[test]
    fn another_file_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("position.json");
        fs::write(&path, "[1]").unwrap();
        let error = PositionFile::open(&path).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("position.json is not a position file"),
            "{error}"
        );
    }

    #[test]
    fn a_version_that_is_not_set_moves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("position.json");
        let mut position = PositionFile::open(&path).unwrap();
        position.advance("pods", &ResourceVersion::unset());
        position.save().unwrap();
        assert!(!path.exists());
    }
}
