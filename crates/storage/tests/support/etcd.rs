//! A real etcd for one test: on free ports, in its own directory, stopped on drop.

#![allow(dead_code, unreachable_pub)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// One member of a cluster of its own.
pub struct Etcd {
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
    process: Child,
    dir: tempfile::TempDir,
}

impl Etcd {
    /// Starts one; `None`, with a message, if etcd is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(|_| Vec::new())
    }

    /// Starts one with further flags, which may name files in its directory.
    pub fn start_with(flags: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        let program = find()?;
        let dir = tempfile::tempdir().unwrap();
        let flags = flags(dir.path());
        let peer = "http://127.0.0.1:0";
        let etcd = Self::launch(&program, dir, "one", peer, &format!("one={peer}"), flags);
        etcd.wait();
        Some(etcd)
    }

    /// Starts a cluster of three members.
    pub fn start_three() -> Option<Vec<Self>> {
        let program = find()?;
        let names = ["one", "two", "three"];
        let peers = names.map(|_| format!("http://127.0.0.1:{}", free_port()));
        let cluster = names
            .iter()
            .zip(&peers)
            .map(|(name, peer)| format!("{name}={peer}"));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let members = names.iter().zip(&peers).map(|(name, peer)| {
            let dir = tempfile::tempdir().unwrap();
            Self::launch(&program, dir, name, peer, &cluster, Vec::new())
        });
        let members: Vec<_> = members.collect();
        members.iter().for_each(Self::wait);
        Some(members)
    }

    fn launch(
        program: &Path,
        dir: tempfile::TempDir,
        name: &str,
        peer: &str,
        cluster: &str,
        flags: Vec<String>,
    ) -> Self {
        let port = free_port();
        let is_tls = flags.iter().any(|flag| flag.starts_with("--cert-file"));
        let client = format!("{}://127.0.0.1:{port}", if is_tls { "https" } else { "http" });
        let mut arguments = vec![
            format!("--name={name}"),
            format!("--data-dir={}", dir.path().join("data").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={cluster}"),
            "--logger=zap".to_owned(),
            "--log-level=error".to_owned(),
        ];
        arguments.extend(flags);
        Self {
            process: spawn(program, &arguments),
            program: program.to_owned(),
            arguments,
            port,
            dir,
        }
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The client port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The client URL, without TLS.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// True if it is the leader of its cluster.
    pub fn is_leader(&self) -> bool {
        let Some(answer) = self.ask("POST", "/v3/maintenance/status", "{}") else {
            return false;
        };
        let number = |name: &str| {
            let rest = answer.split_once(&format!("\"{name}\":\""))?.1;
            rest.split_once('"').map(|(number, _)| number.to_owned())
        };
        number("leader").is_some_and(|leader| number("member_id") == Some(leader))
    }

    /// True if it reports the progress of a watch on request, in order with the events.
    pub fn reports_progress(&self) -> bool {
        let answer = self.ask("GET", "/version", "").unwrap();
        let (_, rest) = answer.split_once("\"etcdserver\":\"").unwrap();
        let numbers = rest.split(['.', '"', '-']).take(3);
        let numbers: Vec<u32> = numbers.map(|number| number.parse().unwrap()).collect();
        match numbers[..2] {
            [3, 4] => numbers[2] >= 31,
            [3, 5] => numbers[2] >= 13,
            _ => numbers[..2] > [3, 5][..],
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Restarts it on the same data, and waits until it serves.
    pub fn restart(&mut self) {
        self.process = spawn(&self.program, &self.arguments);
        self.wait();
    }

    fn wait(&self) {
        for _ in 0..1000 {
            // With TLS this request is rejected; an open port must do.
            let is_tls = self
                .arguments
                .iter()
                .any(|argument| argument.starts_with("--cert-file"));
            let ready = match is_tls {
                true => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
                false => self
                    .ask("GET", "/health", "")
                    .is_some_and(|answer| answer.contains("true")),
            };
            if ready {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("etcd does not serve");
    }

    /// True if its database or write-ahead log contains a text.
    pub fn holds(&self, text: &str) -> bool {
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => {
                        let bytes = std::fs::read(entry.path()).unwrap();
                        // The log is as large as it may become.
                        let mut bytes = &bytes[..];
                        while let Some(rest) = bytes.strip_suffix(&[0; 4096]) {
                            bytes = rest;
                        }
                        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                            return true;
                        }
                    }
                }
            }
        }
        false
    }

    /// Deletes all keys with a prefix in one revision, as an administrator can.
    pub fn delete_prefix(&self, prefix: &str) {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let body = format!(
            r#"{{"key":"{}","range_end":"{}"}}"#,
            base64(prefix.as_bytes()),
            base64(&end)
        );
        let answer = self.ask("POST", "/v3/kv/deleterange", &body).unwrap();
        assert!(answer.contains("deleted"), "{answer}");
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: etcd\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(program: &Path, arguments: &[String]) -> Child {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.push("/usr/bin".into());
    let found = places
        .iter()
        .map(|place| place.join("etcd"))
        .find(|file| file.is_file());
    if found.is_none() {
        // Not `eprintln!`: the output of a passing test is captured.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: there is no etcd on this machine (Debian: apt-get install etcd-server)"
        );
    }
    found
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = bytes.chunks(3).flat_map(|chunk| {
        let number = chunk
            .iter()
            .fold(0, |number: u32, &byte| number << 8 | u32::from(byte))
            << (8 * (3 - chunk.len()));
        (0..4).map(move |place| match place <= chunk.len() {
            true => char::from(DIGITS[(number >> (18 - 6 * place)) as usize & 63]),
            false => '=',
        })
    });
    digits.collect()
}
