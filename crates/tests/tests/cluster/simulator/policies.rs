//! Type checking of validating admission policies.

use serde_json::{Value, json};

use crate::simulator::support::{Cluster, resource};

fn policies() -> watchkeeper_meta::Resource {
    resource("admissionregistration.k8s.io", "validatingadmissionpolicies")
}

/// A policy for deployments and replica sets, created and checked.
async fn checked(cluster: &Cluster, name: &str, expression: &str) -> Value {
    let rule = json!({
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["deployments", "replicasets", "deployments/scale"],
    });
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}],
        },
    });
    cluster.create(&policies(), policy).await;
    seen(cluster, name, 1).await
}

async fn seen(cluster: &Cluster, name: &str, generation: i64) -> Value {
    let is_checked = |policy: &Value| policy["status"]["observedGeneration"] == generation;
    cluster
        .until_one(&policies(), name, "the policy is checked", is_checked)
        .await;
    cluster.get(&policies(), name).await
}

#[tokio::test(start_paused = true)]
async fn expressions_of_policies_are_checked_against_the_kinds_they_match() {
    let cluster = Cluster::start().await;
    let right = checked(&cluster, "right", "object.spec.replicas > 1").await;
    assert_eq!(
        right["status"],
        json!({"observedGeneration": 1, "typeChecking": {}})
    );

    let wrong = checked(&cluster, "wrong", "object.replicas > 1").await;
    let error = "ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n";
    let warning = format!("apps/v1, Kind=Deployment: {error}\napps/v1, Kind=ReplicaSet: {error}");
    let expected = json!([{"fieldRef": "spec.validations[0].expression", "warning": warning}]);
    assert_eq!(wrong["status"]["typeChecking"]["expressionWarnings"], expected);

    let corrected = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
    let api = cluster.client().dynamic(policies());
    api.patch("wrong", watchkeeper_meta::PatchKind::Merge, &corrected)
        .await
        .unwrap();
    let corrected = seen(&cluster, "wrong", 2).await;
    assert_eq!(corrected["status"]["typeChecking"], json!({}));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_and_parameters_have_the_types_of_their_definitions() {
    let cluster = Cluster::start().await;
    let definition = json!({
        "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"crew": {"type": "integer"}},
            }}}],
        },
    });
    cluster
        .create(
            &resource("apiextensions.k8s.io", "customresourcedefinitions"),
            definition,
        )
        .await;
    let policy = json!({
        "metadata": {"name": "crews"},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["ships"]},
            ]},
            "validations": [
                {"expression": "object.crew > int(params.data['least'])"},
                {"expression": "object.crew == params.data['least']"},
                {"expression": "params.settings == 'x'"},
            ],
        },
    });
    cluster.create(&policies(), policy).await;
    let policy = seen(&cluster, "crews", 1).await;
    let warnings = policy["status"]["typeChecking"]["expressionWarnings"]
        .as_array()
        .unwrap();
    let said = |index: usize| warnings[index]["warning"].as_str().unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        said(0).contains("no matching overload for '_==_' applied to '(int, string)'"),
        "{}",
        said(0)
    );
    assert!(said(1).contains("undefined field 'settings'"), "{}", said(1));
    cluster.stop().await;
}
