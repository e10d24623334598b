//! The webhooks, probes and metrics of the operator. Sockets do not follow moved time.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use website_operator::operator;

use crate::world::{Process, World, socket, website};

/// Long enough for any machine; the awaited results come at once.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn writes_are_defaulted_and_validated_before_they_are_stored() {
    let world = World::start(false).await;
    let ((webhooks, webhooks_at), (probes, probes_at), (metrics, metrics_at)) =
        (socket(), socket(), socket());
    let configurations = include_str!("../../deploy/webhooks.yaml");
    let loaded = world.cluster.load_webhooks_at(configurations, webhooks_at);
    loaded.await.unwrap();
    let manager = operator(world.client.clone(), webhooks)
        .probes(probes)
        .metrics(metrics);
    let operator = Process::start(manager);
    eventually(async || {
        get(probes_at, "/readyz")
            .await?
            .starts_with("HTTP/1.1 200")
            .then_some(())
    })
    .await;

    let home = world.create("home", "Example.ORG").await;
    assert_eq!(home.spec.domain, "example.org");
    eventually(async || (world.ready("home").await == "True Serving").then_some(())).await;
    let refused = world
        .websites
        .create(&website("other", "EXAMPLE.org"))
        .await
        .unwrap_err();
    let why = &refused.status().unwrap().message;
    let expected = r#"admission webhook "validate.websites.example.com" denied the request: example.org belongs to default/home"#;
    assert_eq!(why, expected);

    let page = get(metrics_at, "/metrics").await.unwrap();
    assert!(
        page.contains(r#"controller_runtime_reconcile_total{controller="website",result="success"}"#),
        "{page}"
    );
    assert!(
        page.contains(r#"leader_election_master_status{name="website-operator"} 1"#),
        "{page}"
    );
    operator.stop().await;
    world.cluster.stop().await;
}

/// The response to a request, head and body.
async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

/// Retries until there is an answer.
async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(SOON, asked).await.expect("it never came")
}
