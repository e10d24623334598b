//! Admission webhooks: the writes they see, their decisions, and their failures.

mod audit;
mod conversions;
mod endpoint;
mod mutations;
mod races;
mod writers;

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::{Handle, Server};

use self::endpoint::{Endpoint, Reply};
use crate::client::{Answer, Client};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// A server, and a client of it.
struct Cluster {
    server: Handle,
    client: Client,
}

impl Cluster {
    async fn start() -> Self {
        Self::of(Server::builder().start().await.unwrap()).await
    }

    async fn of(server: Handle) -> Self {
        let client = connected(&server).await;
        Self { server, client }
    }

    async fn create(&mut self, path: &str, object: Value) -> Value {
        let created = self.post(path, object).await;
        assert_eq!(created.status, 201, "{}", created.text());
        created.json()
    }

    async fn post(&mut self, path: &str, object: Value) -> Answer {
        self.client
            .send(Method::POST, path, &[], &object.to_string())
            .await
    }

    async fn patch(&mut self, path: &str, patch: Value) -> Answer {
        self.client
            .send(Method::PATCH, path, &[MERGE], &patch.to_string())
            .await
    }

    async fn delete(&mut self, path: &str) -> Answer {
        self.client.send(Method::DELETE, path, &[], "").await
    }
}

async fn connected(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

/// A configuration of one webhook about config maps, with these additional parts.
fn configuration(name: &str, endpoint: &Endpoint, parts: Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.com"),
        "clientConfig": endpoint.client_config(),
        "rules": [rule("*", "configmaps")],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (name, value) in parts.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    json!({"metadata": {"name": name}, "webhooks": [webhook]})
}

/// A rule about resources of all groups.
fn rule(operation: &str, resource: &str) -> Value {
    json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": [operation], "resources": [resource]})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"colour": "blue"}})
}

#[tokio::test]
async fn calls_are_timed_under_the_names_of_kube_apiserver() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let refusing = Endpoint::start(|_| Reply::Response(json!({"allowed": false}))).await;
    let mut cluster = Cluster::start().await;
    cluster
        .create(MUTATING, configuration("a", &endpoint, json!({})))
        .await;
    cluster
        .create(VALIDATING, configuration("b", &refusing, json!({})))
        .await;
    assert_eq!(cluster.post(MAPS, map("one")).await.status, 400);
    let page = cluster.client.get("/metrics").await.text();
    for (family, name, rejected, step) in [
        ("webhook", "a.example.com", false, "admit"),
        ("webhook", "b.example.com", true, "validating"),
        ("controller", "MutatingAdmissionWebhook", false, "admit"),
        ("controller", "ValidatingAdmissionWebhook", true, "validate"),
    ] {
        let line = format!(
            "apiserver_admission_{family}_admission_duration_seconds_count{{name=\"{name}\",operation=\"CREATE\",\
             rejected=\"{rejected}\",type=\"{step}\"}} 1\n"
        );
        assert!(page.contains(&line), "{line} is not in {page}");
    }
}

#[tokio::test]
async fn a_review_has_operation_object_and_user() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    cluster
        .create(VALIDATING, configuration("a", &endpoint, json!({})))
        .await;
    let created = cluster
        .create(&format!("{MAPS}?fieldManager=me"), map("one"))
        .await;
    let path = format!("{MAPS}/one");
    let changed = cluster
        .patch(&path, json!({"data": {"colour": "red"}}))
        .await
        .json();
    assert_eq!(cluster.delete(&path).await.status, 200);

    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let user =
        json!({"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]});
    let expected = |operation: &str, object: &Value, old: &Value, options: Value| {
        json!({
            "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": "one", "namespace": "default", "operation": operation, "userInfo": user,
            "object": object, "oldObject": old, "dryRun": false, "options": options,
        })
    };
    // An object that is not stored yet has no version.
    let unstored = |object: &Value, version: Option<&Value>| {
        let mut object = object.clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        if let Some(version) = version {
            metadata.insert("resourceVersion".to_owned(), version.clone());
        }
        object
    };
    let meta = "meta.k8s.io/v1";
    let version = &created["metadata"]["resourceVersion"];
    let mut seen = endpoint.take_seen();
    for request in &mut seen {
        let uid = request.as_object_mut().unwrap().remove("uid");
        assert_eq!(uid.unwrap().as_str().unwrap().len(), 36);
    }
    assert_eq!(
        seen,
        [
            expected(
                "CREATE",
                &unstored(&created, None),
                &Value::Null,
                json!({"kind": "CreateOptions", "apiVersion": meta, "fieldManager": "me"})
            ),
            expected(
                "UPDATE",
                &unstored(&changed, Some(version)),
                &created,
                json!({"kind": "UpdateOptions", "apiVersion": meta})
            ),
            expected(
                "DELETE",
                &Value::Null,
                &changed,
                json!({"kind": "DeleteOptions", "apiVersion": meta})
            ),
        ]
    );
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_denial_has_the_message_of_the_webhook() {
    let check = async |status: Value, code: u16, reason: Option<&str>, message: &str| {
        let response = json!({"allowed": false, "status": status, "warnings": ["mind the gap"]});
        let endpoint = Endpoint::start(move |_| Reply::Response(response.clone())).await;
        let mut cluster = Cluster::start().await;
        cluster
            .create(VALIDATING, configuration("a", &endpoint, json!({})))
            .await;
        let answer = cluster.post(MAPS, map("one")).await;
        assert_eq!(answer.header("warning"), "299 - \"mind the gap\"");
        let mut expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
            "message": format!("admission webhook \"a.example.com\" denied the request{message}"),
        });
        if let Some(reason) = reason {
            expected["reason"] = json!(reason);
        }
        assert_eq!((answer.status, answer.json()), (code, expected));
        let found = cluster.client.get(&format!("{MAPS}/one")).await;
        assert_eq!(found.status, 404, "it was stored nevertheless");
        cluster.server.shutdown().await;
    };
    check(
        json!({"message": "too blue", "code": 403, "reason": "Forbidden"}),
        403,
        Some("Forbidden"),
        ": too blue",
    )
    .await;
    check(
        json!({"reason": "Conflict", "code": 409}),
        409,
        Some("Conflict"),
        ": Conflict",
    )
    .await;
    check(json!({"code": 200}), 400, None, " without explanation").await;
    check(Value::Null, 400, None, " without explanation").await;
}

#[tokio::test]
async fn a_failing_webhook_follows_its_failure_policy() {
    let check = async |reply: fn(&Value) -> Reply, expected: &str| {
        let endpoint = Endpoint::start(reply).await;
        let mut cluster = Cluster::start().await;
        cluster
            .create(VALIDATING, configuration("a", &endpoint, json!({})))
            .await;
        let answer = cluster.post(MAPS, map("one")).await;
        let status = answer.json();
        let message = status["message"].as_str().unwrap();
        let url = format!("Post \"https://127.0.0.1:{}/hook?timeout=10s\"", endpoint.port());
        let why = format!(
            "failed calling webhook \"a.example.com\": {}",
            expected.replace("{post}", &url)
        );
        let message = match expected.contains("{uid}") {
            false => message.to_owned(),
            true => {
                let uid = endpoint.take_seen()[0]["uid"].as_str().unwrap().to_owned();
                message.replace(&uid, "{uid}")
            }
        };
        assert_eq!(message, format!("Internal error occurred: {why}"));
        assert_eq!((answer.status, &status["reason"]), (500, &json!("InternalError")));

        let open = json!({"webhooks": configuration("a", &endpoint, json!({"failurePolicy": "Ignore"}))["webhooks"]});
        let patched = cluster.patch(&format!("{VALIDATING}/a"), open).await;
        assert_eq!(patched.status, 200, "{}", patched.text());
        cluster.create(MAPS, map("one")).await;
        cluster.server.shutdown().await;
    };
    check(|_| Reply::Close, "failed to call webhook: {post}: EOF").await;
    check(
        |_| Reply::Raw(200, "<html>".to_owned()),
        "failed to call webhook: the answer cannot be read: expected value at line 1 column 1",
    )
    .await;
    check(
        |_| Reply::Raw(200, "{}".to_owned()),
        "received invalid webhook response: webhook response was absent",
    )
    .await;
    check(
        |_| Reply::Raw(500, "out of order".to_owned()),
        "failed to call webhook: an error on the server (\"out of order\") has prevented the request from succeeding",
    )
    .await;
    check(
        |_| Reply::Raw(404, "not here".to_owned()),
        "failed to call webhook: the server could not find the requested resource",
    )
    .await;
    check(
        |_| Reply::Raw(200, " ".repeat(5 * 1024 * 1024)),
        "failed to call webhook: {post}: the answer has more than 4194304 bytes",
    )
    .await;
    check(
        |_| Reply::Response(json!({"uid": "another", "allowed": true})),
        "received invalid webhook response: expected response.uid=\"{uid}\", got \"another\"",
    )
    .await;
    check(
        |_| Reply::patch(&json!([])),
        "received invalid webhook response: validating webhook may not return response.patch",
    )
    .await;
}

/// Time moves only while all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_webhook_has_its_own_timeout() {
    let endpoint = Endpoint::start(|_| Reply::Silence).await;
    let mut cluster = Cluster::start().await;
    cluster
        .create(
            VALIDATING,
            configuration("a", &endpoint, json!({"timeoutSeconds": 3})),
        )
        .await;
    let answer = cluster.post(MAPS, map("one")).await;
    assert_eq!(
        answer.json()["message"],
        format!(
            "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: Post \
             \"https://127.0.0.1:{}/hook?timeout=3s\": context deadline exceeded",
            endpoint.port()
        )
    );
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn an_untrusted_or_unreachable_webhook_is_an_error() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let stranger = Endpoint::start(|_| Reply::allow()).await;
    let bundle = |endpoint: &Endpoint| endpoint.client_config()["caBundle"].clone();
    let port = endpoint.port();
    let gone = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let check = async |client: Value, expected: &str| {
        let mut cluster = Cluster::start().await;
        cluster
            .create(
                VALIDATING,
                configuration("a", &endpoint, json!({"clientConfig": client})),
            )
            .await;
        let message = cluster.post(MAPS, map("one")).await.json()["message"].clone();
        let within =
            "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: ";
        assert_eq!(message.as_str().unwrap().strip_prefix(within), Some(expected));
        cluster.server.shutdown().await;
    };
    let post = |port: u16| format!("Post \"https://127.0.0.1:{port}/?timeout=10s\": ");
    check(
        json!({"url": format!("https://127.0.0.1:{port}/"), "caBundle": bundle(&stranger)}),
        &(post(port) + "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
    )
    .await;
    check(
        json!({"url": format!("https://127.0.0.1:{gone}/"), "caBundle": bundle(&endpoint)}),
        &format!(
            "{}dial tcp 127.0.0.1:{gone}: connect: connection refused",
            post(gone)
        ),
    )
    .await;
    check(
        json!({"url": format!("https://127.0.0.1:{port}/"), "caBundle": "bm9uZQ=="}),
        "unable to load root certificates: unable to parse bytes as PEM block",
    )
    .await;
    check(
        json!({"service": {"namespace": "default", "name": "nobody", "path": "/x"}, "caBundle": bundle(&endpoint)}),
        "Post \"https://nobody.default.svc:443/x?timeout=10s\": service \"nobody\" not found",
    )
    .await;
    check(
        json!({"service": {"namespace": "default", "name": "kubernetes", "port": 1}, "caBundle": bundle(&endpoint)}),
        "Post \"https://kubernetes.default.svc:1/?timeout=10s\": no service port 1 found for service \"kubernetes\"",
    )
    .await;
    assert!(endpoint.take_seen().is_empty());
}

#[tokio::test]
async fn a_webhook_behind_a_service_is_reached_at_its_endpoints() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    let service =
        json!({"metadata": {"name": "hooks"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    cluster
        .create("/api/v1/namespaces/default/services", service)
        .await;
    let client = endpoint.service_config("hooks", "/deep/hook");
    let parts = json!({"clientConfig": client});
    cluster
        .create(VALIDATING, configuration("a", &endpoint, parts))
        .await;
    cluster.create(MAPS, map("one")).await;
    assert_eq!(endpoint.take_seen().len(), 1);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn webhooks_are_called_for_matching_writes() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    let labels = json!({"team": "a"});
    let namespace = json!({"metadata": {"name": "team-a", "labels": labels}});
    cluster.create("/api/v1/namespaces", namespace).await;
    let mut check = async |parts: Value, path: &str, is_asked: bool| {
        cluster
            .create(VALIDATING, configuration("a", &endpoint, parts.clone()))
            .await;
        endpoint.take_seen();
        let mut object = map("one");
        object["metadata"]["labels"] = json!({"size": "small"});
        if path.ends_with("/namespaces") {
            object = json!({"metadata": {"name": "one", "labels": {"team": "b"}}});
        }
        cluster.create(&format!("{path}?dryRun=All"), object).await;
        assert_eq!(
            endpoint.take_seen().len(),
            usize::from(is_asked),
            "{parts} {path}"
        );
        assert_eq!(cluster.delete(&format!("{VALIDATING}/a")).await.status, 200);
    };
    let selector = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    let in_team = "/api/v1/namespaces/team-a/configmaps";
    let namespaces = "/api/v1/namespaces";
    check(json!({"rules": []}), MAPS, false).await;
    check(json!({"rules": [rule("UPDATE", "configmaps")]}), MAPS, false).await;
    check(json!({"rules": [rule("CREATE", "secrets")]}), MAPS, false).await;
    check(
        json!({"rules": [rule("CREATE", "configmaps/status")]}),
        MAPS,
        false,
    )
    .await;
    check(json!({"rules": [rule("CREATE", "*/*")]}), MAPS, true).await;
    check(
        json!({"rules": [rule("CREATE", "secrets"), rule("CREATE", "*")]}),
        MAPS,
        true,
    )
    .await;
    let mut cluster_wide = rule("CREATE", "*");
    cluster_wide["scope"] = json!("Cluster");
    check(json!({"rules": [cluster_wide]}), MAPS, false).await;
    check(json!({"rules": [cluster_wide]}), namespaces, true).await;
    check(json!({"namespaceSelector": selector("team", "a")}), in_team, true).await;
    check(json!({"namespaceSelector": selector("team", "a")}), MAPS, false).await;
    let all = json!([rule("CREATE", "*")]);
    check(
        json!({"rules": all, "namespaceSelector": selector("team", "a")}),
        namespaces,
        false,
    )
    .await;
    check(
        json!({"rules": all, "namespaceSelector": selector("team", "b")}),
        namespaces,
        true,
    )
    .await;
    check(json!({"objectSelector": selector("size", "small")}), MAPS, true).await;
    check(json!({"objectSelector": selector("size", "large")}), MAPS, false).await;
    check(condition("object.data.colour == 'blue'"), MAPS, true).await;
    check(condition("request.userInfo.username == 'nobody'"), MAPS, false).await;
}

#[tokio::test]
async fn a_failing_match_condition_follows_the_failure_policy() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    let conditions = json!([{"name": "c", "expression": "object.data.size == 'large'"}]);
    let parts = json!({"matchConditions": conditions});
    cluster
        .create(VALIDATING, configuration("a", &endpoint, parts))
        .await;
    let answer = cluster.post(MAPS, map("one")).await;
    assert_eq!(
        answer.json()["message"],
        "configmaps \"one\" is forbidden: expression 'object.data.size == 'large'' resulted in error: no such key: size"
    );
    assert_eq!(answer.status, 403);
    let open = json!({"matchConditions": conditions, "failurePolicy": "Ignore"});
    cluster.delete(&format!("{VALIDATING}/a")).await;
    cluster
        .create(VALIDATING, configuration("a", &endpoint, open))
        .await;
    cluster.create(MAPS, map("one")).await;
    assert!(endpoint.take_seen().is_empty());
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_connection_is_reused_for_sequential_calls() {
    let endpoint = Endpoint::start(|request| match request["name"].as_str() {
        Some("close") => Reply::Close,
        _ => Reply::allow(),
    })
    .await;
    let mut cluster = Cluster::start().await;
    cluster
        .create(VALIDATING, configuration("a", &endpoint, json!({})))
        .await;
    for name in ["one", "two", "three"] {
        cluster.create(MAPS, map(name)).await;
    }
    assert_eq!(endpoint.connections(), 1);
    // A closed connection is replaced once.
    assert_eq!(cluster.post(MAPS, map("close")).await.status, 500);
    assert_eq!(endpoint.connections(), 2);
    cluster.create(MAPS, map("four")).await;
    assert_eq!(endpoint.connections(), 3);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn every_success_status_is_accepted() {
    let check = async |code: u16, expected: u16| {
        let endpoint = Endpoint::start(move |_| {
            let review = json!({"response": {"allowed": false, "status": {"code": 418}}});
            Reply::Raw(code, review.to_string())
        })
        .await;
        let mut cluster = Cluster::start().await;
        let parts = json!({"admissionReviewVersions": ["v1beta1"], "failurePolicy": "Ignore"});
        cluster
            .create(VALIDATING, configuration("a", &endpoint, parts))
            .await;
        assert_eq!(cluster.post(MAPS, map("one")).await.status, expected, "{code}");
        cluster.server.shutdown().await;
    };
    check(200, 418).await;
    check(202, 418).await;
    check(206, 418).await;
    check(207, 201).await;
    check(307, 201).await;
}

#[tokio::test]
async fn a_closed_idle_connection_fails_no_write() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    cluster
        .create(VALIDATING, configuration("a", &endpoint, json!({})))
        .await;
    for name in ["one", "two", "three"] {
        cluster.create(MAPS, map(name)).await;
        endpoint.close_connections();
    }
    assert_eq!((endpoint.connections(), endpoint.take_seen().len()), (3, 3));
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_dry_run_is_marked_in_the_review() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    cluster
        .create(VALIDATING, configuration("a", &endpoint, json!({})))
        .await;
    let path = format!("{MAPS}?dryRun=All");
    cluster.create(&path, map("one")).await;
    let seen = &endpoint.take_seen()[0];
    assert_eq!(
        (&seen["dryRun"], &seen["options"]["dryRun"]),
        (&json!(true), &json!(["All"]))
    );
    cluster.server.shutdown().await;
}

/// envtest writes a URL with two slashes, which Go's mux redirects; the redirect would lose the body.
#[tokio::test]
async fn a_webhook_is_called_at_a_clean_path_and_redirects_are_followed() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let endpoint = Endpoint::start(
        move |_| match first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            true => Reply::Redirect(307, "/elsewhere".to_owned()),
            false => Reply::allow(),
        },
    )
    .await;
    let mut cluster = Cluster::start().await;
    let mut client = endpoint.client_config();
    client["url"] = json!(client["url"].as_str().unwrap().replace("/hook", "//hook/"));
    let parts = json!({"clientConfig": client});
    cluster
        .create(VALIDATING, configuration("a", &endpoint, parts))
        .await;
    cluster.create(MAPS, map("one")).await;
    assert_eq!(endpoint.take_paths(), ["/hook", "/elsewhere"]);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn redirect_loops_end() {
    let endpoint = Endpoint::start(|_| Reply::Redirect(308, "/hook".to_owned())).await;
    let mut cluster = Cluster::start().await;
    cluster
        .create(VALIDATING, configuration("a", &endpoint, json!({})))
        .await;
    let refused = cluster.post(MAPS, map("one")).await.json();
    let message = refused["message"].as_str().unwrap();
    assert!(message.ends_with("stopped after 10 redirects"), "{message}");
    cluster.server.shutdown().await;
}
