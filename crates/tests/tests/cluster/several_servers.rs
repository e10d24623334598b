//! Three servers over three etcd members, behind one address. Servers and etcd's leader are killed under load.
//! Afterwards every acknowledged write is there, all servers have the same history, and every watch was correct.
//!
//! The test spawns itself as the servers to be killed. The number of acknowledged writes drives it.

#![cfg(unix)]

#[path = "../../../storage/tests/support/etcd.rs"]
mod etcd_process;
mod load;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_conformance::promises::{Change, all_kept};

use etcd_process::Etcd;
use load::{Acknowledged, Recorder, Write, Writer, events_after};
use servers::{Balancer, Credentials, ServerProcess, serve};

const SERVERS: usize = 3;
const WRITERS: usize = 4;
/// Writes between two kills: enough for every writer to notice.
const WRITES: u64 = 60;
/// The timeout of the whole test, which takes about 15 seconds on two free cores.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs in the processes that are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test below"]
async fn serve_until_killed() {
    serve().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_write_is_lost_when_servers_and_the_etcd_leader_are_killed() {
    let Some(members) = Etcd::start_three() else {
        return;
    };
    let run = tokio::time::timeout(LIMIT, run(members));
    run.await.expect("the test takes far too long");
}

async fn run(mut members: Vec<Etcd>) {
    let urls: Vec<_> = members.iter().map(Etcd::url).collect();
    let mut servers: Vec<_> = (0..SERVERS).map(|_| ServerProcess::start(&urls)).collect();
    let credentials = servers[0].credentials.clone();
    for server in &servers {
        assert_eq!(server.credentials, credentials, "all servers have one identity");
    }
    let balancer = Balancer::start(servers.iter().map(|server| server.address)).await;
    let beginning = load::newest(&credentials.api(balancer.address)).await;

    let acknowledged = Arc::new(Acknowledged::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|id| {
            let writer = Writer::new(id, credentials.api(balancer.address), acknowledged.clone());
            tokio::spawn(writer.run())
        })
        .collect();
    let recorders: Vec<_> = [None, None, Some("red")]
        .map(|colour| {
            tokio::spawn(Recorder::new(colour, credentials.api(balancer.address)).run(acknowledged.clone()))
        })
        .into();
    acknowledged.more(WRITES).await;
    for (index, server) in servers.iter_mut().enumerate() {
        server.kill();
        acknowledged.more(WRITES).await;
        *server = ServerProcess::start(&urls);
        assert_eq!(server.credentials, credentials);
        balancer.replace(index, server.address);
        acknowledged.more(WRITES).await;
        if let Some(leader) = members.iter_mut().find(|member| member.is_leader()) {
            leader.kill();
            acknowledged.more(WRITES).await;
            leader.restart();
        }
    }
    acknowledged.stop();
    let mut writes = Vec::new();
    for writer in writers {
        writes.extend(writer.await.unwrap());
    }
    let end = load::write_sentinel(&credentials.api(balancer.address)).await;
    acknowledged.end_at(end);

    let truth = truth(&servers, &credentials, beginning, end).await;
    check_writes(&writes, &truth);
    for recorder in recorders {
        let history = recorder.await.unwrap();
        all_kept(&truth, &history).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

/// The history from every server; they must be equal.
async fn truth(servers: &[ServerProcess], credentials: &Credentials, after: u64, end: u64) -> Vec<Change> {
    let mut told = Vec::new();
    for server in servers {
        told.push(events_after(&credentials.api(server.address), after, end).await);
    }
    assert!(
        told.iter().all(|events| *events == told[0]),
        "servers tell different histories"
    );
    load::changes(told.swap_remove(0))
}

/// Checks that every acknowledged write happened at its version, and that there are no other changes.
fn check_writes(writes: &[Write], truth: &[Change]) {
    for write in writes.iter().filter(|write| write.is_acknowledged) {
        let happened = |change: &&Change| {
            change.name == write.name
                && match write.version {
                    Some(version) => {
                        change.version == version
                            && change
                                .after
                                .as_ref()
                                .is_some_and(|state| state.number == write.number)
                    }
                    None => {
                        change.after.is_none()
                            && change
                                .before
                                .as_ref()
                                .is_some_and(|state| state.number == write.number)
                    }
                }
        };
        assert!(truth.iter().any(|change| happened(&change)), "lost: {write:?}");
    }
    for state in truth
        .iter()
        .filter(|change| change.name.starts_with('w'))
        .filter_map(|change| change.after.as_ref())
    {
        assert!(
            writes.iter().any(|write| write.number == state.number),
            "nobody wrote {state}"
        );
    }
}
