//! The workspace as text: each crate's manifest and source files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A crate of the workspace.
pub(crate) struct Crate {
    /// The name of its folder: `registry`.
    pub(crate) name: String,
    /// Its `Cargo.toml`.
    pub(crate) manifest: String,
    /// Its files below `src`, by path.
    pub(crate) files: Vec<File>,
}

/// A source file.
pub(crate) struct File {
    /// Its path below the workspace's root.
    pub(crate) path: PathBuf,
    /// Its path below `src`.
    pub(crate) place: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// The root of the workspace.
pub(crate) fn root() -> io::Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()
}

/// Reads every crate below `crates`.
pub(crate) fn read() -> io::Result<Vec<Crate>> {
    let root = root()?;
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut files = Vec::new();
        collect(&root, &folder.join("src"), &folder.join("src"), &mut files)?;
        found.push(Crate {
            name,
            manifest,
            files,
        });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn collect(root: &Path, source: &Path, folder: &Path, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, source, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(File {
                text: fs::read_to_string(&path)?,
                place: path.strip_prefix(source).unwrap_or(&path).to_owned(),
                path: path.strip_prefix(root).unwrap_or(&path).to_owned(),
            });
        }
    }
    Ok(())
}

impl File {
    /// The text without comments and without tests at its end.
    pub(crate) fn code(&self) -> String {
        let text = self.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let lines = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }
}
