//! The audit log.

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::{AuditLogOptions, AuditOptions, Handle, Server, StartError};

use crate::client::Client;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/version"]
- level: RequestResponse
  verbs: [create]
- level: Metadata
"#;

pub(crate) fn options(folder: &tempfile::TempDir, policy: &str) -> AuditOptions {
    let policy_file = folder.path().join("policy.yaml");
    std::fs::write(&policy_file, policy).unwrap();
    AuditOptions {
        policy_file,
        log: AuditLogOptions {
            path: folder.path().join("audit.log"),
            ..AuditLogOptions::default()
        },
    }
}

/// A server with this audit log, and its administrator.
async fn audited(options: &AuditOptions) -> (Handle, Client) {
    let server = Server::builder().audit(options.clone()).start().await.unwrap();
    let pipe = server.connector().connect().await.unwrap();
    let client = Client::http2(pipe).await.with_token(&server);
    (server, client)
}

/// The requests that the policies of these tests match.
fn creates_of_config_maps() -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]})
}

fn told(event: &Value) -> Value {
    json!([
        event["level"],
        event["stage"],
        event["verb"],
        event["user"]["username"],
        event["impersonatedUser"]["username"],
        event["responseStatus"]["code"],
        event["annotations"]["authorization.k8s.io/decision"],
    ])
}

#[tokio::test]
async fn the_log_has_user_request_and_result() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, POLICY);
    let (server, mut client) = audited(&options).await;
    client.get("/version").await;
    let map = r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
    let created = client.send(Method::POST, MAPS, &[], map).await;
    let bob = [("impersonate-user", "bob")];
    client.send(Method::GET, &format!("{MAPS}/a"), &bob, "").await;
    client.get(&format!("{MAPS}?watch=1&timeoutSeconds=1")).await;
    server.shutdown().await;

    let lines = std::fs::read_to_string(&options.log.path).unwrap();
    let events: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: Vec<_> = events.iter().map(told).collect();
    let admin = &events[0]["user"]["username"];
    assert_eq!(
        seen,
        [
            json!([
                "RequestResponse",
                "ResponseComplete",
                "create",
                admin,
                null,
                201,
                "allow"
            ]),
            json!(["Metadata", "ResponseComplete", "get", admin, "bob", 403, "forbid"]),
            json!(["Metadata", "ResponseStarted", "watch", admin, null, 200, "allow"]),
            json!(["Metadata", "ResponseComplete", "watch", admin, null, 200, "allow"]),
        ]
    );
    let create = &events[0];
    assert_eq!(create["auditID"], created.header("audit-id"));
    assert_eq!(create["requestURI"], MAPS);
    assert_eq!(create["requestObject"]["data"], json!({"k": "v"}));
    assert_eq!(create["responseObject"], created.json());
    let object = json!({"resource": "configmaps", "namespace": "default", "apiVersion": "v1"});
    assert_eq!(create["objectRef"], object);
    assert_eq!(events[1]["requestObject"], Value::Null);
    assert_eq!(events[1]["responseStatus"]["reason"], "Forbidden");
}

#[tokio::test]
async fn an_invalid_policy_fails_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, "apiVersion: v1\nkind: Pod\nrules: []\n");
    let refused = Server::builder().audit(options).start().await.unwrap_err();
    assert!(matches!(refused, StartError::Audit(_)), "{refused:?}");
}

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

async fn post(client: &mut Client, path: &str, body: Value) {
    let answer = client.send(Method::POST, path, &[], &body.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

#[tokio::test]
async fn policies_annotate_the_event_and_audit_what_they_would_deny() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, POLICY);
    let (server, mut client) = audited(&options).await;
    let rule = creates_of_config_maps();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "true"}, {"expression": "object.metadata.name != 'bad'", "message": "bad name"}],
            "auditAnnotations": [
                {"key": "who", "valueExpression": "'map ' + object.metadata.name"},
                {"key": "nothing", "valueExpression": "null"},
            ],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Audit"]},
    });
    post(
        &mut client,
        &format!("{ADMISSION}/validatingadmissionpolicies"),
        policy,
    )
    .await;
    post(
        &mut client,
        &format!("{ADMISSION}/validatingadmissionpolicybindings"),
        binding,
    )
    .await;
    post(&mut client, MAPS, json!({"metadata": {"name": "bad"}})).await;
    server.shutdown().await;

    let annotations = &last_event(&options)["annotations"];
    assert_eq!(annotations["p/who"], "map bad");
    assert_eq!(annotations["p/nothing"], Value::Null);
    assert_eq!(
        annotations["validation.policy.admission.k8s.io/validation_failure"],
        r#"[{"message":"bad name","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit"]}]"#
    );
}

#[tokio::test]
async fn pod_security_annotates_the_event_with_its_policies() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, POLICY);
    let (server, mut client) = audited(&options).await;
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/enforce-version": "v1.30",
        "pod-security.kubernetes.io/audit": "restricted",
    });
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}});
    post(&mut client, "/api/v1/namespaces", namespace).await;
    let spec = json!({"securityContext": {"runAsNonRoot": true}, "containers": [{"name": "c", "image": "i", "securityContext": {
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
    }}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    post(&mut client, "/api/v1/namespaces/strict/pods", pod).await;
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": {"spec": spec}});
    post(&mut client, "/api/v1/namespaces/strict/podtemplates", template).await;
    server.shutdown().await;

    let lines = std::fs::read_to_string(&options.log.path).unwrap();
    let events: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let annotations = |resource: &str| {
        let found = events
            .iter()
            .rfind(|event| event["objectRef"]["resource"] == resource);
        found.unwrap()["annotations"].clone()
    };
    let why = "would violate PodSecurity \"restricted:latest\": seccompProfile (pod or container \"c\" must set \
               securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    let pod = annotations("pods");
    assert_eq!(pod["pod-security.kubernetes.io/enforce-policy"], "baseline:v1.30");
    assert_eq!(pod["pod-security.kubernetes.io/audit-violations"], why);
    let template = annotations("podtemplates");
    assert_eq!(template["pod-security.kubernetes.io/enforce-policy"], Value::Null);
    assert_eq!(template["pod-security.kubernetes.io/audit-violations"], why);
}

/// The last event about config maps.
pub(crate) fn last_event(options: &AuditOptions) -> Value {
    let lines = std::fs::read_to_string(&options.log.path).unwrap();
    let mut events = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let last = events.rfind(|event| event["objectRef"]["resource"] == "configmaps");
    last.unwrap()
}

#[tokio::test]
async fn policies_after_a_denial_are_evaluated_too() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder, POLICY);
    let (server, mut client) = audited(&options).await;
    let rule = creates_of_config_maps();
    for (name, action) in [("first", "Deny"), ("second", "Deny"), ("third", "Warn")] {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": format!("{name} says no")}],
                "auditAnnotations": [{"key": "seen", "valueExpression": "'map ' + object.metadata.name"}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": [action]},
        });
        let path = |kind: &str| format!("{ADMISSION}/validatingadmission{kind}");
        post(&mut client, &path("policies"), policy).await;
        post(&mut client, &path("policybindings"), binding).await;
    }
    let map = json!({"metadata": {"name": "m"}});
    let refused = client.send(Method::POST, MAPS, &[], &map.to_string()).await;
    server.shutdown().await;

    assert_eq!(refused.status, 422);
    let message = "ValidatingAdmissionPolicy 'first' with binding 'first' denied request: first says no";
    assert!(refused.text().contains(message), "{}", refused.text());
    let warning =
        "Validation failed for ValidatingAdmissionPolicy 'third' with binding 'third': third says no";
    assert!(
        refused.header("warning").contains(warning),
        "{}",
        refused.header("warning")
    );
    for policy in ["first", "second", "third"] {
        assert_eq!(
            last_event(&options)["annotations"][format!("{policy}/seen")],
            "map m"
        );
    }
}
