//! RBAC: roles whose rules multiply, and access reviews.

use serde_json::{Value, json};

use crate::growth::{Call, Cluster, list};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A cluster in which Bob may write roles, and get pods.
async fn with_bob() -> Cluster {
    let mut cluster = Cluster::start().await;
    let role = json!({"metadata": {"name": "bob"}, "rules": [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/healthz/*"], "verbs": ["get"]},
    ]});
    let mut role = role;
    // Neither of these verbs lifts the escalation check.
    role["rules"][0]["verbs"] = json!(["create", "update", "patch", "get"]);
    let binding = json!({
        "metadata": {"name": "bob"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bob"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    cluster
        .prepare(&Call::post(format!("{RBAC}/clusterroles"), role))
        .await;
    cluster
        .prepare(&Call::post(format!("{RBAC}/clusterrolebindings"), binding))
        .await;
    cluster
}

fn role(rules: Value) -> Call {
    Call::try_post(
        &format!("{RBAC}/clusterroles"),
        json!({"metadata": {"name": "x"}, "rules": rules}),
    )
    .by("bob")
}

fn texts(n: usize, prefix: &str) -> Value {
    list(n, |index| json!(format!("{prefix}{index}")))
}

#[tokio::test]
async fn roles() {
    let mut cluster = with_bob().await;
    let held = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    for field in ["verbs", "apiGroups", "resources", "resourceNames"] {
        cluster
            .grows_in_proportion(&format!("{field} of a rule"), 250, |n| {
                let mut rule = held.clone();
                rule[field] = texts(n, "x");
                role(json!([rule]))
            })
            .await;
    }
    cluster
        .grows_in_proportion("names of what is held", 1_000, |n| {
            let mut rule = held.clone();
            rule["resourceNames"] = texts(n, "x");
            role(json!([rule]))
        })
        .await;
    cluster
        .grows_in_proportion("equal verbs", 250, |n| {
            let mut rule = held.clone();
            rule["verbs"] = list(n, |_| json!("get"));
            role(json!([rule]))
        })
        .await;
    cluster
        .grows_in_proportion("rules", 250, |n| {
            role(list(
                n,
                |index| json!({"apiGroups": [""], "resources": [format!("r{index}")], "verbs": ["get"]}),
            ))
        })
        .await;
    cluster
        .grows_in_proportion("paths", 500, |n| {
            role(json!([{"nonResourceURLs": texts(n, "/x"), "verbs": ["get", "put"]}]))
        })
        .await;
    cluster
        .grows_in_proportion("verbs × groups × resources × names", 20, |n| {
            role(
                json!([{"verbs": texts(n, "v"), "apiGroups": texts(n, "g"), "resources": texts(n, "r"),
                "resourceNames": texts(n, "n")}]),
            )
        })
        .await;
    cluster
        .grows_in_proportion("verbs × names of what is held", 250, |n| {
            let verbs = list(n, |index| json!(["get", "list"][index % 2]));
            role(json!([{"verbs": verbs, "apiGroups": [""], "resources": ["pods"], "resourceNames": texts(n, "n")}]))
        })
        .await;
}

#[tokio::test]
async fn bindings_and_reviews() {
    let mut cluster = with_bob().await;
    cluster
        .grows_in_proportion("subjects", 500, |n| {
            let subjects = list(n, |index| {
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": format!("u{index}")})
            });
            let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bob"});
            let object = json!({"metadata": {"name": "x"}, "roleRef": reference, "subjects": subjects});
            Call::try_post(&format!("{RBAC}/clusterrolebindings"), object)
        })
        .await;
    cluster
        .grows_in_proportion("groups of a review", 500, |n| {
            let attributes = json!({"verb": "get", "resource": "pods"});
            let spec = json!({"user": "u", "groups": texts(n, "g"), "resourceAttributes": attributes});
            Call::post(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                json!({"spec": spec}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("audiences of a review", 250, |n| {
            let spec = json!({"token": "none", "audiences": texts(n, "a")});
            Call::post(
                "/apis/authentication.k8s.io/v1/tokenreviews",
                json!({"spec": spec}),
            )
        })
        .await;
}

/// Verifying a signature takes as long as a small write.
#[tokio::test]
async fn a_token_is_verified_once_for_all_audiences() {
    const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
    const AUDIENCES: u64 = 1_000;
    /// The allocations for decoding, recording and answering one audience, without a verification.
    const MAX_ALLOCATIONS: u64 = 20;
    let mut cluster = Cluster::start().await;
    cluster
        .prepare(&Call::post(ACCOUNTS, json!({"metadata": {"name": "robot"}})))
        .await;
    let request = Call::post(format!("{ACCOUNTS}/robot/token"), json!({"spec": {}}));
    let issued: Value = serde_json::from_slice(&cluster.prepare(&request).await).unwrap();
    let token = &issued["status"]["token"];
    let review = |audiences: Value| {
        let spec = json!({"token": token, "audiences": audiences});
        Call::post(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            json!({"spec": spec}),
        )
    };
    let (one, answer) = cluster.send(&review(json!([]))).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["status"]["authenticated"], true);
    let (many, _) = cluster.send(&review(texts(AUDIENCES as usize, "a"))).await;
    assert!(
        many.memory.allocations < one.memory.allocations + MAX_ALLOCATIONS * AUDIENCES,
        "{one:?} {many:?}"
    );
}
