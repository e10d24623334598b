//! The measured program, in its own processes.

use std::io::{BufRead as _, BufReader};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Failure;
use crate::address::Address;

/// The unit of processor time in Linux.
const TICK: Duration = Duration::from_millis(10);

/// The path of the program.
pub(crate) struct Program {
    path: PathBuf,
}

/// The storage of a process.
#[derive(Clone, Copy)]
pub(crate) enum Keeps {
    InMemory,
    OnDisk,
}

/// Flags of a server alone.
const ALONE: &[&str] = &["--no-simulator"];

/// A running process; it is killed on drop.
pub(crate) struct Process {
    child: Child,
    address: Address,
    keeps: Keeps,
    /// `None` once it belongs to the process's successor.
    dir: Option<TempDir>,
}

impl Program {
    pub(crate) fn new(path: PathBuf) -> Result<Self, Failure> {
        let path = path
            .canonicalize()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path })
    }

    /// Starts a process and waits until it is ready.
    pub(crate) fn start(&self, keeps: Keeps) -> Result<Process, Failure> {
        self.start_in(tempfile::tempdir()?, keeps, ALONE)
    }

    /// Starts a process in memory with other flags.
    pub(crate) fn start_with(&self, flags: &[&str]) -> Result<Process, Failure> {
        self.start_in(tempfile::tempdir()?, Keeps::InMemory, flags)
    }

    /// Kills a process and starts another one with its data; returns the time until it is ready.
    pub(crate) fn restart(&self, mut process: Process) -> Result<(Process, Duration), Failure> {
        let (dir, keeps) = (process.dir.take().ok_or("no directory")?, process.keeps);
        drop(process);
        let began = Instant::now();
        let process = self.start_in(dir, keeps, ALONE)?;
        Ok((process, began.elapsed()))
    }

    fn start_in(&self, dir: TempDir, keeps: Keeps, flags: &[&str]) -> Result<Process, Failure> {
        let kubeconfig = dir.path().join("kubeconfig");
        let mut command = Command::new(&self.path);
        command.args(["up", "--listen", "127.0.0.1:0", "--kubeconfig"]);
        command.arg(&kubeconfig).args(flags);
        if matches!(keeps, Keeps::OnDisk) {
            command.arg("--data-dir").arg(dir.path().join("data"));
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut ready = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut ready)?;
        if !ready.contains("https://") {
            return Err("the program did not start".into());
        }
        Ok(Process {
            child,
            address: Address::of_kubeconfig(&kubeconfig)?,
            keeps,
            dir: Some(dir),
        })
    }
}

/// A process is used as the address of its server.
impl Deref for Process {
    type Target = Address;

    fn deref(&self) -> &Address {
        &self.address
    }
}

impl Process {
    /// Its processor time so far, independent of other load.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        cpu(self.child.id())
    }

    /// Memory in MB: current (`VmRSS`) or peak (`VmHWM`).
    pub(crate) fn memory(&self, field: &str) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.trim_matches([':', '\t', ' ']).split(' ').next());
        Ok(kib.ok_or("no such field")?.parse::<f64>()? / 1024.0)
    }
}

/// The processor time of a process so far.
pub(crate) fn cpu(process: u32) -> Result<Duration, Failure> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // After the name, which may contain spaces: fields 12 and 13 are user and system time.
    let (_, words) = text.rsplit_once(')').ok_or("no such process")?;
    let mut words = words.split_ascii_whitespace().skip(11);
    let mut next = || words.next().unwrap_or_default().parse::<u32>();
    Ok(TICK * (next()? + next()?))
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
