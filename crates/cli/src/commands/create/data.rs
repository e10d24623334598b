//! The data of config maps and secrets: `--from-literal`, `--from-file` and `--from-env-file`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;

/// More than any object may have.
const MAX_BYTES: u64 = 4 << 20;

/// The sources of the data.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sources {
    /// A key and its value: colour=blue; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<String>,

    /// A file, a key and a file, or the files of a directory; may be repeated
    #[arg(long, value_name = "[KEY=]FILE")]
    from_file: Vec<String>,

    /// A file with a KEY=VALUE per line
    #[arg(long, value_name = "FILE")]
    from_env_file: Vec<PathBuf>,
}

impl Sources {
    /// All keys with their bytes. A key that occurs twice is an error.
    pub(crate) fn read(&self) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        let mut found = Vec::new();
        for literal in &self.from_literal {
            let Some((key, value)) = literal.split_once('=') else {
                return Err(Failure::text(format!(
                    "invalid literal source {literal:?}, expected KEY=VALUE"
                )));
            };
            found.push((key.to_owned(), value.as_bytes().to_vec()));
        }
        for file in &self.from_file {
            named_files(file, &mut found)?;
        }
        for file in &self.from_env_file {
            variables(file, &mut found)?;
        }
        let mut data = BTreeMap::new();
        for (key, value) in found {
            if data.insert(key.clone(), value).is_some() {
                return Err(Failure::text(format!("the key {key:?} is given twice")));
            }
        }
        Ok(data)
    }
}

/// Reads a file of limited size.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |problem: &dyn std::fmt::Display| {
        Failure::text(format!("error reading {}: {problem}", path.display()))
    };
    let size = std::fs::metadata(path).map_err(|error| cannot(&error))?.len();
    match size > MAX_BYTES {
        true => Err(cannot(&"it is too large for an object")),
        false => std::fs::read(path).map_err(|error| cannot(&error)),
    }
}

fn named_files(word: &str, found: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    if let Some((key, path)) = word.split_once('=') {
        found.push((key.to_owned(), read(Path::new(path))?));
        return Ok(());
    }
    let path = Path::new(word);
    if !path.is_dir() {
        found.push((file_name(path), read(path)?));
        return Ok(());
    }
    let entries =
        std::fs::read_dir(path).map_err(|error| Failure::text(format!("error reading {word}: {error}")))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    for file in files.iter().filter(|file| file.is_file()) {
        found.push((file_name(file), read(file)?));
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Empty lines and lines that begin with `#` are skipped.
fn variables(path: &Path, found: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    let bytes = read(path)?;
    for (index, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(Failure::text(format!(
                "{}, line {}: {line:?} is not KEY=VALUE",
                path.display(),
                index + 1
            )));
        };
        found.push((key.to_owned(), value.as_bytes().to_vec()));
    }
    Ok(())
}
