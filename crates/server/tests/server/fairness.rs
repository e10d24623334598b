//! API Priority and Fairness: requests that run, wait or are rejected.

use std::time::Duration;

use ::http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_server::{Action, Handle, RequestMatch, Rule, Server, Verb};

use crate::client::{Answer, Client};

const WAITS: &str = "apiserver_flowcontrol_request_wait_duration_seconds";
const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn client(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

/// A request of a user with full permissions, on its own connection.
pub(crate) async fn get_as(server: &Handle, user: &str, path: &str) -> Answer {
    let who = [("impersonate-user", user), ("impersonate-group", "readers")];
    client(server).await.send(Method::GET, path, &who, "").await
}

pub(crate) async fn create(server: &Handle, path: &str, object: &Value) -> Value {
    let answer = client(server)
        .await
        .send(Method::POST, path, &[], &object.to_string())
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

async fn uid(server: &Handle, path: &str) -> String {
    let object = client(server)
        .await
        .get(&format!("{FLOW_CONTROL}/{path}"))
        .await
        .json();
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

pub(crate) async fn started() -> Handle {
    let server = Server::builder()
        .max_requests_inflight(6)
        .max_mutating_requests_inflight(4);
    let server = server.start().await.unwrap();
    let binding = json!({
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    });
    create(
        &server,
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &binding,
    )
    .await;
    server
}

/// A level with one seat and a queue of this length, for Alice's requests.
pub(crate) async fn narrow(server: &Handle, waiting: u32) {
    let level = json!({
        "metadata": {"name": "narrow"},
        "spec": {"type": "Limited", "limited": {
            // Of ten seats, rounded up, this is one.
            "nominalConcurrencyShares": 1,
            "borrowingLimitPercent": 0,
            "limitResponse": {
                "type": "Queue",
                "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": waiting},
            },
        }},
    });
    create(
        server,
        &format!("{FLOW_CONTROL}/prioritylevelconfigurations"),
        &level,
    )
    .await;
    let schema = json!({
        "metadata": {"name": "alice"},
        "spec": {
            "matchingPrecedence": 10,
            "priorityLevelConfiguration": {"name": "narrow"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "alice"}}],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
                }],
            }],
        },
    });
    create(server, &format!("{FLOW_CONTROL}/flowschemas"), &schema).await;
}

/// Delays all lists of config maps.
fn slow(server: &Handle, seconds: u64) {
    let lists = RequestMatch::new(Verb::List, "configmaps");
    let rule = Rule::new(lists, Action::Delay(Duration::from_secs(seconds)));
    server.faults().inject(Rule { times: None, ..rule }).unwrap();
}

#[tokio::test]
async fn a_response_names_its_flow_schema_and_priority_level() {
    let server = started().await;
    for (user, schema, level) in [
        ("", "exempt", "exempt"),
        ("alice", "global-default", "global-default"),
        ("system:kube-scheduler", "kube-scheduler", "workload-high"),
    ] {
        let answer = match user {
            "" => client(&server).await.get(MAPS).await,
            user => get_as(&server, user, MAPS).await,
        };
        let schema = uid(&server, &format!("flowschemas/{schema}")).await;
        let level = uid(&server, &format!("prioritylevelconfigurations/{level}")).await;
        assert_eq!(answer.header("x-kubernetes-pf-flowschema-uid"), schema, "{user}");
        assert_eq!(
            answer.header("x-kubernetes-pf-prioritylevel-uid"),
            level,
            "{user}"
        );
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_waits_or_is_rejected_without_affecting_others() {
    let server = started().await;
    narrow(&server, 2).await;
    slow(&server, 10);
    let began = Instant::now();
    let alice = async || {
        let answer = get_as(&server, "alice", MAPS).await;
        (answer.status, began.elapsed().as_secs(), answer)
    };
    let others = async || {
        let quiet = "/api/v1/namespaces/default";
        let answers = [
            client(&server).await.get(quiet).await.status,
            get_as(&server, "bob", quiet).await.status,
        ];
        (answers, began.elapsed())
    };
    let (a, b, c, d, (answers, after)) = tokio::join!(alice(), alice(), alice(), alice(), others());
    assert_eq!((answers, after), ([200, 200], Duration::ZERO));
    let mut seen: Vec<_> = [&a, &b, &c, &d].map(|it| (it.1, it.0)).into();
    seen.sort();
    // One runs; one runs after it; one waits for a quarter of its minute; one finds the queue full.
    assert_eq!(seen, [(0, 429), (10, 200), (15, 429), (20, 200)]);
    let rejected = [a, b, c, d].into_iter().find(|it| it.1 == 0).unwrap().2;
    assert_eq!(rejected.text(), "Too many requests, please try again later.\n");
    assert_eq!(rejected.header("retry-after"), "1");
    let schema = uid(&server, "flowschemas/alice").await;
    assert_eq!(rejected.header("x-kubernetes-pf-flowschema-uid"), schema);

    let page = client(&server).await.get("/metrics").await.text();
    let flow = r#"flow_schema="alice",priority_level="narrow""#;
    for line in [
        format!("apiserver_flowcontrol_dispatched_requests_total{{{flow}}} 2"),
        format!("apiserver_flowcontrol_rejected_requests_total{{{flow},reason=\"queue-full\"}} 1"),
        format!("apiserver_flowcontrol_rejected_requests_total{{{flow},reason=\"time-out\"}} 1"),
        format!("apiserver_flowcontrol_current_executing_requests{{{flow}}} 0"),
        format!("apiserver_flowcontrol_current_executing_seats{{{flow}}} 0"),
        format!("apiserver_flowcontrol_current_inqueue_requests{{{flow}}} 0"),
        // Of those that ran, one did so at once.
        format!("{WAITS}_bucket{{execute=\"true\",{flow},le=\"0\"}} 1"),
        format!("{WAITS}_bucket{{execute=\"true\",{flow},le=\"5\"}} 1"),
        format!("{WAITS}_bucket{{execute=\"true\",{flow},le=\"15\"}} 2"),
        format!("{WAITS}_bucket{{execute=\"false\",{flow},le=\"10\"}} 0"),
        format!("{WAITS}_count{{execute=\"false\",{flow}}} 1"),
    ] {
        assert!(page.contains(&format!("{line}\n")), "{line} in {page}");
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_releases_its_seat() {
    let server = started().await;
    narrow(&server, 1).await;
    slow(&server, 10);
    let began = Instant::now();
    let impatient = async {
        let _ = tokio::time::timeout(Duration::from_secs(1), get_as(&server, "alice", MAPS)).await;
    };
    let patient = async {
        tokio::task::yield_now().await;
        get_as(&server, "alice", MAPS).await.status
    };
    let ((), status) = tokio::join!(impatient, patient);
    assert_eq!((status, began.elapsed().as_secs()), (200, 11));
    server.shutdown().await;
}

#[tokio::test]
async fn a_changed_schema_applies_to_the_next_request() {
    let server = started().await;
    narrow(&server, 1).await;
    let told = async || {
        get_as(&server, "alice", MAPS)
            .await
            .header("x-kubernetes-pf-flowschema-uid")
    };
    let own = uid(&server, "flowschemas/alice").await;
    assert_eq!(told().await, own);
    let path = format!("{FLOW_CONTROL}/flowschemas/alice");
    client(&server).await.send(Method::DELETE, &path, &[], "").await;
    assert_eq!(told().await, uid(&server, "flowschemas/global-default").await);
    server.shutdown().await;
}

/// A client that asks again as soon as it may.
async fn be_greedy(server: &Handle) {
    let who = [("impersonate-user", "greedy"), ("impersonate-group", "readers")];
    let mut client = client(server).await;
    loop {
        if client.send(Method::GET, MAPS, &who, "").await.status == 429 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// The time until a user's request was answered with 200.
async fn answered(server: &Handle, user: &str, path: &str) -> Duration {
    let began = Instant::now();
    let answer = match user {
        "" => client(server).await.get(path).await,
        user => get_as(server, user, path).await,
    };
    assert_eq!(answer.status, 200, "{user} {path}: {}", answer.text());
    began.elapsed()
}

/// The same with thousands of clients, in real time: `examples/fairness.rs`.
#[tokio::test(start_paused = true)]
async fn quiet_clients_masters_and_leases_get_through_a_flood() {
    const GREEDY: usize = 100;
    /// A greedy request takes a second, and a quiet one waits for one or two of them.
    const PATIENCE: Duration = Duration::from_secs(3);
    let server = started().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    create(&server, leases, &json!({"metadata": {"name": "l"}, "spec": {}})).await;
    create(&server, MAPS, &json!({"metadata": {"name": "m"}})).await;
    slow(&server, 1);
    let flood = futures_util::future::join_all((0..GREEDY).map(|_| be_greedy(&server)));
    let others = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            let map = format!("{MAPS}/m");
            assert_eq!(answered(&server, "", &map).await, Duration::ZERO);
            let lease = format!("{leases}/l");
            let leader = "system:kube-controller-manager";
            assert_eq!(answered(&server, leader, &lease).await, Duration::ZERO);
            let page = client(&server).await.get("/metrics").await.text();
            let idle =
                "apiserver_flowcontrol_current_inqueue_requests{priority_level=\"global-default\"} 0\n";
            assert!(!page.contains(idle), "there is no flood");
            let waited = answered(&server, "quiet", &map).await;
            assert!(waited <= PATIENCE, "{waited:?}");
        }
    };
    tokio::select! {
        _ = flood => unreachable!("greedy clients never end"),
        () = others => {}
    }
    server.shutdown().await;
}

/// Deleting the mandatory objects locks nobody out.
#[tokio::test]
async fn masters_are_exempt_without_any_schema() {
    let server = started().await;
    for resource in ["flowschemas", "prioritylevelconfigurations"] {
        let path = format!("{FLOW_CONTROL}/{resource}");
        let answer = client(&server).await.send(Method::DELETE, &path, &[], "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(client(&server).await.get(MAPS).await.status, 200);
    assert_eq!(get_as(&server, "alice", MAPS).await.status, 200);
    server.shutdown().await;
}
