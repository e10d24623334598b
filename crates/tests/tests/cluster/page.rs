//! The web page about a cluster, requested as by a browser.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use watchkeeper_testing::TestCluster;
use watchkeeper_view::feed::{Feed, FeedOptions, Live};
use watchkeeper_view::web::Page;

/// A cluster and its page.
struct Shown {
    cluster: TestCluster,
    live: Arc<Live>,
    host: String,
    /// The login path.
    link: String,
    _tasks: JoinSet<()>,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

async fn shown() -> Shown {
    let cluster = TestCluster::start().await.unwrap();
    let feed = Feed::new(cluster.client().clone(), FeedOptions::default())
        .await
        .unwrap();
    let live = feed.live().clone();
    let page = Page::bind(cluster.client().clone(), live.clone(), 0, "<test>")
        .await
        .unwrap();
    let link = page.link().unwrap();
    let (host, link) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let (host, link) = (host.to_owned(), format!("/{link}"));
    let mut tasks = JoinSet::new();
    tasks.spawn(feed.run());
    tasks.spawn(page.serve());
    Shown {
        cluster,
        live,
        host,
        link,
        _tasks: tasks,
    }
}

impl Shown {
    /// Waits until the board satisfies a condition.
    async fn until(&self, wanted: impl Fn(&watchkeeper_view::Board) -> bool) {
        let mut changes = self.live.changes();
        while !self.live.read(&wanted) {
            changes.changed().await.unwrap();
        }
    }

    async fn until_synced(&self) {
        use watchkeeper_view::board::StreamState;
        self.until(|board| board.kinds().iter().all(|kind| kind.state == StreamState::Live))
            .await;
    }

    async fn connect(&self, path: &str, headers: &str) -> TcpStream {
        let mut socket = TcpStream::connect(&self.host).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", self.host);
        socket.write_all(request.as_bytes()).await.unwrap();
        socket
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\r\n",
            self.host
        ))
        .await
    }

    async fn raw(&self, request: &str) -> Answer {
        let mut socket = TcpStream::connect(&self.host).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Answer {
            status: head[9..12].parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Logs in; returns the cookie header.
    async fn open(&self) -> String {
        let answer = self.get(&self.link, "").await;
        assert_eq!(answer.status, 303);
        let line = answer
            .head
            .lines()
            .find(|line| line.starts_with("set-cookie: "))
            .unwrap();
        assert!(
            line.contains("HttpOnly") && line.contains("SameSite=Strict"),
            "{line}"
        );
        let cookie = line
            .strip_prefix("set-cookie: ")
            .unwrap()
            .split(';')
            .next()
            .unwrap();
        format!("cookie: {cookie}\r\n")
    }

    async fn json(&self, path: &str, cookie: &str) -> Value {
        let answer = self.get(path, cookie).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }
}

const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: blue}}";

#[tokio::test]
async fn only_the_browser_that_opened_the_login_link_sees_the_page() {
    let shown = shown().await;
    assert_eq!(shown.get("/", "").await.status, 401);
    assert_eq!(
        shown
            .get("/api/tree", "cookie: watchkeeper_session=guess\r\n")
            .await
            .status,
        401
    );
    let cookie = shown.open().await;
    let page = shown.get("/", &cookie).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("&lt;test&gt;"), "the title is text");
    assert!(
        page.head
            .contains("content-security-policy: default-src 'none'; script-src 'self'")
    );
    assert_eq!(shown.get(&shown.link, "").await.status, 403, "a link works once");
    for asset in ["/app.js", "/dom.js", "/timeline.js", "/style.css", "/icon.svg"] {
        assert_eq!(shown.get(asset, &cookie).await.status, 200, "{asset}");
    }
    assert_eq!(shown.get("/etc/passwd", &cookie).await.status, 404);
}

#[tokio::test]
async fn other_hosts_origins_and_methods_are_refused() {
    let shown = shown().await;
    let cookie = shown.open().await;
    let foreign = shown
        .get("/", &format!("{cookie}origin: http://evil.example\r\n"))
        .await;
    assert_eq!(foreign.status, 403);
    let rebound = format!("GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n{cookie}\r\n");
    assert_eq!(shown.raw(&rebound).await.status, 403);
    let host = &shown.host;
    let write = format!(
        "POST /api/object HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{cookie}content-length: 0\r\n\r\n"
    );
    assert_eq!(shown.raw(&write).await.status, 405);
}

#[tokio::test]
async fn objects_tables_and_changes_are_shown() {
    let shown = shown().await;
    shown.until_synced().await;
    let cookie = shown.open().await;
    shown.cluster.load(MAP).await.unwrap();
    shown.cluster.load(&MAP.replace("blue", "red")).await.unwrap();
    shown.until(|board| board.next_sequence() >= 2).await;
    let object = shown
        .json(
            "/api/object?kind=configmaps&namespace=default&name=settings",
            &cookie,
        )
        .await;
    assert!(
        object["yaml"].as_str().unwrap().contains("colour: red"),
        "{object}"
    );
    assert!(!object["yaml"].as_str().unwrap().contains("managedFields"));
    let types: Vec<_> = object["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["type"])
        .collect();
    assert_eq!(types, ["ADDED", "MODIFIED"]);
    let change = &object["history"][1]["changes"][0];
    assert_eq!(
        *change,
        serde_json::json!({"path": "data.colour", "old": "blue", "new": "red"})
    );
    // The Table is loaded on the first request for it.
    let table = loop {
        let table = shown
            .json("/api/table?kind=configmaps&filter=SETT&limit=10", &cookie)
            .await;
        if table["synced"] == true {
            break table;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(table["columns"][0]["name"], "Name");
    assert_eq!(
        (&table["total"], &table["rows"][0]["name"]),
        (&1.into(), &"settings".into())
    );
    assert_eq!(shown.get("/api/table?kind=nothing", &cookie).await.status, 404);
    assert_eq!(
        shown
            .get("/api/object?kind=pods&namespace=a&name=b", &cookie)
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn the_event_stream_delivers_changes_and_reports_missed_ones() {
    let shown = shown().await;
    shown.until_synced().await;
    let cookie = shown.open().await;
    shown.cluster.load(MAP).await.unwrap();
    shown.until(|board| board.next_sequence() >= 1).await;
    let mut socket = shown.connect("/api/stream?after=0", &cookie).await;
    let mut read = String::new();
    let message = loop {
        let mut chunk = [0; 65536];
        let length = socket.read(&mut chunk).await.unwrap();
        assert_ne!(length, 0, "the stream has ended: {read}");
        read.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        // Chunk sizes are on lines of their own.
        if let Some(line) = read
            .split("\r\n")
            .find(|line| line.starts_with("data: ") && line.ends_with("\n\n"))
        {
            break serde_json::from_str::<Value>(line.strip_prefix("data: ").unwrap()).unwrap();
        }
    };
    assert_eq!(message["missed"], 0);
    assert_eq!(message["entries"][0]["name"], "settings");
    let kinds = message["kinds"].as_array().unwrap();
    assert!(
        kinds
            .iter()
            .any(|kind| kind["name"] == "configmaps" && kind["state"] == "live")
    );
    assert!(
        !kinds.iter().any(|kind| kind["name"] == "secrets"),
        "Secrets are shown only if asked for"
    );
}

#[tokio::test]
async fn an_unreadable_kind_shows_the_reason() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client_as("nobody", &[]).unwrap();
    let kinds = vec![
        cluster
            .client()
            .discover()
            .await
            .unwrap()
            .resource("pods")
            .unwrap()
            .resource
            .clone(),
    ];
    let options = FeedOptions {
        kinds,
        ..Default::default()
    };
    let feed = Feed::new(client, options).await.unwrap();
    let live = feed.live().clone();
    let task = tokio::spawn(feed.run());
    let mut changes = live.changes();
    loop {
        use watchkeeper_view::board::StreamState;
        let state = live.read(|board| board.kinds()[0].state.clone());
        if let StreamState::Failing { reason } = state {
            assert!(
                reason.contains("pods is forbidden: User \"nobody\" cannot watch resource"),
                "{reason}"
            );
            break;
        }
        changes.changed().await.unwrap();
    }
    task.abort();
}
