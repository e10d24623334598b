//! The program to be measured, in processes of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;

use crate::Failure;
use crate::connector::connector;

/// What Linux counts processor time in, on every machine.
const TICK: Duration = Duration::from_millis(10);

/// Where the program is.
pub(crate) struct Program {
    path: PathBuf,
}

/// Where a process keeps its objects.
#[derive(Clone, Copy)]
pub(crate) enum Keeps {
    InMemory,
    OnDisk,
}

/// A running process; it ends with this.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) tls: TlsConnector,
    _dir: TempDir,
}

impl Program {
    pub(crate) fn new(path: PathBuf) -> Result<Self, Failure> {
        let path = path
            .canonicalize()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path })
    }

    /// Starts a process and waits until it says that it is ready.
    pub(crate) fn start(&self, keeps: Keeps) -> Result<Process, Failure> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        let mut command = Command::new(&self.path);
        command.args(["up", "--no-simulator", "--listen", "127.0.0.1:0", "--kubeconfig"]);
        command.arg(&kubeconfig);
        if matches!(keeps, Keeps::OnDisk) {
            command.arg("--data-dir").arg(dir.path().join("data"));
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut ready = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut ready)?;
        let (_, address) = ready.split_once("https://").ok_or("the program did not start")?;
        let (address, _) = address.split_once(": ").ok_or("the program did not start")?;
        let (authority, token) = credentials(&kubeconfig)?;
        Ok(Process {
            child,
            address: address.parse()?,
            token,
            tls: connector(&authority, "h2")?,
            _dir: dir,
        })
    }
}

impl Process {
    /// The processor time it has used so far, which other people's load does not lengthen.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // Behind the name, which may have spaces: the 12th and 13th words, in user and in system mode.
        let (_, words) = text.rsplit_once(')').ok_or("no such process")?;
        let mut words = words.split_ascii_whitespace().skip(11);
        let mut next = || words.next().unwrap_or_default().parse::<u32>();
        Ok(TICK * (next()? + next()?))
    }

    /// Memory in MB: what the process has now (`VmRSS`), or what it had at most (`VmHWM`).
    pub(crate) fn memory(&self, field: &str) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.trim_matches([':', '\t', ' ']).split(' ').next());
        Ok(kib.ok_or("no such field")?.parse::<f64>()? / 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already, which is all that is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The authority and the token in a kubeconfig of ours.
fn credentials(kubeconfig: &Path) -> Result<(Vec<u8>, String), Failure> {
    let text = std::fs::read_to_string(kubeconfig)?;
    let value = |key: &str| {
        let mut lines = text.lines().map(str::trim);
        let found = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        found.map(|value| value.trim_matches('"').to_owned())
    };
    let authority = value("certificate-authority-data").ok_or("a kubeconfig without an authority")?;
    let token = value("token").ok_or("a kubeconfig without a token")?;
    Ok((STANDARD.decode(authority)?, token))
}
