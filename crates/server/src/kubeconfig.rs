//! The kubeconfig of a running server, and a way to write it that leaves nobody else a look at it.

use std::io::{self, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::tokens::Token;

/// Everything a client needs to reach the server.
pub(crate) fn kubeconfig(server: &str, authority_pem: &str, token: &Token) -> String {
    let authority = STANDARD.encode(authority_pem);
    let token = token.reveal();
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: watchkeeper
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: admin
  user:
    token: {token}
contexts:
- name: watchkeeper
  context:
    cluster: watchkeeper
    user: admin
current-context: watchkeeper
"
    )
}

/// Writes a secret so that only its owner can read it, and so that a reader never sees half of it.
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
        // What is left behind holds a secret; the first error is the one to report.
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
