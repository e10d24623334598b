//! `/metrics`, as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ::http::Method;
use serde_json::json;
use watchkeeper_server::Server;

use crate::client::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A family of samples.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    /// By their names and labels.
    samples: BTreeMap<(String, Labels), f64>,
}

type Labels = BTreeMap<String, String>;

/// Reads the text format, and accepts nothing that is not in its specification.
fn parse(page: &str) -> HashMap<String, Family> {
    let mut families: HashMap<String, Family> = HashMap::new();
    let mut current = String::new();
    assert!(page.ends_with('\n'), "the last line ends");
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').unwrap();
            assert!(!text.is_empty(), "{line}");
            name.clone_into(&mut current);
            let known = families.insert(current.clone(), Family::default());
            assert!(known.is_none(), "{name} stands twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, current, "a type follows its help");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            families.get_mut(&current).unwrap().kind = kind.to_owned();
        } else {
            let (name, labels, value) = sample(line);
            let family = families.get_mut(&current).unwrap();
            let rest = name.strip_prefix(&current).unwrap_or("?");
            match family.kind.as_str() {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&rest), "{line}"),
                _ => assert_eq!(rest, "", "{line}"),
            }
            let known = family.samples.insert((name, labels), value);
            assert!(known.is_none(), "stands twice: {line}");
        }
    }
    families
}

fn sample(line: &str) -> (String, Labels, f64) {
    let (head, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let Some((name, labels)) = head.split_once('{') else {
        return (head.to_owned(), Labels::new(), value);
    };
    let labels = labels.strip_suffix('}').unwrap();
    let mut found = Labels::new();
    let pairs = regex::Regex::new(r#"\A(?:([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|\z))"#).unwrap();
    let mut rest = labels;
    while !rest.is_empty() {
        let pair = pairs.captures(rest).unwrap_or_else(|| panic!("labels: {line}"));
        let known = found.insert(pair[1].to_owned(), pair[2].to_owned());
        assert!(known.is_none(), "a label stands twice: {line}");
        rest = &rest[pair[0].len()..];
    }
    (name.to_owned(), found, value)
}

/// Buckets grow, the last has all, and its count says so.
fn assert_histogram(name: &str, family: &Family) {
    let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for ((sample, labels), value) in &family.samples {
        if sample.ends_with("_bucket") {
            let mut labels = labels.clone();
            let bound = labels.remove("le").unwrap();
            let bound = bound.parse().unwrap();
            series.entry(labels).or_default().push((bound, *value));
        }
    }
    for (labels, mut buckets) in series {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(
            buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1),
            "{name}: {buckets:?}"
        );
        let (bound, all) = *buckets.last().unwrap();
        assert!(bound.is_infinite(), "{name}");
        assert_eq!(
            all,
            family.samples[&(format!("{name}_count"), labels.clone())],
            "{name}"
        );
        assert!(
            family.samples.contains_key(&(format!("{name}_sum"), labels)),
            "{name}"
        );
    }
}

/// The metrics that dashboards use, with kube-apiserver's names and labels.
const EXPECTED: [(&str, &[&str]); 18] = [
    (
        "apiserver_request_total",
        &[
            "code",
            "component",
            "dry_run",
            "group",
            "resource",
            "scope",
            "subresource",
            "verb",
            "version",
        ],
    ),
    (
        "apiserver_request_duration_seconds",
        &[
            "component",
            "dry_run",
            "group",
            "resource",
            "scope",
            "subresource",
            "verb",
            "version",
        ],
    ),
    (
        "apiserver_response_sizes",
        &[
            "component",
            "group",
            "resource",
            "scope",
            "subresource",
            "verb",
            "version",
        ],
    ),
    (
        "apiserver_longrunning_requests",
        &[
            "component",
            "group",
            "resource",
            "scope",
            "subresource",
            "verb",
            "version",
        ],
    ),
    ("apiserver_current_inflight_requests", &["request_kind"]),
    (
        "apiserver_watch_events_total",
        &["group", "kind", "resource", "version"],
    ),
    (
        "apiserver_watch_events_sizes",
        &["group", "kind", "resource", "version"],
    ),
    ("apiserver_storage_objects", &["resource"]),
    ("apiserver_flowcontrol_nominal_limit_seats", &["priority_level"]),
    (
        "apiserver_flowcontrol_current_inqueue_requests",
        &["flow_schema", "priority_level"],
    ),
    (
        "apiserver_flowcontrol_request_wait_duration_seconds",
        &["execute", "flow_schema", "priority_level"],
    ),
    (
        "apiserver_admission_step_admission_duration_seconds",
        &["operation", "rejected", "type"],
    ),
    (
        "apiserver_admission_controller_admission_duration_seconds",
        &["name", "operation", "rejected", "type"],
    ),
    (
        "etcd_request_duration_seconds",
        &["group", "operation", "resource"],
    ),
    (
        "apiserver_flowcontrol_dispatched_requests_total",
        &["flow_schema", "priority_level"],
    ),
    ("process_cpu_seconds_total", &[]),
    ("process_resident_memory_bytes", &[]),
    ("process_open_fds", &[]),
];

#[tokio::test]
async fn metrics_have_the_names_and_labels_of_kube_apiserver() {
    let server = Server::builder().start().await.unwrap();
    let connector = server.connector();
    let mut client = Client::http1(connector.connect().await.unwrap())
        .await
        .with_token(&server);
    let map = |name: &str| json!({"metadata": {"name": name}}).to_string();
    for name in ["a", "b"] {
        let created = client.send(Method::POST, MAPS, &[], &map(name)).await;
        assert_eq!(created.status, 201);
    }
    client
        .send(Method::POST, &format!("{MAPS}?dryRun=All"), &[], &map("c"))
        .await;
    client.get(MAPS).await;
    let nowhere = "/api/v1/namespaces/nowhere/configmaps";
    assert_eq!(
        client.send(Method::POST, nowhere, &[], &map("d")).await.status,
        404
    );
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    let created = client.send(Method::POST, pods, &[], &pod.to_string()).await;
    assert_eq!(created.status, 201, "{}", created.text());
    // Others than the administrator need a seat.
    let somebody = [("impersonate-user", "somebody")];
    assert_eq!(client.send(Method::GET, MAPS, &somebody, "").await.status, 403);
    let mut watching = Client::http2(connector.connect().await.unwrap())
        .await
        .with_token(&server);
    let watch = watching
        .open(Method::GET, &format!("{MAPS}?watch=1"), &[], "")
        .await;

    let page = client.get("/metrics").await;
    assert_eq!(
        page.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let families = parse(&page.text());
    for (name, family) in families.iter().filter(|(_, family)| family.kind == "histogram") {
        assert_histogram(name, family);
    }
    for (name, expected) in EXPECTED {
        if name.starts_with("process_") && !cfg!(target_os = "linux") {
            continue;
        }
        let family = families
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not there"));
        let ((_, labels), _) = family
            .samples
            .iter()
            .next()
            .unwrap_or_else(|| panic!("{name} is empty"));
        let labels: BTreeSet<&str> = labels
            .keys()
            .map(String::as_str)
            .filter(|name| *name != "le")
            .collect();
        assert_eq!(labels, expected.iter().copied().collect(), "{name}");
    }
    let text = page.text();
    for line in [
        "apiserver_storage_objects{resource=\"configmaps\"} 2",
        "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"configmaps\",\
         scope=\"namespace\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1",
        "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"All\",group=\"\",\
         resource=\"configmaps\",scope=\"namespace\",subresource=\"\",verb=\"POST\",version=\"v1\"} 1",
        "etcd_request_duration_seconds_count{group=\"\",operation=\"create\",resource=\"configmaps\"} 2",
        "apiserver_admission_controller_admission_duration_seconds_count{name=\"NamespaceLifecycle\",\
         operation=\"CREATE\",rejected=\"true\",type=\"admit\"} 1",
        "apiserver_admission_controller_admission_duration_seconds_count{name=\"PodSecurity\",\
         operation=\"CREATE\",rejected=\"false\",type=\"validate\"} 1",
        "apiserver_admission_step_admission_duration_seconds_count{operation=\"CREATE\",\
         rejected=\"true\",type=\"admit\"} 1",
        "apiserver_flowcontrol_request_wait_duration_seconds_bucket{execute=\"true\",\
         flow_schema=\"global-default\",priority_level=\"global-default\",le=\"0\"} 1",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} is not in {text}");
    }
    drop(watch);
    server.shutdown().await;
}
