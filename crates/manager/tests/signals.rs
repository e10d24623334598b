//! The signals of a real process. In its own binary: a signal handler stays for the life of the process.

use std::process::{Command, id};
use std::time::Duration;

use futures_util::StreamExt as _;
use watchkeeper_manager::{Manager, ManagerError, signals};
use watchkeeper_testing::TestCluster;

fn send(signal: &str) {
    let kill = format!("kill -{signal} {}", id());
    let status = Command::new("sh").args(["-c", &kill]).status();
    assert!(status.expect("a shell").success());
}

#[tokio::test]
async fn sigterm_and_sigint_stop_a_manager() {
    let mut both = signals();
    for signal in ["TERM", "INT"] {
        send(signal);
        let came = tokio::time::timeout(Duration::from_secs(60), both.next()).await;
        assert_eq!(came, Ok(Some(())), "{signal}");
    }
    let cluster = TestCluster::start().await.unwrap();
    let manager = Manager::new(cluster.client().clone()).always("work", |stop| async move {
        send("TERM");
        stop.requested().await;
        send("INT");
        std::future::pending::<Result<(), std::io::Error>>().await
    });
    let ended = manager.run_until(signals()).await;
    assert!(
        matches!(ended, Err(ManagerError::Interrupted { .. })),
        "{ended:?}"
    );
    cluster.stop().await;
}
