//! Tables: ages in those of a watch, the default class in that of a list.

use std::time::Duration;

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::{Handle, Server};

use crate::client::Client;
use crate::lines::Lines;

const TABLE: [(&str, &str); 1] = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server whose clock the test moves.
struct World {
    server: Handle,
    client: Client,
}

/// A watch of Tables.
struct Rows {
    lines: Lines,
    /// The columns, which come with the first event.
    columns: Vec<String>,
}

impl World {
    async fn new() -> Self {
        let server = Server::builder().start().await.unwrap();
        let pipe = server.connector().connect().await.unwrap();
        let client = Client::http2(pipe).await.with_token(&server);
        Self { server, client }
    }

    async fn send(&mut self, method: Method, path: &str, body: &Value) {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let headers = [("content-type", kind)];
        let answer = self.client.send(method, path, &headers, &body.to_string()).await;
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
    }

    /// Creates `a`, then writes its status, which a create ignores.
    async fn create(&mut self, path: &str, mut object: Value) {
        object["metadata"] = json!({"name": "a"});
        self.send(Method::POST, path, &object).await;
        if let Some(status) = object.get("status") {
            let status = json!({ "status": status });
            self.send(Method::PATCH, &format!("{path}/a/status"), &status)
                .await;
        }
    }

    async fn touch(&mut self, path: &str, name: &str) {
        let patch = json!({"metadata": {"labels": {"touched": "yes"}}});
        self.send(Method::PATCH, &format!("{path}/{name}"), &patch).await;
    }

    async fn rows(&mut self, path: &str) -> Rows {
        let path = format!("{path}?watch=1");
        let lines = Lines::try_open_with(&mut self.client, &path, &TABLE).await;
        Rows {
            lines: lines.unwrap(),
            columns: Vec::new(),
        }
    }

    /// The time of the server's clock.
    fn now(&self) -> String {
        self.server.registry().clock().now().to_rfc3339()
    }
}

impl Rows {
    /// `ADDED a 5m`: the event type, the name, and a column of its row.
    async fn next(&mut self, column: &str) -> String {
        let event = self.lines.next().await.unwrap();
        let table = &event["object"];
        if let Some(columns) = table["columnDefinitions"].as_array() {
            let name = |column: &Value| column["name"].as_str().unwrap().to_owned();
            self.columns = columns.iter().map(name).collect();
        }
        let index = self.columns.iter().position(|name| name == column);
        let row = &table["rows"][0];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!(
            "{} {} {}",
            word(&event["type"]),
            word(&row["object"]["metadata"]["name"]),
            word(&row["cells"][index.unwrap()])
        )
    }
}

async fn minutes_pass(minutes: u64) {
    tokio::time::advance(Duration::from_secs(60 * minutes)).await;
}

#[tokio::test(start_paused = true)]
async fn ages_in_a_table_watch_are_those_at_the_time_of_sending() {
    let mut world = World::new().await;
    let config_map = |name: &str| json!({"metadata": {"name": name}});
    world.send(Method::POST, CONFIG_MAPS, &config_map("old")).await;
    let mut first = world.rows(CONFIG_MAPS).await;
    assert_eq!(first.next("Age").await, "ADDED old 0s");
    minutes_pass(5).await;
    // The second watch shares the events of the first, but each prints ages at its own time.
    let mut second = world.rows(CONFIG_MAPS).await;
    assert_eq!(second.next("Age").await, "ADDED old 5m");
    world.send(Method::POST, CONFIG_MAPS, &config_map("new")).await;
    world.touch(CONFIG_MAPS, "old").await;
    for rows in [&mut first, &mut second] {
        assert_eq!(rows.next("Age").await, "ADDED new 0s");
        assert_eq!(rows.next("Age").await, "MODIFIED old 5m");
    }
    minutes_pass(15).await;
    let path = format!("{CONFIG_MAPS}/old");
    world.send(Method::DELETE, &path, &json!({})).await;
    for rows in [&mut first, &mut second] {
        assert_eq!(rows.next("Age").await, "DELETED old 20m");
    }
    world.server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn all_relative_times_in_a_table_watch_are_those_at_the_time_of_sending() {
    let mut world = World::new().await;
    world.send(Method::POST, DEFINITIONS, &shift_definition()).await;
    let now = world.now();
    let job = json!({"spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}},
    }});
    let mut started = job.clone();
    started["status"] = json!({ "startTime": now });
    let scheduled = json!({
        "spec": {"schedule": "@daily", "jobTemplate": job},
        "status": {"lastScheduleTime": now},
    });
    let event = json!({
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"},
        "firstTimestamp": now, "lastTimestamp": now,
    });
    let shift = json!({"apiVersion": "example.com/v1", "kind": "Shift", "spec": {"began": now}});
    let cases = [
        ("/apis/batch/v1/namespaces/default/jobs", "Duration", started),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            "Last Schedule",
            scheduled,
        ),
        ("/api/v1/namespaces/default/events", "Last Seen", event),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            "Age",
            json!({}),
        ),
        (SHIFTS, "Began", shift),
    ];
    let mut watches = Vec::new();
    for (path, column, object) in cases {
        world.create(path, object).await;
        let mut rows = world.rows(path).await;
        assert_eq!(rows.next(column).await, "ADDED a 0s", "{column}");
        watches.push((path, column, rows));
    }
    minutes_pass(5).await;
    for (path, column, mut rows) in watches {
        world.touch(path, "a").await;
        assert_eq!(rows.next(column).await, "MODIFIED a 5m", "{column}");
    }
    world.server.shutdown().await;
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SHIFTS: &str = "/apis/example.com/v1/namespaces/default/shifts";

/// A custom kind with a relative time column.
fn shift_definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"began": {"type": "string", "format": "date-time"}}},
    }});
    json!({
        "metadata": {"name": "shifts.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "shifts", "kind": "Shift"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"name": "Began", "type": "date", "jsonPath": ".spec.began"}],
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// The first cells of a list's Table, or of an object's.
async fn first_cells(client: &mut Client, path: &str) -> Vec<Value> {
    let answer = client.send(Method::GET, path, &TABLE, "").await;
    let table = answer.json();
    let rows = table["rows"].as_array().unwrap().iter();
    rows.map(|row| row["cells"][0].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_of_storage_classes_marks_the_newest_default() {
    const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
    let mut world = World::new().await;
    for (name, is_default) in [("old", "true"), ("new", "true"), ("other", "false")] {
        let marks = json!({"storageclass.kubernetes.io/is-default-class": is_default});
        let class =
            json!({"metadata": {"name": name, "annotations": marks}, "provisioner": "example.com/disk"});
        world.send(Method::POST, CLASSES, &class).await;
        minutes_pass(1).await;
    }
    let all = first_cells(&mut world.client, CLASSES).await;
    assert_eq!(json!(all), json!(["new (default)", "old", "other"]));
    // One class alone does not tell whether it is the effective default.
    let one = first_cells(&mut world.client, &format!("{CLASSES}/new")).await;
    assert_eq!(json!(one), json!(["new"]));
    world.server.shutdown().await;
}
