//! The flow schemas that every cluster starts with.

use serde_json::{Value, json};

/// The annotation that lets the server reset an object to its suggested spec.
pub(crate) const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

const EVERYBODY: [&str; 2] = ["system:unauthenticated", "system:authenticated"];

/// The schemas in matching order.
pub fn suggested_flow_schemas() -> Vec<Value> {
    [exempt(), of_leaders_and_nodes(), of_everything()].concat()
}

/// Requests that never wait.
fn exempt() -> Vec<Value> {
    vec![
        schema(
            "exempt",
            1,
            "exempt",
            "",
            vec![rule(groups(&["system:masters"]), all())],
        ),
        schema(
            "probes",
            2,
            "exempt",
            "",
            vec![rule(
                groups(&EVERYBODY),
                json!({
                    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
                }),
            )],
        ),
    ]
}

/// Requests for the resources that keep a cluster alive.
fn of_leaders_and_nodes() -> Vec<Value> {
    let leases = |verbs: &[&str]| namespaced(verbs, "coordination.k8s.io", &["leases"]);
    let writes = ["get", "create", "update"];
    let lead =
        |subjects: Vec<Value>, rules: Vec<Value>| vec![rule(subjects, json!({"resourceRules": rules}))];
    vec![
        schema(
            "system-leader-election",
            100,
            "leader-election",
            "ByUser",
            lead(
                vec![
                    user("system:kube-controller-manager"),
                    user("system:kube-scheduler"),
                    account("kube-system", "*"),
                ],
                vec![leases(&writes)],
            ),
        ),
        schema(
            "endpoint-controller",
            150,
            "workload-high",
            "ByUser",
            lead(
                vec![
                    user("system:kube-controller-manager"),
                    account("kube-system", "endpoint-controller"),
                    account("kube-system", "endpointslicemirroring-controller"),
                ],
                vec![namespaced(&writes, "", &["endpoints"])],
            ),
        ),
        schema(
            "workload-leader-election",
            200,
            "leader-election",
            "ByUser",
            lead(
                vec![account("kube-system", "*")],
                vec![
                    namespaced(&writes, "", &["endpoints", "configmaps"]),
                    leases(&writes),
                ],
            ),
        ),
        schema(
            "system-node-high",
            400,
            "node-high",
            "ByUser",
            lead(
                groups(&["system:nodes"]),
                vec![
                    json!({"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": true}),
                    leases(&["*"]),
                ],
            ),
        ),
    ]
}

/// Any request of some users, and at last of all.
fn of_everything() -> Vec<Value> {
    vec![
        schema(
            "system-nodes",
            500,
            "system",
            "ByUser",
            vec![rule(groups(&["system:nodes"]), all())],
        ),
        schema(
            "kube-controller-manager",
            800,
            "workload-high",
            "ByNamespace",
            vec![rule(vec![user("system:kube-controller-manager")], all())],
        ),
        schema(
            "kube-scheduler",
            800,
            "workload-high",
            "ByNamespace",
            vec![rule(vec![user("system:kube-scheduler")], all())],
        ),
        schema(
            "kube-system-service-accounts",
            900,
            "workload-high",
            "ByNamespace",
            vec![rule(vec![account("kube-system", "*")], all())],
        ),
        schema(
            "service-accounts",
            9000,
            "workload-low",
            "ByUser",
            vec![rule(groups(&["system:serviceaccounts"]), all())],
        ),
        schema(
            "global-default",
            9900,
            "global-default",
            "ByUser",
            vec![rule(groups(&EVERYBODY), all())],
        ),
        schema(
            "catch-all",
            10_000,
            "catch-all",
            "ByUser",
            vec![rule(groups(&EVERYBODY), all())],
        ),
    ]
}

/// Every resource and every other path.
fn all() -> Value {
    json!({"resourceRules": [anything()], "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]})
}

fn schema(name: &str, precedence: i64, level: &str, distinguisher: &str, rules: Vec<Value>) -> Value {
    let mut schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level},
            "rules": rules,
        },
    });
    if !distinguisher.is_empty() {
        schema["spec"]["distinguisherMethod"] = json!({"type": distinguisher});
    }
    schema
}

fn rule(subjects: Vec<Value>, mut rules: Value) -> Value {
    rules["subjects"] = Value::Array(subjects);
    rules
}

fn anything() -> Value {
    json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]})
}

fn namespaced(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]})
}

fn groups(names: &[&str]) -> Vec<Value> {
    let groups = names
        .iter()
        .map(|name| json!({"kind": "Group", "group": {"name": name}}));
    groups.collect()
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}

fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}})
}
