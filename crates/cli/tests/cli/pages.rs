//! The web page as the commands serve it: `ui` of a cluster and of a recording, `up --ui`, `demo --ui`.
#![cfg(unix)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::process::{Harbour, PROGRAM, Running};

/// A page that was opened with its link.
struct Opened {
    host: String,
    cookie: String,
}

impl Opened {
    /// Opens the page whose link is in the next lines.
    fn by(program: &mut Running) -> Self {
        let link = loop {
            let line = program.line();
            assert_ne!(line, "", "the program prints a link");
            if let Some((_, link)) = line.split_once("open http://") {
                assert!(
                    line.ends_with(" in a browser on this machine (the link works once)"),
                    "{line}"
                );
                break link.split(' ').next().unwrap().to_owned();
            }
        };
        let (host, path) = link.split_once('/').unwrap();
        let mut opened = Self {
            host: host.to_owned(),
            cookie: String::new(),
        };
        let answer = opened.get(&format!("/{path}"));
        assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
        let (_, cookie) = answer.split_once("set-cookie: ").unwrap();
        opened.cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
        opened
    }

    fn get(&self, path: &str) -> String {
        let (host, cookie) = (&self.host, &self.cookie);
        let mut socket = TcpStream::connect(host).unwrap();
        write!(
            socket,
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{cookie}\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks until the answer has a text: the page learns of objects as it watches them.
    fn until(&self, path: &str, text: &str) {
        while !self.get(path).contains(text) {
            std::thread::yield_now();
        }
    }
}

fn interrupt(mut program: Running) {
    program.interrupt();
    assert!(program.ended().success(), "Ctrl-C is no failure");
}

const MAP: &str = "/api/object?kind=configmaps&namespace=default&name=a";

#[test]
fn a_cluster_is_shown_and_written_to_only_if_that_is_allowed() {
    let harbour = Harbour::new();
    harbour.create_config_map("a");
    for (line, writes) in [
        ("ui configmaps -n default", "data-writes=\"false\""),
        ("ui --allow-writes", "data-writes=\"true\""),
    ] {
        let mut ui = harbour.start(line);
        let page = Opened::by(&mut ui);
        let html = page.get("/");
        assert!(
            html.contains(writes) && html.contains("https://127.0.0.1:"),
            "{line}: {html}"
        );
        page.until(MAP, "kind: ConfigMap");
        interrupt(ui);
    }
}

#[test]
fn a_recording_is_shown_and_cannot_be_written_to() {
    let harbour = Harbour::new();
    harbour.create_config_map("a");
    harbour.run("record configmaps -n default -o maps.rec --count 1");
    let mut ui = harbour.start("ui --recording maps.rec");
    let page = Opened::by(&mut ui);
    let html = page.get("/");
    assert!(
        html.contains("maps.rec") && html.contains("data-writes=\"false\""),
        "{html}"
    );
    let map = MAP.replace("kind=configmaps", "kind=configmaps+in+default");
    assert!(
        page.get(&map).contains("kind: ConfigMap"),
        "at once: it is in the recording"
    );
    interrupt(ui);
    let refused = harbour
        .command("ui --recording maps.rec --allow-writes")
        .output()
        .unwrap();
    assert!(!refused.status.success());
    let damaged = harbour.directory.path().join("a.rec");
    std::fs::write(&damaged, "something else").unwrap();
    let foreign = harbour.command("ui --recording a.rec").output().unwrap();
    assert_eq!(
        String::from_utf8(foreign.stderr).unwrap(),
        "error: a.rec is not a recording\n"
    );
}

#[test]
fn a_local_cluster_and_the_demo_have_a_page() {
    for line in [
        "up --listen 127.0.0.1:0 --no-simulator --ui",
        "demo --no-simulator --pace 0s --ui",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(PROGRAM);
        let command = command
            .args(line.split_whitespace())
            .current_dir(directory.path());
        let mut program = Running::of(command);
        let page = Opened::by(&mut program);
        page.until(
            "/api/object?kind=namespaces&namespace=&name=default",
            "kind: Namespace",
        );
        interrupt(program);
    }
}
