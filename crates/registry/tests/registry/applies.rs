//! Server-side apply of parts of objects, in other versions, and with unusual bodies.

use crate::recording::{apply, registry, send};
use serde_json::{Value, json};
use watchkeeper_registry::Registry;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const SETTINGS: &str = "/api/v1/namespaces/default/configmaps/settings";

/// Applies a valid configuration.
async fn applied(registry: &Registry, path: &str, manager: &str, configuration: &Value) -> Value {
    let (object, _) = apply(registry, path, manager, "", &configuration.to_string()).await;
    object.unwrap_or_else(|status| panic!("{path}: {}", status.message))
}

async fn refused(registry: &Registry, path: &str, manager: &str, configuration: &Value) -> String {
    let (object, _) = apply(registry, path, manager, "", &configuration.to_string()).await;
    object.unwrap_err().message
}

/// Each manager with its fields, in the order of the object.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries
        .map(|entry| {
            let part = text(entry, "subresource");
            format!("{}/{part} {}", text(entry, "manager"), entry["fieldsV1"])
        })
        .collect()
}

fn deployment(more: Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    for (name, value) in more.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

fn spec() -> Value {
    json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    })
}

#[tokio::test]
async fn apply_to_a_subresource_owns_only_fields_of_that_subresource() {
    let registry = registry().await;
    applied(
        &registry,
        DEPLOYMENT,
        "user",
        &deployment(json!({"spec": spec()})),
    )
    .await;
    let both = |replicas: u32| {
        deployment(json!({
            "metadata": {"name": "web", "labels": {"by": "controller"}},
            "spec": {"replicas": 7},
            "status": {"replicas": replicas},
        }))
    };
    let status = format!("{DEPLOYMENT}/status");
    let told = applied(&registry, &status, "controller", &both(1)).await;
    assert_eq!(
        (&told["spec"]["replicas"], &told["status"]["replicas"]),
        (&json!(1), &json!(1))
    );
    assert!(told["metadata"]["labels"].is_null());
    let owned = managers(&told);
    assert!(
        owned.contains(&r#"controller/status {"f:status":{"f:replicas":{}}}"#.to_owned()),
        "{owned:?}"
    );
    // Nor does the controller conflict: the replica count is free, and its status cannot be written here.
    let mut wanted = both(9);
    wanted["metadata"] = json!({"name": "web"});
    let scaled = applied(&registry, DEPLOYMENT, "scaler", &wanted).await;
    assert_eq!(
        (&scaled["spec"]["replicas"], &scaled["status"]["replicas"]),
        (&json!(7), &json!(1))
    );
    let owned = managers(&scaled);
    assert!(
        owned.contains(&r#"scaler/ {"f:spec":{"f:replicas":{}}}"#.to_owned()),
        "{owned:?}"
    );
}

#[tokio::test]
async fn a_scale_without_replicas_changes_nothing() {
    let registry = registry().await;
    let mut full = spec();
    full["replicas"] = json!(3);
    applied(&registry, DEPLOYMENT, "user", &deployment(json!({"spec": full}))).await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    let scale = |spec: Value| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": spec});
    let silent = applied(&registry, path, "scaler", &scale(json!({}))).await;
    assert_eq!(silent["spec"]["replicas"], 3);
    assert_eq!(
        refused(&registry, path, "scaler", &scale(json!({"replicas": 5}))).await,
        "Apply failed with 1 conflict: conflict with \"user\": .spec.replicas"
    );
}

#[tokio::test]
async fn duplicate_keys_are_reported_by_field_validation() {
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata:\n  a: '1'\n  a: '2'\n";
    for (options, warnings) in [
        ("", vec!["line 6: key \"a\" already set in map".to_owned()]),
        ("&fieldValidation=Ignore", vec![]),
    ] {
        let registry = registry().await;
        let (object, heard) = apply(&registry, SETTINGS, "m", options, body).await;
        assert_eq!(object.unwrap()["data"], json!({"a": "2"}));
        assert_eq!(heard, warnings, "{options}");
    }
    let registry = registry().await;
    let (object, _) = apply(&registry, SETTINGS, "m", "&fieldValidation=Strict", body).await;
    assert_eq!(
        object.unwrap_err().message,
        "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"a\" already \
         set in map"
    );
}

#[tokio::test]
async fn the_error_for_another_kind_names_it_in_full() {
    let registry = registry().await;
    for (api_version, kind, named) in [
        ("v1", "Secret", "/v1, Kind=Secret"),
        ("apps/v2", "X", "apps/v2, Kind=X"),
    ] {
        let other = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "settings"}});
        let told = refused(&registry, SETTINGS, "m", &other).await;
        assert_eq!(told, format!("invalid object type: {named}"));
    }
}

const V1_SCALER: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/h";
const V2_SCALER: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h";

fn scaler(api_version: &str, spec: Value) -> Value {
    let mut scaler = json!({
        "apiVersion": api_version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    for (name, value) in spec.as_object().unwrap() {
        scaler["spec"][name] = value.clone();
    }
    scaler
}

fn metrics(cpu: u32) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": cpu});
    json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]})
}

#[tokio::test]
async fn managers_conflict_across_versions() {
    let registry = registry().await;
    let older = |spec: Value| scaler("autoscaling/v1", spec);
    let newer = |spec: Value| scaler("autoscaling/v2", spec);
    let percent = |cpu: u32| json!({"targetCPUUtilizationPercentage": cpu});
    applied(&registry, V1_SCALER, "old", &older(percent(70))).await;
    // They agree on a field that is named differently in their versions.
    applied(&registry, V2_SCALER, "new", &newer(metrics(70))).await;
    assert_eq!(
        refused(&registry, V2_SCALER, "new", &newer(metrics(90))).await,
        "Apply failed with 1 conflict: conflict with \"old\": .spec.targetCPUUtilizationPercentage"
    );
    assert_eq!(
        refused(&registry, V1_SCALER, "old", &older(percent(60))).await,
        "Apply failed with 1 conflict: conflict with \"new\": .spec.metrics"
    );

    // If one stops applying it, the other still owns it.
    let left = applied(&registry, V2_SCALER, "new", &newer(json!({}))).await;
    assert_eq!(left["spec"]["metrics"], metrics(70)["metrics"]);
    applied(&registry, V2_SCALER, "new", &newer(metrics(70))).await;

    // With force, one owns it alone, and removing it works even though the other version names it differently.
    let body = newer(metrics(90)).to_string();
    let (taken, _) = apply(&registry, V2_SCALER, "new", "&force=true", &body).await;
    let owned = managers(&taken.unwrap());
    assert!(
        owned.iter().all(|entry| !entry.contains("targetCPU")),
        "{owned:?}"
    );
    let gone = applied(&registry, V1_SCALER, "new", &older(json!({}))).await;
    // No manager sets the CPU, so the default applies.
    assert_eq!(gone["spec"]["targetCPUUtilizationPercentage"], 80);
}

#[tokio::test]
async fn an_update_takes_over_fields_applied_in_another_version() {
    let registry = registry().await;
    let older = scaler("autoscaling/v1", json!({"targetCPUUtilizationPercentage": 70}));
    applied(&registry, V1_SCALER, "old", &older).await;
    let patched = send(&registry, "PATCH", V2_SCALER, json!({"spec": metrics(90)}))
        .await
        .unwrap();
    let owned = managers(&patched);
    assert_eq!(owned.len(), 2, "{owned:?}");
    assert!(
        owned.iter().all(|entry| !entry.contains("targetCPU")),
        "{owned:?}"
    );
    assert!(owned.iter().any(|entry| entry.contains("f:metrics")), "{owned:?}");
}

#[tokio::test]
async fn the_creator_of_an_older_version_owns_its_defaults() {
    let registry = registry().await;
    let scalers = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let created = send(&registry, "POST", scalers, scaler("autoscaling/v1", json!({})))
        .await
        .unwrap();
    assert_eq!(
        (
            &created["spec"]["minReplicas"],
            &created["spec"]["targetCPUUtilizationPercentage"]
        ),
        (&json!(1), &json!(80))
    );
    let entries = &created["metadata"]["managedFields"];
    assert_eq!(entries.as_array().unwrap().len(), 1);
    assert_eq!(entries[0]["apiVersion"], "autoscaling/v1");
    assert_eq!(
        entries[0]["fieldsV1"],
        json!({"f:spec": {
            "f:maxReplicas": {},
            "f:minReplicas": {},
            "f:scaleTargetRef": {}, // atomic in this version
            "f:targetCPUUtilizationPercentage": {},
        }})
    );

    // So another manager conflicts with the default, in either version, and takes it over by force.
    let newer = scaler("autoscaling/v2", metrics(60));
    let conflict = refused(&registry, V2_SCALER, "new", &newer).await;
    assert!(
        conflict.contains(".spec.targetCPUUtilizationPercentage"),
        "{conflict}"
    );
    let (taken, _) = apply(&registry, V2_SCALER, "new", "&force=true", &newer.to_string()).await;
    let owned = managers(&taken.unwrap());
    assert!(
        owned.iter().all(|entry| !entry.contains("targetCPU")),
        "{owned:?}"
    );
    let older = send(&registry, "GET", V1_SCALER, json!(null)).await.unwrap();
    assert_eq!(older["spec"]["targetCPUUtilizationPercentage"], 60);
}

#[tokio::test]
async fn who_applies_an_older_version_does_not_own_its_defaults() {
    let registry = registry().await;
    let older = scaler("autoscaling/v1", json!({}));
    let object = applied(&registry, V1_SCALER, "old", &older).await;
    assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 80);
    let own = r#"old/ {"f:spec":{"f:maxReplicas":{},"f:scaleTargetRef":{}}}"#;
    assert_eq!(managers(&object), [own]);
    // Nobody owns the default, so nobody conflicts.
    let newer = applied(
        &registry,
        V2_SCALER,
        "new",
        &scaler("autoscaling/v2", metrics(60)),
    )
    .await;
    assert_eq!(newer["spec"]["metrics"], metrics(60)["metrics"]);
}
