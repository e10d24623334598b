//! `up` as a process: it says where it is, serves, and ends cleanly on Ctrl-C.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_watchkeeper");

/// Ends with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(directory: &std::path::Path) -> (Running, String) {
    let child = Command::new(PROGRAM)
        .args(["up", "--listen", "127.0.0.1:0", "--no-simulator", "--data-dir"])
        .arg(directory.join("data"))
        .arg("--kubeconfig")
        .arg(directory.join("kubeconfig"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let mut ready = String::new();
    BufReader::new(running.0.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    (running, ready)
}

fn run(directory: &std::path::Path, words: &[&str]) -> String {
    let output = Command::new(PROGRAM)
        .args(words)
        .env("KUBECONFIG", directory.join("kubeconfig"))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

fn interrupt(mut running: Running) {
    let sent = Command::new("kill")
        .args(["-INT", &running.0.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    assert!(running.0.wait().unwrap().success(), "Ctrl-C is no failure");
}

#[test]
fn a_cluster_with_a_directory_outlives_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let (running, ready) = start(directory.path());
    assert!(
        ready.starts_with("watchkeeper is ready at https://127.0.0.1:"),
        "{ready}"
    );
    assert!(ready.trim_end().ends_with("/kubeconfig"), "{ready}");
    assert!(run(directory.path(), &["version"]).contains("Server Version: v1."));
    std::fs::write(
        directory.path().join("a.yaml"),
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}",
    )
    .unwrap();
    let file = directory.path().join("a.yaml");
    assert_eq!(
        run(directory.path(), &["apply", "-f", file.to_str().unwrap()]),
        "configmap/kept created\n"
    );
    interrupt(running);

    let refused = run(directory.path(), &["get", "configmaps"]);
    assert!(
        refused.contains("was refused - did you specify the right host or port?"),
        "{refused}"
    );

    let (running, _) = start(directory.path());
    assert_eq!(
        run(directory.path(), &["get", "configmaps", "-o", "name"]),
        "configmap/kept\n"
    );
    interrupt(running);
}

#[test]
fn without_a_cluster_the_next_step_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM)
        .args(["get", "pods"])
        .env_clear()
        .env("HOME", directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("start a cluster with `watchkeeper up`"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}
