//! The web page about a cluster, requested as by a browser.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use watchkeeper_meta::{Resource, Time};
use watchkeeper_recording::{ClusterIdentity, Recording, Rotation, Stream, Writer};
use watchkeeper_runtime::follow::FollowEvent;
use watchkeeper_testing::TestCluster;
use watchkeeper_testing::replay::ReplayOptions;
use watchkeeper_view::Board;
use watchkeeper_view::board::Happening;
use watchkeeper_view::feed::{Feed, FeedOptions, Live};
use watchkeeper_view::recorded::RecordedView;
use watchkeeper_view::web::{Page, PageOptions, Subject};
use watchkeeper_wire::{Object, ObjectOptions};

/// A cluster and its page.
struct Shown {
    cluster: TestCluster,
    live: Arc<Live>,
    host: String,
    /// The login path.
    link: String,
    tasks: JoinSet<()>,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

async fn shown() -> Shown {
    shown_with(false).await
}

async fn shown_with(allow_writes: bool) -> Shown {
    shown_of(FeedOptions::default(), allow_writes).await
}

async fn shown_of(what: FeedOptions, allow_writes: bool) -> Shown {
    let cluster = TestCluster::start().await.unwrap();
    let feed = Feed::new(cluster.client().clone(), what).await.unwrap();
    let live = feed.live().clone();
    let options = PageOptions {
        title: "<test>".to_owned(),
        allow_writes,
        ..Default::default()
    };
    let page = Page::bind(cluster.client().clone(), Subject::Live(live.clone()), options)
        .await
        .unwrap();
    let mut shown = Shown::of(cluster, live, page);
    shown.tasks.spawn(feed.run());
    shown
}

async fn until(live: &Live, wanted: impl Fn(&Board) -> bool) {
    let mut changes = live.changes();
    while !live.read(&wanted) {
        changes.changed().await.unwrap();
    }
}

impl Shown {
    fn of(cluster: TestCluster, live: Arc<Live>, page: Page) -> Self {
        let link = page.link().unwrap();
        let (host, link) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (host, link) = (host.to_owned(), format!("/{link}"));
        let mut tasks = JoinSet::new();
        tasks.spawn(page.serve());
        Self {
            cluster,
            live,
            host,
            link,
            tasks,
        }
    }

    /// Returns once the board is as wanted.
    async fn until(&self, wanted: impl Fn(&Board) -> bool) {
        until(&self.live, wanted).await;
    }

    /// Returns once the object in the tests is on the board.
    async fn until_loaded(&self) {
        let key = watchkeeper_meta::ObjectKey::new("default", "settings");
        self.until(|board| {
            board
                .kind("configmaps")
                .is_some_and(|kind| kind.object(&key).is_some())
        })
        .await;
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

    /// Sends JSON as a script of the page does.
    async fn post(&self, path: &str, cookie: &str, body: &Value) -> Answer {
        let headers = format!(
            "{cookie}origin: http://{}\r\ncontent-type: application/json\r\n",
            self.host
        );
        self.post_with(path, &headers, &body.to_string()).await
    }

    async fn post_with(&self, path: &str, headers: &str, body: &str) -> Answer {
        self.raw(&format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        ))
        .await
    }

    /// The YAML and the uid of the object in the tests, as the page shows them.
    async fn settings(&self, cookie: &str) -> (String, String) {
        let object = self.json(SETTINGS, cookie).await;
        let text = |name: &str| object[name].as_str().unwrap().to_owned();
        (text("yaml"), text("uid"))
    }

    /// Opens the page; returns the header that says so.
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

const SETTINGS: &str = "/api/object?kind=configmaps&namespace=default&name=settings";
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
    assert_eq!(shown.raw(&write).await.status, 403);
    let put = write.replace("POST", "PUT");
    assert_eq!(shown.raw(&put).await.status, 405);
}

#[tokio::test]
async fn a_table_has_only_the_selected_objects() {
    let what = FeedOptions {
        namespace: Some("default".to_owned()),
        labels: "app=shop".parse().unwrap(),
        ..Default::default()
    };
    let shown = shown_of(what, false).await;
    shown.cluster.load(MAP).await.unwrap();
    for names in ["name: ours", "name: theirs, namespace: kube-system"] {
        let labelled = MAP.replace("name: settings", &format!("{names}, labels: {{app: shop}}"));
        shown.cluster.load(&labelled).await.unwrap();
    }
    let cookie = shown.open().await;
    let table = loop {
        let table = shown.json("/api/table?kind=configmaps&limit=10", &cookie).await;
        if table["synced"] == true {
            break table;
        }
        tokio::task::yield_now().await;
    };
    let names: Vec<_> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert_eq!(names, ["ours"]);
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

/// Server-sent events, as a browser reads them.
struct Messages {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Messages {
    async fn next(&mut self) -> Value {
        loop {
            // Chunk sizes are on lines of their own.
            let text = String::from_utf8_lossy(&self.read).into_owned();
            let whole = text
                .split_once("data: ")
                .and_then(|(_, rest)| rest.split_once("\n\n"));
            if let Some((message, rest)) = whole {
                self.read = rest.as_bytes().to_vec();
                return serde_json::from_str(message).unwrap();
            }
            assert_ne!(
                self.socket.read_buf(&mut self.read).await.unwrap(),
                0,
                "the end: {text}"
            );
        }
    }
}

#[tokio::test]
async fn a_browser_that_stalls_is_told_what_it_missed() {
    let shown = shown().await;
    shown.until_synced().await;
    let cookie = shown.open().await;
    let pods = shown.live.read(|board| {
        let pods = board.kinds().iter().position(|kind| &*kind.name == "pods");
        pods.unwrap()
    });
    let happen = |count: u64| {
        shown.live.update(|board| {
            (0..count).for_each(|_| board.remark(pods, "odd", jiff::Timestamp::UNIX_EPOCH));
            board.next_sequence()
        })
    };
    let all = happen(6_000);
    let socket = shown.connect("/api/stream?after=0", &cookie).await;
    let mut messages = Messages {
        socket,
        read: Vec::new(),
    };
    let first = messages.next().await;
    assert_eq!(
        first["entries"].as_array().unwrap().len(),
        5_000,
        "what a page keeps"
    );
    assert_eq!(first["missed"], all - 5_000);

    let all = happen(1_200);
    let second = loop {
        let message = messages.next().await;
        if message["next"] == all {
            break message;
        }
    };
    assert_eq!(second["entries"].as_array().unwrap().len(), 500);
    assert_eq!(second["missed"], 700);
}

#[tokio::test]
async fn the_event_stream_delivers_changes() {
    let shown = shown().await;
    shown.until_synced().await;
    let cookie = shown.open().await;
    shown.cluster.load(MAP).await.unwrap();
    shown.until(|board| board.next_sequence() >= 1).await;
    let socket = shown.connect("/api/stream?after=0", &cookie).await;
    let message = Messages {
        socket,
        read: Vec::new(),
    }
    .next()
    .await;
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

const BOATS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  names: {plural: boats, singular: boat, kind: Boat}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";

#[tokio::test(start_paused = true)]
async fn kinds_that_come_are_shown_and_kinds_that_go_say_so() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client().clone();
    let feed = Feed::new(client.clone(), FeedOptions::default()).await.unwrap();
    let live = feed.live().clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(feed.run());
    cluster.load(BOATS).await.unwrap();
    let boat = "{apiVersion: example.com/v1, kind: Boat, metadata: {name: ark}}";
    cluster.load(boat).await.unwrap();
    let has_boat = |board: &Board| {
        let boats = board.kind("boats.example.com");
        boats.is_some_and(|boats| boats.count() == 1)
    };
    until(&live, has_boat).await;
    let definitions = Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    let deleted = client.dynamic(definitions).delete("boats.example.com").await;
    deleted.unwrap();
    let is_told = |board: &Board| {
        let log = board.unseen(0, usize::MAX).entries;
        let mut reasons = log.iter().filter_map(|entry| match &entry.what {
            Happening::Failed { reason } => Some(reason.as_str()),
            _ => None,
        });
        reasons.any(|reason| reason == "the server no longer has this kind")
    };
    until(&live, is_told).await;
    let count = live.read(|board| board.kind("boats.example.com").unwrap().count());
    assert_eq!(count, 0);
}

/// A change of the object in the tests.
fn change(action: Value) -> Value {
    let mut change = json!({"kind": "configmaps", "namespace": "default", "name": "settings"});
    for (name, value) in action.as_object().unwrap() {
        change[name] = value.clone();
    }
    change
}

async fn colour(cluster: &TestCluster) -> Option<Value> {
    let maps = Resource::namespaced("", "v1", "ConfigMap", "configmaps");
    let api = cluster.client().dynamic(maps).namespace("default");
    let found = api.find("settings").await.unwrap()?;
    Some(found.to_value().unwrap()["data"]["colour"].clone())
}

#[tokio::test]
async fn a_page_that_was_not_started_for_it_writes_nothing() {
    let shown = shown().await;
    let cookie = shown.open().await;
    shown.cluster.load(MAP).await.unwrap();
    shown.until_loaded().await;
    let (yaml, uid) = shown.settings(&cookie).await;
    for action in [
        json!({"action": "delete", "uid": uid}),
        json!({"action": "edit", "old": yaml, "new": yaml.replace("blue", "red")}),
    ] {
        let answer = shown.post("/api/write", &cookie, &change(action)).await;
        assert_eq!(answer.status, 403);
        assert!(answer.body.contains("--allow-writes"), "{}", answer.body);
    }
    assert_eq!(colour(&shown.cluster).await, Some(json!("blue")));
    assert!(
        shown
            .get("/", &cookie)
            .await
            .body
            .contains("data-writes=\"false\"")
    );
}

#[tokio::test]
async fn only_the_page_itself_writes_and_what_changed_meanwhile_is_a_conflict() {
    let shown = shown_with(true).await;
    let cookie = shown.open().await;
    shown.cluster.load(MAP).await.unwrap();
    shown.until_loaded().await;
    let (yaml, uid) = shown.settings(&cookie).await;
    let edit = change(json!({"action": "edit", "old": yaml, "new": yaml.replace("blue", "red")}));

    let json_type = "content-type: application/json\r\n";
    let ours = format!("origin: http://{}\r\n", shown.host);
    for (headers, status) in [
        (format!("{ours}{json_type}"), 401),
        (format!("{cookie}{json_type}"), 403),
        (format!("{cookie}origin: http://evil.example\r\n{json_type}"), 403),
        (format!("{cookie}{ours}content-type: text/plain\r\n"), 403),
    ] {
        let answer = shown.post_with("/api/write", &headers, &edit.to_string()).await;
        assert_eq!(answer.status, status, "{headers}");
    }
    assert_eq!(colour(&shown.cluster).await, Some(json!("blue")));

    let answer = shown.post("/api/write", &cookie, &edit).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(colour(&shown.cluster).await, Some(json!("red")));
    let again = shown.post("/api/write", &cookie, &edit).await;
    assert_eq!(again.status, 409, "the version that was edited is not the newest");
    assert!(
        again.body.contains("the object has been modified"),
        "{}",
        again.body
    );

    let other = change(json!({"action": "delete", "uid": "another"}));
    assert_eq!(shown.post("/api/write", &cookie, &other).await.status, 409);
    let delete = change(json!({"action": "delete", "uid": uid}));
    assert_eq!(shown.post("/api/write", &cookie, &delete).await.status, 200);
    assert_eq!(colour(&shown.cluster).await, None);
    let unknown = change(json!({"action": "explode"}));
    assert_eq!(shown.post("/api/write", &cookie, &unknown).await.status, 400);
}

#[tokio::test]
async fn a_recording_is_shown_as_of_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("maps.rec");
    record_colours(&path);
    let cluster = TestCluster::replay(
        &path,
        ReplayOptions {
            paused: false,
            ..Default::default()
        },
    )
    .await
    .unwrap();
    let recorded = Arc::new(RecordedView::open(Recording::open(&path).unwrap()).unwrap());
    let page = Page::bind(
        cluster.client().clone(),
        Subject::Recorded(recorded.clone()),
        PageOptions::titled("maps.rec"),
    );
    let shown = Shown::of(cluster, recorded.live().clone(), page.await.unwrap());
    let cookie = shown.open().await;
    let yaml = shown.settings(&cookie).await.0;
    assert!(yaml.contains("colour: green"), "the end is shown first: {yaml}");

    for (step, colour, changes) in [(-1, "red", 2), (-1, "blue", 1), (-1, "blue", 1), (2, "green", 3)] {
        let gone = shown.post("/api/go", &cookie, &json!({"step": step})).await;
        assert_eq!(gone.status, 200, "{}", gone.body);
        let span: Value = serde_json::from_str(&gone.body).unwrap();
        assert_eq!(
            (&span["changes"], &span["all"]),
            (&json!(changes), &json!(3)),
            "{span}"
        );
        let object = shown.json(SETTINGS, &cookie).await;
        let yaml = object["yaml"].as_str().unwrap();
        assert!(yaml.contains(&format!("colour: {colour}")), "{yaml}");
        let version = recorded.revision().to_string();
        assert!(yaml.contains(&version), "version {version} in {yaml}");
        assert_eq!(object["history"].as_array().unwrap().len() as u64, changes - 1);
        // The Table is of the same moment.
        let table = loop {
            let table = shown
                .json("/api/table?kind=configmaps&limit=10&filter=settings", &cookie)
                .await;
            if table["synced"] == true || table["failure"].is_string() {
                break table;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(table["total"], 1, "{table}");
    }
    let nonsense = shown.post("/api/go", &cookie, &json!({"tomorrow": 1})).await;
    assert_eq!(nonsense.status, 400);
}

/// A recording of a config map that is blue, red and green, a second each.
fn record_colours(path: &std::path::Path) {
    let at = |second: i64| Time::from_seconds(1_800_000_000 + second);
    let maps = Resource::namespaced("", "v1", "ConfigMap", "configmaps");
    let stream = Arc::new(Stream::new(maps, "", "", ""));
    let map = |colour: &str, version: u64| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "default", "uid": "u-1",
                "resourceVersion": version.to_string(), "creationTimestamp": "2027-01-15T08:00:00Z"},
            "data": {"colour": colour},
        });
        Object::from_json(map.to_string().as_bytes(), &ObjectOptions::default()).unwrap()
    };
    let cluster = ClusterIdentity::default();
    let mut writer = Writer::open(path, &cluster, &[], Rotation::default(), at(0)).unwrap();
    writer.begin(at(0), &stream).unwrap();
    for (second, event) in [
        (0, FollowEvent::Added(map("blue", 1001))),
        (0, FollowEvent::Synced(1001.into())),
        (1, FollowEvent::Modified(map("red", 1002))),
        (2, FollowEvent::Modified(map("green", 1003))),
    ] {
        writer.event(at(second), &stream.name, &event).unwrap();
    }
    writer.sync().unwrap();
}
