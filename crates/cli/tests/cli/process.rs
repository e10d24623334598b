//! The program as a process, with a server in the test that can inject faults.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use watchkeeper_server::{Handle, Server};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_watchkeeper");

/// A server on a port, and a directory with the kubeconfig for it.
#[allow(dead_code, reason = "not every test needs all of it")]
pub(crate) struct Harbour {
    runtime: Runtime,
    pub(crate) server: Handle,
    pub(crate) directory: TempDir,
}

#[allow(dead_code, reason = "not every test needs all of it")]
impl Harbour {
    pub(crate) fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let builder = Server::builder().in_memory().listen(address);
        let server = runtime.block_on(builder.start()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        server
            .write_kubeconfig(&directory.path().join("kubeconfig"))
            .unwrap();
        Self {
            runtime,
            server,
            directory,
        }
    }

    /// Waits for a future of the server.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(line.split_whitespace())
            .current_dir(self.directory.path())
            .env_remove("NO_COLOR")
            .env("KUBECONFIG", "kubeconfig");
        command
    }

    /// Runs to the end; it must succeed.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert!(output.status.success(), "{line}: {}", text(output.stderr));
        text(output.stdout)
    }

    pub(crate) fn create_config_map(&self, name: &str) {
        let manifest = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
        std::fs::write(self.directory.path().join("map.yaml"), manifest).unwrap();
        self.run("create -f map.yaml");
    }

    /// Starts it; its errors go to the file `errors`.
    pub(crate) fn start(&self, line: &str) -> Running {
        let errors = std::fs::File::create(self.directory.path().join("errors")).unwrap();
        Running::of(self.command(line).stderr(errors))
    }

    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("errors")).unwrap()
    }
}

/// A running program, which is stopped with the test.
pub(crate) struct Running {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

#[allow(dead_code, reason = "not every test needs all of it")]
impl Running {
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().map(BufReader::new);
        Self { child, output }
    }

    /// Types a line. Its input must be a pipe.
    pub(crate) fn type_line(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("the input is no pipe");
        writeln!(input, "{line}").unwrap();
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let output = self.output.as_mut().expect("the output was closed");
        output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The first word of each of the next lines.
    pub(crate) fn first_words(&mut self, count: usize) -> Vec<String> {
        let first = |line: String| line.split_whitespace().next().unwrap_or_default().to_owned();
        (0..count).map(|_| first(self.line())).collect()
    }

    /// Closes its output.
    pub(crate) fn close_output(&mut self) {
        self.output = None;
    }

    pub(crate) fn interrupt(&self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
