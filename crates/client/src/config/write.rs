//! Parses a kubeconfig file, and writes one that only its owner can read.

use std::io::Write;
use std::path::Path;

use serde_json::Value;
use watchkeeper_wire::yaml;

use crate::config::{ConfigError, Kubeconfig};

/// The value tree of a file, YAML or JSON.
pub(super) fn parse(text: &str, path: &Path) -> Result<Value, ConfigError> {
    let syntax = |reason: String| ConfigError::Syntax {
        path: path.to_owned(),
        reason,
    };
    match yaml::first_document(text.as_bytes(), yaml::Mode::Lenient) {
        Ok(document) => Ok(document.value),
        Err(error) => Err(syntax(error.to_string())),
    }
}

impl Kubeconfig {
    /// Writes the file atomically with mode 0600: readers see the old file or the new one.
    pub fn write(&self, path: &Path) -> Result<(), ConfigError> {
        let failed = |source| ConfigError::Write {
            path: path.to_owned(),
            source,
        };
        let value = serde_json::to_value(self).map_err(|error| failed(error.into()))?;
        replace(path, yaml::to_string(&value).as_bytes()).map_err(failed)
    }
}

/// Writes a temporary file, then renames it.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(directory)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = directory.join(name);
    let written = write_private(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // Removes the temporary file; the first error is the one to report.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // A file left over from a crash keeps its mode when it is opened again.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()
}
