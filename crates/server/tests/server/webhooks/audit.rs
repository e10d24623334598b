//! The audit annotations about webhooks.

use serde_json::{Value, json};
use watchkeeper_server::Server;

use super::endpoint::{Endpoint, Reply};
use super::{Cluster, MAPS, MUTATING, VALIDATING, configuration, map};
use crate::audit::{last_event, options};

/// The annotations of the event about creating a config map, audited at a level.
async fn annotations(level: &str, mutating: &Endpoint, validating: &Endpoint) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let policy = format!(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{{level: {level}}}]\n"
    );
    let options = options(&folder, &policy);
    let server = Server::builder().audit(options.clone()).start().await.unwrap();
    let mut cluster = Cluster::of(server).await;
    let lenient = json!({"failurePolicy": "Ignore"});
    // The first is about another resource: it has a place, and is not called.
    let elsewhere = json!({"rules": [super::rule("*", "secrets")]});
    for (path, name, endpoint, parts) in [
        (MUTATING, "a", mutating, &elsewhere),
        (MUTATING, "b", mutating, &lenient),
        (VALIDATING, "a", validating, &elsewhere),
        (VALIDATING, "b", validating, &lenient),
    ] {
        cluster
            .create(path, configuration(name, endpoint, parts.clone()))
            .await;
    }
    cluster.post(MAPS, map("one")).await;
    cluster.server.shutdown().await;
    let mut annotations = last_event(&options)["annotations"].take();
    let members = annotations.as_object_mut().unwrap();
    members.retain(|key, _| !key.starts_with("authorization.k8s.io/"));
    annotations
}

fn mutation(mutated: bool) -> String {
    format!(r#"{{"configuration":"b","webhook":"b.example.com","mutated":{mutated}}}"#)
}

#[tokio::test]
async fn patches_are_shown_where_the_request_is() {
    let operations = json!([{"op": "add", "path": "/data/size", "value": "9"}]);
    let patching = Endpoint::start(move |_| Reply::patch(&operations)).await;
    let annotating =
        Endpoint::start(|_| Reply::Response(json!({"allowed": true, "auditAnnotations": {"seen": "yes"}})))
            .await;
    let patch = r#"{"configuration":"b","webhook":"b.example.com","patch":[{"op":"add","path":"/data/size","value":"9"}],"patchType":"JSONPatch"}"#;
    assert_eq!(
        annotations("Request", &patching, &annotating).await,
        json!({
            "b.example.com/seen": "yes",
            "mutation.webhook.admission.k8s.io/round_0_index_1": mutation(true),
            "patch.webhook.admission.k8s.io/round_0_index_1": patch,
        })
    );
    assert_eq!(
        annotations("Metadata", &patching, &annotating).await,
        json!({
            "b.example.com/seen": "yes",
            "mutation.webhook.admission.k8s.io/round_0_index_1": mutation(true),
        })
    );
}

#[tokio::test]
async fn ignored_failures_are_shown() {
    let broken = Endpoint::start(|_| Reply::Raw(500, "broken".to_owned())).await;
    assert_eq!(
        annotations("Metadata", &broken, &broken).await,
        json!({
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_1": "b.example.com",
            // The index among the validating webhooks that were called.
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_0": "b.example.com",
            "mutation.webhook.admission.k8s.io/round_0_index_1": mutation(false),
        })
    );
}

#[tokio::test]
async fn a_webhook_that_denies_changed_nothing() {
    let denying = Endpoint::start(|_| Reply::Response(json!({"allowed": false}))).await;
    assert_eq!(
        annotations("Request", &denying, &denying).await,
        json!({"mutation.webhook.admission.k8s.io/round_0_index_1": mutation(false)})
    );
}
