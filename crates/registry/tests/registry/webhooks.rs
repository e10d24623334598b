//! Webhook configurations: which ones are rejected, and their effect in a registry without a network.

use crate::recording::{create, registry, send};
use serde_json::{Value, json};
use watchkeeper_registry::Registry;
use watchkeeper_storage::{Store, StoreOptions};

const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A configuration of one webhook about config maps, with these additional parts.
fn configuration(parts: Value) -> Value {
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]});
    let mut webhook = json!({
        "name": "a.example.com",
        "clientConfig": {"url": "https://localhost/hook"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (name, value) in parts.as_object().expect("parts") {
        webhook[name] = value.clone();
    }
    json!({"metadata": {"name": "c"}, "webhooks": [webhook]})
}

#[tokio::test]
async fn an_invalid_webhook_is_rejected() {
    let registry = registry().await;
    let check = async |parts: Value, expected: &str| {
        let status = send(&registry, "POST", MUTATING, configuration(parts.clone())).await;
        let message = status.expect_err(&parts.to_string()).message;
        let within = "MutatingWebhookConfiguration.admissionregistration.k8s.io \"c\" is invalid: ";
        assert_eq!(message.strip_prefix(within), Some(expected), "{message}");
    };
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    let form = "; desired format: https://host[/path]";
    check(
        json!({"clientConfig": {}}),
        "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
    )
    .await;
    check(
        url("http://localhost"),
        &format!(
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{form}"
        ),
    )
    .await;
    check(
        url("https:///hook"),
        &format!("webhooks[0].clientConfig.url: Invalid value: \"\": host must be specified{form}"),
    )
    .await;
    check(
        url("https://me@localhost/hook?a=b#c"),
        "[webhooks[0].clientConfig.url: Invalid value: \"me\": user information is not permitted in the URL, \
         webhooks[0].clientConfig.url: Invalid value: \"c\": fragments are not permitted in the URL, \
         webhooks[0].clientConfig.url: Invalid value: \"a=b\": query parameters are not permitted in the URL]",
    )
    .await;
    check(
        json!({"clientConfig": {"service": {"port": 70000, "path": "hook", "name": "", "namespace": ""}}}),
        "[webhooks[0].clientConfig.service.name: Required value, \
         webhooks[0].clientConfig.service.namespace: Required value, \
         webhooks[0].clientConfig.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, \
         inclusive, webhooks[0].clientConfig.service.path: Invalid value: \"hook\": must start with a '/']",
    )
    .await;
    check(
        json!({"clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/a//b"}}}),
        "webhooks[0].clientConfig.service.path: Invalid value: \"/a//b\": segment[1] may not be empty",
    )
    .await;
    check(
        json!({"matchConditions": [{"name": "a", "expression": "1"}, {"name": "a", "expression": "true"}]}),
        "[webhooks[0].matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int, \
         webhooks[0].matchConditions[1].name: Duplicate value: \"a\"]",
    )
    .await;
    check(
        json!({"reinvocationPolicy": "Always"}),
        "webhooks[0].reinvocationPolicy: Unsupported value: \"Always\": supported values: \"IfNeeded\", \"Never\"",
    )
    .await;
    check(
        json!({"admissionReviewVersions": ["v2", "v2"]}),
        "[webhooks[0].admissionReviewVersions[1]: Invalid value: \"v2\": duplicate version, \
         webhooks[0].admissionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1]",
    )
    .await;
    let rule = json!({"apiGroups": ["*", ""], "apiVersions": ["*"], "operations": ["*", "CREATE"],
        "resources": ["*", "pods/status", "pods"]});
    check(
        json!({"rules": [rule]}),
        "[webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other \
         operations, webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"\"]: if '*' is present, must not specify \
         other API groups, webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods/status\",\"pods\"]: if '*' is \
         present, must not specify other resources without subresources]",
    )
    .await;
}

#[tokio::test]
async fn without_a_transport_calling_a_webhook_is_an_error() {
    let registry = registry().await;
    create(&registry, MUTATING, configuration(json!({}))).await;
    let map = json!({"metadata": {"name": "m"}});
    let status = send(&registry, "POST", CONFIG_MAPS, map.clone())
        .await
        .unwrap_err();
    assert_eq!(
        status.message,
        "Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: webhooks are not \
         available"
    );
    send(&registry, "DELETE", &format!("{MUTATING}/c"), Value::Null)
        .await
        .unwrap();
    create(&registry, CONFIG_MAPS, map).await;
}

#[tokio::test]
async fn policies_and_webhooks_are_active_after_a_restart() {
    let map = json!({"metadata": {"name": "m"}});
    let check = async |written: &[(&str, Value)], expected: &str| {
        let store = Store::memory(StoreOptions::default());
        let registry = Registry::open(store.clone()).await.unwrap();
        for (path, object) in written {
            create(&registry, path, object.clone()).await;
        }
        drop(registry);
        let again = Registry::open(store).await.unwrap();
        let refused = send(&again, "POST", CONFIG_MAPS, map.clone()).await.unwrap_err();
        assert!(refused.message.contains(expected), "{}", refused.message);
    };
    check(
        &[(MUTATING, configuration(json!({})))],
        "failed calling webhook \"a.example.com\"",
    )
    .await;
    let rule =
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]});
    let spec =
        json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]});
    let binding = json!({"policyName": "p", "validationActions": ["Deny"]});
    check(
        &[
            (POLICIES, json!({"metadata": {"name": "p"}, "spec": spec})),
            (BINDINGS, json!({"metadata": {"name": "b"}, "spec": binding})),
        ],
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request",
    )
    .await;
}
