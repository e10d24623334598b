//! A running program whose server, disk or reader goes away.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

use crate::process::{Harbour, PROGRAM, Running};
use watchkeeper_meta::Status;
use watchkeeper_server::{Action, Flow, RequestMatch, Rule, Verb};

/// Hides what `meanwhile` does: the watches of config maps break first, and the next one is refused.
fn interrupt_watches(harbour: &Harbour, answer: Status, meanwhile: impl FnOnce()) {
    let faults = harbour.server.faults();
    let watches = RequestMatch::new(Verb::Watch, "configmaps");
    assert_eq!(faults.set_flow(&watches, Flow::Stalled), 1, "nobody watches");
    meanwhile();
    faults.answer_next(watches.clone(), 1, answer).unwrap();
    faults.set_flow(&watches, Flow::Cut);
}

fn unavailable() -> Status {
    Status::service_unavailable("the server is restarting")
}

#[test]
fn get_w_goes_on_after_the_last_event() {
    let harbour = Harbour::new();
    harbour.create_config_map("a");
    let mut get = harbour.start("get cm -w --output-watch-events --no-headers -o name");
    assert_eq!(get.line(), "configmap/a");
    harbour.create_config_map("b");
    assert_eq!(get.line(), "configmap/b");
    interrupt_watches(&harbour, unavailable(), || {
        harbour.create_config_map("c");
        harbour.run("delete cm a");
    });
    harbour.create_config_map("d");
    assert_eq!(
        [get.line(), get.line(), get.line()],
        ["configmap/c", "configmap/a", "configmap/d"]
    );
    let errors = harbour.errors();
    assert_eq!(errors.lines().count(), 1, "it is said once: {errors}");
    assert!(
        errors.starts_with("Warning: the watch was interrupted: "),
        "{errors}"
    );
    get.interrupt();
    assert!(get.ended().success(), "Ctrl-C is no failure");
}

#[test]
fn get_w_says_when_something_is_lost() {
    let harbour = Harbour::new();
    harbour.create_config_map("a");
    let mut get = harbour.start("get cm -w");
    assert_eq!(get.first_words(2), ["NAME", "a"]);
    harbour.create_config_map("b");
    assert_eq!(get.first_words(1), ["b"]);
    interrupt_watches(&harbour, Status::watch_expired(), || {
        harbour.run("delete cm a");
        harbour.create_config_map("c");
    });
    assert_eq!(get.first_words(2), ["b", "c"], "what is there now");
    harbour.create_config_map("d");
    assert_eq!(get.first_words(1), ["d"]);
    let errors = harbour.errors();
    assert!(errors.contains("what happened in between is lost"), "{errors}");
}

#[test]
fn watch_goes_on_after_the_last_event() {
    let harbour = Harbour::new();
    harbour.create_config_map("a");
    let mut watch = harbour.start("watch cm");
    assert_eq!(
        watch.first_words(1),
        ["EVENT"],
        "a header says what the columns are"
    );
    next(&mut watch, "ADDED", "a");
    harbour.create_config_map("b");
    next(&mut watch, "ADDED", "b");
    interrupt_watches(&harbour, unavailable(), || {
        harbour.run("label cm b app=web");
        harbour.run("delete cm a");
        harbour.create_config_map("c");
    });
    next(&mut watch, "MODIFIED", "b");
    next(&mut watch, "DELETED", "a");
    next(&mut watch, "ADDED", "c");
    interrupt_watches(&harbour, Status::watch_expired(), || {
        harbour.run("delete cm b");
        harbour.create_config_map("d");
    });
    // The history is compacted, so a new list shows the changes.
    assert_eq!(watch.first_words(1), ["RESTARTED"]);
    next(&mut watch, "DELETED", "b");
    next(&mut watch, "ADDED", "d");
    watch.interrupt();
    assert!(watch.ended().success(), "Ctrl-C is no failure");
}

/// The next line is about this config map.
fn next(watch: &mut Running, what: &str, name: &str) {
    let line = watch.line();
    let words: Vec<_> = line.split_whitespace().take(3).collect();
    assert_eq!(words, [what, "default", &format!("configmap/{name}")]);
}

/// A separate server process, which can crash and restart.
fn server(directory: &Path, address: &str) -> (Running, String) {
    let mut command = Command::new(PROGRAM);
    command
        .args(["up", "--no-simulator", "--data-dir", "data"])
        .args(["--kubeconfig", "kubeconfig", "--listen", address])
        .current_dir(directory);
    let mut running = Running::of(&mut command);
    let ready = running.line();
    let rest = ready
        .strip_prefix("watchkeeper is ready at https://")
        .expect(&ready);
    let address = rest.split_once(": ").expect(&ready).0.to_owned();
    (running, address)
}

#[test]
fn a_cluster_that_comes_back_is_watched_on() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["a", "b"] {
        let manifest = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
        std::fs::write(at(name), manifest).unwrap();
    }
    let (first, address) = server(directory.path(), "127.0.0.1:0");
    // The kubeconfig stays valid: authority and token survive a restart.
    std::fs::rename(at("kubeconfig"), at("kubeconfig-of-the-first")).unwrap();
    let client = |line: &str| {
        let mut command = Command::new(PROGRAM);
        command
            .args(["--kubeconfig", "kubeconfig-of-the-first"])
            .args(line.split_whitespace())
            .current_dir(directory.path())
            .stderr(std::fs::File::create(at("errors")).unwrap());
        Running::of(&mut command)
    };
    assert_eq!(client("create -f a").line(), "configmap/a created");
    let mut watch = client("watch cm --output json");
    assert!(watch.line().starts_with(r#"{"type":"ADDED","#));
    assert!(watch.line().starts_with(r#"{"type":"SYNCED","#));
    // It is killed.
    drop(first);
    let (_second, _) = server(directory.path(), &address);
    assert_eq!(client("create -f b").line(), "configmap/b created");
    let event: serde_json::Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["name"]),
        (&"ADDED".into(), &"b".into())
    );
}

#[test]
fn a_full_disk_ends_the_watch_and_keeps_the_old_position() {
    let harbour = Harbour::new();
    harbour.create_config_map("a");
    harbour.run("watch cm --position position --count 1");
    let position = || std::fs::read(harbour.directory.path().join("position")).unwrap();
    let before = position();
    harbour.create_config_map("b");
    // The shell limits the file size, and the program gets an error.
    let mut command = Command::new("bash");
    command
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 0; exec \"$0\" watch cm --position position",
            PROGRAM,
        ])
        .current_dir(harbour.directory.path())
        .env("KUBECONFIG", "kubeconfig");
    let output = command.output().unwrap();
    let (out, err) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(out.contains("configmap/b"), "{out}");
    assert!(err.contains("error: position file position: "), "{err}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(position(), before);
    let again = harbour.run("watch cm --position position --count 1");
    assert!(
        again.contains("configmap/b"),
        "what was not noted is told again: {again}"
    );
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_program() {
    let harbour = Harbour::new();
    let mut watch = harbour.start("watch ns");
    watch.line();
    watch.close_output();
    std::fs::write(
        harbour.directory.path().join("ns.yaml"),
        "{apiVersion: v1, kind: Namespace, metadata: {name: late}}",
    )
    .unwrap();
    harbour.run("create -f ns.yaml");
    assert_eq!(
        watch.ended().code(),
        Some(141),
        "as kubectl: what a shell says of SIGPIPE"
    );
    assert_eq!(harbour.errors(), "");
}

#[test]
fn an_interrupted_check_leaves_nothing_behind() {
    let harbour = Harbour::new();
    let stalled = Rule::new(
        RequestMatch::new(Verb::Watch, "configmaps"),
        Action::Flow(Flow::Stalled),
    );
    harbour.server.faults().inject(stalled).unwrap();
    let mut check = harbour.start("check-server gap-free -n default --patience 10m --limit 10m");
    // The first thing it does after a list is to write.
    while harbour.run("get cm -n default -o name").is_empty() {}
    check.interrupt();
    assert_eq!(check.line(), "gap-free              skipped");
    assert_eq!(check.line(), "    interrupted");
    assert!(!check.ended().success());
    assert_eq!(harbour.run("get cm -n default -o name"), "");
}
