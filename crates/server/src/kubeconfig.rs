//! The kubeconfig of a running server, and how it is written so that only its owner can read it.
//!
//! An existing file is merged, as kind and k3d do: other clusters, users and contexts stay, entries of the same name
//! are replaced, and the server's context becomes the current one.

use std::io::{self, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use watchkeeper_wire::yaml;

use crate::tokens::Token;

/// The kubeconfig of the server. `name` is the one to verify instead of the address.
pub(crate) fn kubeconfig(server: &str, name: Option<&str>, authority_pem: &str, token: &Token) -> String {
    let authority = STANDARD.encode(authority_pem);
    let name = name.map_or_else(String::new, |name| format!("\n    tls-server-name: {name}"));
    let token = token.reveal();
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: watchkeeper
  cluster:
    server: {server}{name}
    certificate-authority-data: {authority}
users:
- name: watchkeeper-admin
  user:
    token: {token}
contexts:
- name: watchkeeper
  context:
    cluster: watchkeeper
    user: watchkeeper-admin
current-context: watchkeeper
"
    )
}

/// Writes a kubeconfig, or merges it into an existing one. If that has entries of others, it is kept as
/// `FILE.backup`. A file that is not a kubeconfig is an error and stays unchanged.
pub(crate) fn write_merged(path: &Path, own: &str) -> io::Result<()> {
    let existing = match std::fs::read_to_string(path) {
        Ok(existing) => existing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return write_private(path, own),
        Err(error) => return Err(error),
    };
    let Merged { text, has_others } = merge(&existing, own)?;
    if has_others {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".backup");
        write_private(&path.with_file_name(name), &existing)?;
    }
    write_private(path, &text)
}

/// Two merged kubeconfigs.
struct Merged {
    text: String,
    /// True if the first has entries that the second does not have.
    has_others: bool,
}

fn merge(existing: &str, own: &str) -> io::Result<Merged> {
    let (mut merged, own) = (read(existing)?, read(own)?);
    let mut has_others = false;
    for (field, own) in own {
        let Value::Array(entries) = own else {
            merged.insert(field, own);
            continue;
        };
        let list = merged.entry(field).or_insert_with(|| Value::Array(Vec::new()));
        if list.is_null() {
            *list = Value::Array(Vec::new());
        }
        let Value::Array(list) = list else {
            return Err(not_a_kubeconfig("an entry list is not a list"));
        };
        list.retain(|known| entries.iter().all(|entry| entry["name"] != known["name"]));
        has_others |= !list.is_empty();
        list.extend(entries);
    }
    Ok(Merged {
        text: yaml::to_string(&Value::Object(merged)),
        has_others,
    })
}

/// The fields of a kubeconfig. An empty file has none.
fn read(text: &str) -> io::Result<Map<String, Value>> {
    match yaml::first_document(text.as_bytes(), yaml::Mode::Strict) {
        _ if text.trim().is_empty() => Ok(Map::new()),
        Ok(document) => match document.value {
            Value::Object(fields) if fields.get("kind").is_none_or(|kind| kind == "Config") => Ok(fields),
            _ => Err(not_a_kubeconfig("its kind is not Config")),
        },
        Err(error) => Err(not_a_kubeconfig(&error.to_string())),
    }
}

fn not_a_kubeconfig(why: &str) -> io::Error {
    let text = format!("the existing file is not a kubeconfig and stays unchanged: {why}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Writes a secret atomically, readable only by its owner.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = create_private(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The temporary file contains a secret; the first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<std::fs::File> {
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "{kind: Config, clusters: [{name: watchkeeper, cluster: {server: new}}], \
                       contexts: [{name: watchkeeper}], current-context: watchkeeper}";

    fn write(existing: Option<&str>) -> (io::Result<()>, String, Option<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        if let Some(existing) = existing {
            std::fs::write(&path, existing).unwrap();
        }
        let written = write_merged(&path, OWN);
        let backup = std::fs::read_to_string(directory.path().join("config.backup"));
        (written, std::fs::read_to_string(&path).unwrap(), backup.ok())
    }

    #[test]
    fn other_entries_of_a_kubeconfig_stay_and_a_backup_is_kept() {
        let theirs = "apiVersion: v1
kind: Config
clusters:
- name: production
  cluster: {server: https://production}
- name: watchkeeper
  cluster: {server: old}
contexts: null
preferences: {colors: true}
current-context: production
";
        let (written, text, backup) = write(Some(theirs));
        written.unwrap();
        let merged = read(&text).unwrap();
        assert_eq!(merged["clusters"][0]["name"], "production");
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "new");
        assert_eq!(merged["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(merged["contexts"][0]["name"], "watchkeeper");
        assert_eq!(merged["preferences"]["colors"], true);
        assert_eq!(merged["current-context"], "watchkeeper");
        assert_eq!(backup.as_deref(), Some(theirs));
    }

    #[test]
    fn an_own_or_empty_file_is_replaced() {
        for existing in [None, Some(""), Some(OWN)] {
            let (written, text, backup) = write(existing);
            written.unwrap();
            assert_eq!(read(&text).unwrap()["current-context"], "watchkeeper");
            assert_eq!(backup, None);
        }
    }

    #[test]
    fn a_file_that_is_not_a_kubeconfig_stays_unchanged() {
        for existing in ["[1]", "{kind: Pod}", "a: [", "clusters: 7"] {
            let (written, text, _) = write(Some(existing));
            let error = written.unwrap_err().to_string();
            assert!(
                error.starts_with("the existing file is not a kubeconfig"),
                "{error}"
            );
            assert_eq!(text, existing);
        }
    }
}
