//! The effect of each injected fault, on HTTP/1.1 and HTTP/2.

use std::time::Duration;

use ::http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_meta::Status;
use watchkeeper_server::{Action, Cut, Flow, Handle, RequestMatch, Rule, Server, Stale, Token, Tokens, Verb};

use crate::client::{Answer, Client};
use crate::lines::{End, Lines};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Http {
    One,
    Two,
}

async fn connected(server: &Handle, http: Http) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    let client = match http {
        Http::One => Client::http1(pipe).await,
        Http::Two => Client::http2(pipe).await,
    };
    client.with_token(server)
}

async fn started() -> (Handle, Client) {
    let server = Server::builder().start().await.unwrap();
    let client = connected(&server, Http::Two).await;
    (server, client)
}

fn map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}

async fn create(client: &mut Client, name: &str) -> Answer {
    client.send(Method::POST, MAPS, &[], &map(name)).await
}

async fn status_of(server: &Handle, name: &str) -> u16 {
    let mut client = connected(server, Http::Two).await;
    client.get(&format!("{MAPS}/{name}")).await.status
}

fn maps(verb: Verb) -> RequestMatch {
    RequestMatch::new(verb, "configmaps")
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

/// Creates a config map over a connection that breaks; returns the received status, if the map exists, and if the
/// connection is usable.
async fn create_over(http: Http, cut: Cut) -> (Option<u16>, bool, bool) {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server, http).await;
    let rule = Rule::new(maps(Verb::Create), Action::Cut(cut));
    server.faults().inject(rule).unwrap();
    let answer = client.try_send(Method::POST, MAPS, &[], &map("a")).await;
    let is_stored = status_of(&server, "a").await == 200;
    let again = client.try_send(Method::GET, MAPS, &[], "").await;
    assert_eq!(server.faults().fired().len(), 1);
    server.shutdown().await;
    (answer.ok().map(|answer| answer.status), is_stored, again.is_ok())
}

#[tokio::test]
async fn a_connection_breaks_at_the_chosen_moment() {
    for http in [Http::One, Http::Two] {
        let nothing = (None, false, false);
        assert_eq!(create_over(http, Cut::BeforeHandling).await, nothing, "{http:?}");
        let stored = (None, true, false);
        assert_eq!(create_over(http, Cut::BeforeAnswer).await, stored, "{http:?}");
        assert_eq!(create_over(http, Cut::WithinAnswer).await, stored, "{http:?}");
        let answered = (Some(201), true, false);
        assert_eq!(create_over(http, Cut::AfterAnswer).await, answered, "{http:?}");
    }
}

#[tokio::test]
async fn half_a_response_is_sent_before_the_cut() {
    use http_body_util::BodyExt as _;
    for http in [Http::One, Http::Two] {
        let server = Server::builder().start().await.unwrap();
        let mut client = connected(&server, http).await;
        let whole = client.get(MAPS).await.body.len();
        let rule = Rule::new(maps(Verb::List), Action::Cut(Cut::WithinAnswer));
        server.faults().inject(rule).unwrap();
        let mut answer = client.try_open(Method::GET, MAPS, &[], "").await.unwrap();
        assert_eq!(answer.headers()["content-length"], whole.to_string().as_str());
        let mut read = 0;
        let end = loop {
            match answer.frame().await {
                Some(Ok(frame)) => read += frame.data_ref().unwrap().len(),
                end => break end,
            }
        };
        assert_eq!(read, whole / 2, "{http:?}");
        assert!(matches!(end, Some(Err(_))), "{http:?}: {end:?}");
        server.shutdown().await;
    }
}

#[tokio::test]
async fn a_watch_ends_with_the_connection_that_is_cut() {
    let (server, mut client) = started().await;
    let mut lines = Lines::open(&mut client, &format!("{MAPS}?watch=1&resourceVersion=1")).await;
    let rule = Rule::new(maps(Verb::Create), Action::Cut(Cut::BeforeAnswer));
    server.faults().inject(rule).unwrap();
    let sent = client.try_send(Method::POST, MAPS, &[], &map("a")).await;
    assert!(sent.is_err());
    loop {
        match lines.next().await {
            Ok(_) => {}
            Err(end) => break assert_eq!(end, End::BrokenOff),
        }
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_follows_the_clock_and_counts_against_the_timeout() {
    let (server, mut client) = started().await;
    let rule = Rule {
        times: Some(2),
        ..Rule::new(maps(Verb::List), Action::Delay(10 * MINUTE / 20))
    };
    server.faults().inject(rule).unwrap();
    let begun = Instant::now();
    assert_eq!(client.get(MAPS).await.status, 200);
    assert_eq!(begun.elapsed(), MINUTE / 2);
    assert_eq!(client.get(&format!("{MAPS}?timeout=5s")).await.status, 504);
    assert_eq!(client.get(MAPS).await.status, 200);
    let fired = server.faults().fired();
    assert_eq!(fired[1].at.seconds - fired[0].at.seconds, 30);
    server.shutdown().await;
}

#[tokio::test]
async fn a_stale_read_shows_old_data_until_the_rule_is_removed() {
    let (server, mut client) = started().await;
    assert_eq!(create(&mut client, "a").await.status, 201);
    let before = client.get(MAPS).await.json();
    assert_eq!(create(&mut client, "b").await.status, 201);
    let stale = |request| Rule::always(request, Action::Stale(Stale::Behind(1)));
    let any = RequestMatch {
        resource: Some("configmaps".to_owned()),
        ..RequestMatch::default()
    };
    let rule = server.faults().inject(stale(any)).unwrap();

    let list = client.get(MAPS).await.json();
    assert_eq!(
        list["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    assert_eq!(names(&list), names(&before));
    assert_eq!(client.get(&format!("{MAPS}/b")).await.status, 404);
    // A watch starts with old data and then catches up.
    let mut lines = Lines::open(&mut client, &format!("{MAPS}?watch=1")).await;
    assert_eq!(lines.event().await, "ADDED a");
    assert_eq!(lines.event().await, "ADDED b");

    assert!(server.faults().remove(rule));
    assert_eq!(names(&client.get(MAPS).await.json()), ["a", "b"]);
    server.shutdown().await;
}

#[tokio::test]
async fn history_can_be_compacted_when_a_watch_resumes() {
    let (server, mut client) = started().await;
    let first = create(&mut client, "a").await.json();
    assert_eq!(create(&mut client, "b").await.status, 201);
    server
        .faults()
        .inject(Rule::new(maps(Verb::Watch), Action::Compact))
        .unwrap();
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{MAPS}?watch=1&resourceVersion={version}");
    let told = Lines::open(&mut client, &path).await.next().await.unwrap();
    assert_eq!(told["object"]["code"], 410, "{told}");
    server.shutdown().await;
}

#[tokio::test]
async fn permission_is_denied_until_the_rule_is_removed() {
    let (alice, masters) = (Token::new("of-alice"), vec!["system:masters".to_owned()]);
    let mut tokens = Tokens::default();
    tokens.add(
        &alice,
        watchkeeper_server::User::authenticated("alice", "", masters),
    );
    let server = Server::builder().tokens(tokens).start().await.unwrap();
    let mut client = connected(&server, Http::Two).await.with_bearer("of-alice");
    let request = RequestMatch {
        user: Some("alice".to_owned()),
        ..maps(Verb::List)
    };
    let rule = server
        .faults()
        .inject(Rule::always(request, Action::Forbid))
        .unwrap();
    let refused = client.get(MAPS).await;
    assert_eq!(refused.status, 403);
    let text = r#"configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!(refused.json()["message"], text);
    // Other users are not affected.
    let mut admin = connected(&server, Http::Two).await;
    assert_eq!(admin.get(MAPS).await.status, 200);
    server.faults().remove(rule);
    assert_eq!(client.get(MAPS).await.status, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn a_read_only_store_rejects_valid_writes() {
    let (server, mut client) = started().await;
    let rule = server
        .faults()
        .inject(Rule::always(RequestMatch::default(), Action::ReadOnly))
        .unwrap();
    let refused = create(&mut client, "a").await;
    assert_eq!(refused.status, 500);
    assert_eq!(
        refused.json()["message"],
        "etcdserver: mvcc: database space exceeded"
    );
    // The store is last: validation errors come first.
    assert_eq!(create(&mut client, "Not A Name").await.status, 422);
    assert_eq!(client.get(MAPS).await.status, 200);
    server.faults().remove(rule);
    assert_eq!(create(&mut client, "a").await.status, 201);
    server.shutdown().await;
}

#[tokio::test]
async fn unreachable_webhooks_follow_their_failure_policy() {
    let (server, mut client) = started().await;
    let configuration = |policy: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": policy.to_lowercase()},
            "webhooks": [{
                "name": "maps.example.com",
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
                }],
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "failurePolicy": policy,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
    };
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let body = configuration("Ignore").to_string();
    let made = client.send(Method::POST, path, &[], &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let down = || Rule::new(maps(Verb::Create), Action::WebhooksDown);
    server.faults().inject(down()).unwrap();
    assert_eq!(create(&mut client, "a").await.status, 201);
    let body = configuration("Fail").to_string();
    client.send(Method::POST, path, &[], &body).await;
    server.faults().inject(down()).unwrap();
    let refused = create(&mut client, "b").await;
    assert_eq!(refused.status, 500);
    let text = refused.text();
    assert!(text.contains("connect: connection refused"), "{text}");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_event_delays_those_after_it() {
    let (server, mut client) = started().await;
    let about_b = RequestMatch {
        name: Some("b".to_owned()),
        ..maps(Verb::Watch)
    };
    let rule = Rule::new(about_b, Action::DelayEvent(MINUTE));
    server.faults().inject(rule).unwrap();
    let mut lines = Lines::open(&mut client, &format!("{MAPS}?watch=1&resourceVersion=1")).await;
    for name in ["a", "b", "c"] {
        assert_eq!(create(&mut client, name).await.status, 201);
    }
    let begun = Instant::now();
    assert_eq!(lines.event().await, "ADDED a");
    assert!(begun.elapsed() < MINUTE);
    assert_eq!(lines.event().await, "ADDED b");
    assert!(begun.elapsed() >= MINUTE);
    assert_eq!(lines.event().await, "ADDED c");
    assert_eq!(server.faults().fired()[0].object, "default/b");
    server.shutdown().await;
}

#[tokio::test]
async fn a_watch_breaks_off_before_its_nth_event() {
    let (server, mut client) = started().await;
    let rule = Rule {
        nth: 3,
        ..Rule::new(maps(Verb::Watch), Action::Flow(Flow::Cut))
    };
    server.faults().inject(rule).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(create(&mut client, name).await.status, 201);
    }
    let path = format!("{MAPS}?watch=1");
    let mut lines = Lines::open(&mut client, &path).await;
    assert_eq!(lines.event().await, "ADDED a");
    assert_eq!(lines.event().await, "ADDED b");
    assert_eq!(lines.next().await, Err(End::BrokenOff));
    // A client that resumes is served.
    let mut lines = Lines::open(&mut client, &path).await;
    for expected in ["ADDED a", "ADDED b", "ADDED c"] {
        assert_eq!(lines.event().await, expected);
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_watch_stalls_before_its_nth_event_and_continues() {
    let (server, mut client) = started().await;
    let rule = Rule {
        nth: 2,
        ..Rule::new(maps(Verb::Watch), Action::Flow(Flow::Stalled))
    };
    server.faults().inject(rule).unwrap();
    let mut lines = Lines::open(&mut client, &format!("{MAPS}?watch=1&resourceVersion=1")).await;
    for name in ["a", "b"] {
        assert_eq!(create(&mut client, name).await.status, 201);
    }
    assert_eq!(lines.event().await, "ADDED a");
    while server.faults().fired().is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::select! {
        biased;
        _ = lines.event() => panic!("it flows"),
        answer = client.get(MAPS) => assert_eq!(answer.status, 200),
    }
    server.faults().set_flow(&maps(Verb::Watch), Flow::Running);
    assert_eq!(lines.event().await, "ADDED b");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_dropped_and_the_next_one_is_sent() {
    let (server, mut client) = started().await;
    let rule = Rule::new(maps(Verb::Watch), Action::WithholdBookmark);
    server.faults().inject(rule).unwrap();
    let query = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut lines = Lines::open(&mut client, &format!("{MAPS}?{query}")).await;
    assert_eq!(create(&mut client, "a").await.status, 201);
    assert_eq!(lines.event().await, "ADDED a");
    let bookmark = lines.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    // The one that ends the initial events was dropped.
    assert!(
        bookmark["object"]["metadata"]["annotations"].is_null(),
        "{bookmark}"
    );
    server.shutdown().await;
}

#[tokio::test]
async fn the_nth_request_of_one_program_fails_and_is_recorded() {
    let (server, mut client) = started().await;
    let operator = RequestMatch {
        user_agent: Some("operator/".to_owned()),
        ..maps(Verb::Get)
    };
    let busy = Status::too_many_requests("slow down", 7);
    let rule = Rule {
        nth: 2,
        ..Rule::new(operator, Action::fail(busy))
    };
    let id = server.faults().inject(rule).unwrap();
    let path = format!("{MAPS}/a");
    let mut answers = Vec::new();
    for agent in ["operator/v1", "kubectl/v1", "operator/v1", "operator/v1"] {
        let answer = client
            .send(Method::GET, &path, &[("user-agent", agent)], "")
            .await;
        answers.push((answer.status, answer.header("retry-after")));
    }
    let none = (404, String::new());
    assert_eq!(answers, [none.clone(), none.clone(), (429, "7".to_owned()), none]);
    let fired = server.faults().fired();
    assert_eq!(fired.len(), 1);
    assert_eq!((fired[0].rule, &*fired[0].path), (Some(id), &*path));
    assert_eq!(fired[0].user, "admin");
    server.shutdown().await;
}
