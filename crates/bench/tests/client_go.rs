//! Tests the embedded server with client-go, Kubernetes' own client, in a separate program (`client-go/`), over TLS,
//! with the kubeconfig of the server. Each trial has its own server; its steps and expectations are written in Go.
//! Skipped with a message if the program is missing.

// The message about skipped trials is meant for the terminal.
#![allow(clippy::print_stderr)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::task::spawn_blocking;
use watchkeeper_meta::Status;
use watchkeeper_server::{Flow, Handle, RequestMatch, Server, Verb};

/// The variable with the path of the program.
const VARIABLE: &str = "WATCHKEEPER_CLIENT_GO";

macro_rules! trials {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(#[tokio::test]
        async fn $name() {
            run(stringify!($name)).await;
        })*
    };
}

trials! {
    a_busy_server_is_asked_again
    a_mapper_finds_kinds
    a_pager_sees_everything_once
    a_retry_watcher_goes_on
    a_retry_watcher_hears_that_its_version_is_gone
    a_watch_follows_its_selector
    an_informer_goes_on_after_its_watch_breaks
    an_informer_lists_again_when_its_version_is_gone
    an_informer_tells_what_happens
    an_informer_that_lists_in_pages
    apply_knows_who_wrote_what
    custom_kinds_by_the_dynamic_client
    deletion_waits_for_finalizers
    discovery_in_either_form
    events_are_recorded
    initial_events_end_with_a_bookmark
    leadership_changes_hands
    lists_are_of_the_version_asked_for
    metadata_alone
    nothing_is_lost_in_a_storm
    patches_of_every_kind
    refusals_are_what_they_should_be
    rights_of_another_user
    stale_writes_are_refused
    streamed_lists_are_what_lists_are
    subresources
}

#[test]
fn every_trial_is_run() {
    let Some(program) = program() else { return };
    let names = Command::new(program).args(["try", "names", ""]).output().unwrap();
    let names = String::from_utf8(names.stdout).unwrap();
    assert_eq!(names.lines().collect::<Vec<_>>(), NAMES);
}

fn program() -> Option<PathBuf> {
    let program = std::env::var_os(VARIABLE);
    if program.is_none() {
        eprintln!("skipped: {VARIABLE} does not name a program built by client-go/build");
    }
    program.map(PathBuf::from)
}

async fn run(trial: &str) {
    let Some(program) = program() else { return };
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder()
        .in_memory()
        .listen(address)
        .start()
        .await
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    server.write_kubeconfig(&kubeconfig).unwrap();
    converse(&program, trial, &kubeconfig, &server).await;
    server.shutdown().await;
}

/// Runs the operations that the program requests until it exits successfully.
async fn converse(program: &Path, trial: &str, kubeconfig: &Path, server: &Handle) {
    let mut child = Command::new(program)
        .args(["try", trial])
        .arg(kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = child.stdin.take().unwrap();
    let mut orders = BufReader::new(child.stdout.take().unwrap()).lines();
    loop {
        // The server runs on this thread and must not be blocked.
        let next = spawn_blocking(move || (orders.next(), orders));
        let (order, rest) = next.await.unwrap();
        let Some(order) = order.transpose().unwrap() else {
            break;
        };
        orders = rest;
        run_order(&order, server).await;
        writeln!(answers, "done").unwrap();
    }
    let output = spawn_blocking(|| child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn run_order(order: &str, server: &Handle) {
    let watches = |resource: &str| RequestMatch::new(Verb::Watch, resource);
    let flow = |resource: &str, flow| {
        let streams = server.faults().set_flow(&watches(resource), flow);
        assert!(streams > 0, "{order}: there are none");
    };
    match order.split_once(' ').unwrap_or((order, "")) {
        ("cut", resource) => flow(resource, Flow::Cut),
        ("end", resource) => flow(resource, Flow::Ended),
        ("stall", resource) => flow(resource, Flow::Stalled),
        ("compact", _) => {
            let store = server.registry().store();
            store.compact(store.current_revision()).await.unwrap();
        }
        ("refuse", resource) => {
            let gets = RequestMatch::new(Verb::Get, resource);
            let busy = Status::too_many_requests("busy", 1);
            server.faults().answer_next(gets, 1, busy).unwrap();
        }
        _ => panic!("unknown order {order:?}"),
    }
}
