//! Admission plugins: values they set, and writes they reject.

use crate::recording::{create, registry, send};
use serde_json::{Value, json};
use watchkeeper_registry::Registry;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const INGRESS_CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const V1_SCALERS: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2_SCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

fn claim(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn storage_class(name: &str, mark: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {mark: "true"}}, "provisioner": "example.com/disks"})
}

#[tokio::test]
async fn a_claim_without_a_class_gets_the_default_one() {
    let registry = registry().await;
    let mark = "storageclass.kubernetes.io/is-default-class";
    assert!(create(&registry, CLAIMS, claim("none")).await["spec"]["storageClassName"].is_null());

    create(&registry, STORAGE_CLASSES, storage_class("slow", "note")).await;
    create(&registry, STORAGE_CLASSES, storage_class("late", mark)).await;
    create(&registry, STORAGE_CLASSES, storage_class("fast", mark)).await;
    // As old as the other: the first by name.
    assert_eq!(
        create(&registry, CLAIMS, claim("a")).await["spec"]["storageClassName"],
        "fast"
    );
    let mut plain = claim("b");
    plain["spec"]["storageClassName"] = json!("");
    assert_eq!(
        create(&registry, CLAIMS, plain).await["spec"]["storageClassName"],
        ""
    );
    let mut named = claim("c");
    named["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "slow"});
    assert!(create(&registry, CLAIMS, named).await["spec"]["storageClassName"].is_null());
}

#[tokio::test]
async fn an_ingress_without_a_class_gets_the_default_one() {
    let registry = registry().await;
    let ingress = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
        })
    };
    assert!(create(&registry, INGRESSES, ingress("a")).await["spec"]["ingressClassName"].is_null());
    let class = json!({
        "metadata": {"name": "front", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "example.com/front"},
    });
    create(&registry, INGRESS_CLASSES, class).await;
    assert_eq!(
        create(&registry, INGRESSES, ingress("b")).await["spec"]["ingressClassName"],
        "front"
    );
    let mut old = ingress("c");
    old["metadata"]["annotations"] = json!({"kubernetes.io/ingress.class": "nginx"});
    assert!(create(&registry, INGRESSES, old).await["spec"]["ingressClassName"].is_null());
}

#[tokio::test]
async fn a_claim_grows_only_if_its_class_allows_expansion() {
    let registry = registry().await;
    for (class, grows) in [("fixed", false), ("elastic", true)] {
        let mut object = storage_class(class, "note");
        object["allowVolumeExpansion"] = json!(grows);
        create(&registry, STORAGE_CLASSES, object).await;
        let mut claim = claim(class);
        claim["spec"]["storageClassName"] = json!(class);
        claim["spec"]["volumeName"] = json!("disk");
        let mut bound = create(&registry, CLAIMS, claim).await;
        bound["status"] = json!({"phase": "Bound"});
        let path = format!("{CLAIMS}/{class}");
        let mut bound = send(&registry, "PUT", &format!("{path}/status"), bound)
            .await
            .unwrap();
        bound["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
        let told = send(&registry, "PUT", &path, bound).await.map(drop);
        let refused = "persistentvolumeclaims \"fixed\" is forbidden: only dynamically provisioned pvc can be resized \
                       and the storageclass that provisions the pvc must support resize";
        match grows {
            true => told.unwrap(),
            false => assert_eq!(told.unwrap_err().message, refused),
        }
    }
}

/// The claims of a requested token, or the error.
async fn token(registry: &Registry, account: &str, metadata: Value, bound: Value) -> Result<Value, String> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": metadata, "spec": {"boundObjectRef": bound},
    });
    let path = format!("{ACCOUNTS}/{account}/token");
    let answer = send(registry, "POST", &path, request).await;
    let answer = answer.map_err(|status| status.message)?;
    let token = answer["status"]["token"].as_str().unwrap();
    let said = token.split('.').nth(1).unwrap();
    use base64::Engine as _;
    let said = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(said)
        .unwrap();
    Ok(serde_json::from_slice(&said).unwrap())
}

#[tokio::test]
async fn a_token_is_bound_to_a_pod_of_its_account() {
    let registry = registry().await;
    for account in ["robot", "other"] {
        create(&registry, ACCOUNTS, json!({"metadata": {"name": account}})).await;
    }
    create(&registry, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "robot", "nodeName": "n", "containers": [{"name": "c", "image": "i:1"}]},
    });
    let pod = create(&registry, PODS, pod).await;
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});

    let said = token(&registry, "robot", json!({}), bound.clone()).await.unwrap();
    let private = &said["kubernetes.io"];
    assert_eq!(
        private["pod"],
        json!({"name": "p", "uid": pod["metadata"]["uid"]})
    );
    assert_eq!(private["node"]["name"], "n");
    let holder = registry.token_holder(&said).await.unwrap();
    assert_eq!(holder.extra["authentication.kubernetes.io/node-name"], ["n"]);
    // The pod's node is informational; the token is bound to the pod.
    send(&registry, "DELETE", "/api/v1/nodes/n", json!(null))
        .await
        .unwrap();
    assert!(registry.token_holder(&said).await.is_some());

    let check = async |account: &str, metadata: Value, bound: Value, why: &str| {
        assert_eq!(token(&registry, account, metadata, bound).await.unwrap_err(), why);
    };
    check(
        "other",
        json!({}),
        bound.clone(),
        "cannot bind token for serviceaccount \"other\" to pod running with different serviceaccount name.",
    )
    .await;
    let mut stale = bound.clone();
    stale["uid"] = json!("old");
    check(
        "robot",
        json!({}),
        stale,
        "Operation cannot be fulfilled on Pod \"p\": the UID in the bound object reference (old) does not match the UID \
         in record. The object might have been deleted and then recreated",
    )
    .await;
    check(
        "robot",
        json!({}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "m"}),
        "cannot bind token to object of type /v1, Kind=ConfigMap",
    )
    .await;
    check(
        "robot",
        json!({"name": "other"}),
        Value::Null,
        "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"other\": must match \
         the service account name if specified",
    )
    .await;

    send(
        &registry,
        "DELETE",
        &format!("{PODS}/p"),
        json!({"gracePeriodSeconds": 0}),
    )
    .await
    .unwrap();
    assert!(registry.token_holder(&said).await.is_none());
}

#[tokio::test]
async fn a_write_in_an_older_version_keeps_fields_of_the_newer_one() {
    let registry = registry().await;
    let scaler = json!({
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
            "metrics": [
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}},
            ],
        },
    });
    let mut scaler = create(&registry, V2_SCALERS, scaler).await;
    let able = json!({"type": "AbleToScale", "status": "True", "reason": "Ready"});
    scaler["status"] = json!({"desiredReplicas": 1, "currentMetrics": null, "conditions": [able]});
    let path = format!("{V2_SCALERS}/h");
    let told = send(&registry, "PUT", &format!("{path}/status"), scaler)
        .await
        .unwrap();

    // A client that knows only the older version, and not the annotations.
    let mut older = send(&registry, "GET", &format!("{V1_SCALERS}/h"), json!(null))
        .await
        .unwrap();
    older["metadata"]["annotations"] = json!({"note": "x"});
    older["spec"]["maxReplicas"] = json!(5);
    older["spec"]["targetCPUUtilizationPercentage"] = json!(70);
    send(&registry, "PUT", &format!("{V1_SCALERS}/h"), older.clone())
        .await
        .unwrap();
    let now = send(&registry, "GET", &path, json!(null)).await.unwrap();
    assert_eq!(now["status"], told["status"]);
    assert_eq!(now["spec"]["maxReplicas"], 5);
    // Metrics belong to the writer, who changed them.
    assert_eq!(now["spec"]["metrics"][0]["resource"]["name"], "cpu");
    assert_eq!(now["spec"]["metrics"].as_array().unwrap().len(), 1);

    let mut older = send(&registry, "GET", &format!("{V1_SCALERS}/h"), json!(null))
        .await
        .unwrap();
    older["status"]["desiredReplicas"] = json!(4);
    older["spec"]["maxReplicas"] = json!(9);
    let status = format!("{V1_SCALERS}/h/status");
    send(&registry, "PUT", &status, older).await.unwrap();
    let later = send(&registry, "GET", &path, json!(null)).await.unwrap();
    assert_eq!(later["spec"], now["spec"]);
    assert_eq!(later["status"]["desiredReplicas"], 4);
    assert_eq!(later["status"]["conditions"], told["status"]["conditions"]);
}

#[tokio::test]
async fn the_creator_of_an_older_autoscaler_owns_its_default_target() {
    let registry = registry().await;
    let spec = json!({
        "maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
    });
    let scaler = create(
        &registry,
        V1_SCALERS,
        json!({"metadata": {"name": "h"}, "spec": spec}),
    )
    .await;
    assert_eq!(scaler["spec"]["targetCPUUtilizationPercentage"], 80);
    let owned = &scaler["metadata"]["managedFields"][0];
    assert_eq!(owned["apiVersion"], "autoscaling/v1");
    assert_eq!(
        owned["fieldsV1"]["f:spec"]["f:targetCPUUtilizationPercentage"],
        json!({}),
        "{owned}"
    );
    // Metrics of the newer version, as the older one carries them: there is a target already.
    let memory =
        json!([{"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 60}}]);
    let annotations = json!({"autoscaling.alpha.kubernetes.io/metrics": memory.to_string()});
    let metadata = json!({"name": "m", "annotations": annotations});
    let scaler = create(&registry, V1_SCALERS, json!({"metadata": metadata, "spec": spec})).await;
    assert!(scaler["spec"]["targetCPUUtilizationPercentage"].is_null());
}
