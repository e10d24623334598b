//! Pod security: what namespaces' labels refuse and warn of.

use serde_json::{Value, json};

use crate::recording::{create, registry, send, warnings, warnings_of};

#[tokio::test]
async fn creates_and_updates_of_workloads_warn_of_pod_security() {
    let registry = registry().await;
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let namespace = json!({"metadata": {"name": "strict", "labels": labels}});
    create(&registry, "/api/v1/namespaces", namespace).await;
    let labels = json!({"app": "web"});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    }});
    let path = "/apis/apps/v1/namespaces/strict/deployments";
    assert!(warnings(&registry, path, deployment).await.is_empty());
    let path = format!("{path}/web");
    let mut live = send(&registry, "GET", &path, json!(null)).await.unwrap();
    live["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    let told = warnings_of(&registry, "PUT", &path, live.clone()).await;
    let why = "would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    assert_eq!(told, [why]);
    // Every update of a workload is checked, even one that leaves its template as it is.
    let mut live = send(&registry, "GET", &path, json!(null)).await.unwrap();
    live["spec"]["replicas"] = json!(2);
    assert_eq!(warnings_of(&registry, "PUT", &path, live).await, [why]);
}

/// A namespace of this name, with pod security labels.
fn secured(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels = labels
        .iter()
        .map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), json!(value)));
    let labels: serde_json::Map<String, Value> = labels.collect();
    json!({"metadata": {"name": name, "labels": labels}})
}

#[tokio::test]
async fn a_stricter_namespace_names_the_pods_that_violate_it() {
    let registry = registry().await;
    create(&registry, "/api/v1/namespaces", secured("s", &[])).await;
    let pod = |name: &str, fields: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let path = "/api/v1/namespaces/s/pods";
    create(&registry, path, pod("good", json!({}))).await;
    create(&registry, path, pod("b", json!({"hostNetwork": true}))).await;
    create(&registry, path, pod("a", json!({"hostPID": true}))).await;
    create(&registry, path, pod("c", json!({"hostIPC": true}))).await;
    let path_volume = json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]});
    create(&registry, path, pod("v", path_volume)).await;

    let path = "/api/v1/namespaces/s";
    let label = |labels: &'static [(&str, &str)]| {
        let registry = &registry;
        async move {
            let mut live = send(registry, "GET", path, json!(null)).await.unwrap();
            live["metadata"]["labels"] = secured("s", labels)["metadata"]["labels"].clone();
            warnings_of(registry, "PUT", path, live).await
        }
    };
    let violated = |policy: &str| {
        format!("existing pods in namespace \"s\" violate the new PodSecurity enforce level \"{policy}\"")
    };
    let lines = [
        "a (and 2 other pods): host namespaces".to_owned(),
        "v: hostPath volumes".to_owned(),
    ];
    let all = |policy: &str| [&[violated(policy)][..], &lines].concat();
    assert_eq!(label(&[("enforce", "baseline")]).await, all("baseline:latest"));
    // Neither the same policy again nor one that only warns.
    assert!(
        label(&[("enforce", "baseline"), ("warn", "restricted")])
            .await
            .is_empty()
    );
    let older = label(&[("enforce", "baseline"), ("enforce-version", "v1.20")]).await;
    assert_eq!(older, all("baseline:v1.20"));
    assert!(label(&[("enforce", "privileged")]).await.is_empty());
}

#[tokio::test]
async fn pods_are_checked_again_when_their_images_or_debugging_containers_change() {
    let registry = registry().await;
    create(&registry, "/api/v1/namespaces", secured("s", &[])).await;
    let path = "/api/v1/namespaces/s/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]}});
    create(&registry, path, pod).await;
    let mut namespace = send(&registry, "GET", "/api/v1/namespaces/s", json!(null))
        .await
        .unwrap();
    namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = json!("baseline");
    send(&registry, "PUT", "/api/v1/namespaces/s", namespace)
        .await
        .unwrap();

    let path = format!("{path}/p");
    let mut live = send(&registry, "GET", &path, json!(null)).await.unwrap();
    live["metadata"]["labels"] = json!({"a": "b"});
    let mut live = send(&registry, "PUT", &path, live).await.unwrap();
    live["spec"]["containers"][0]["image"] = json!("other");
    let refused = send(&registry, "PUT", &path, live.clone()).await.unwrap_err();
    let why = "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    assert_eq!((refused.code, &*refused.message), (403, why));
    live["spec"]["containers"][0]["image"] = json!("i");
    live["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i"}]);
    let refused = send(&registry, "PUT", &format!("{path}/ephemeralcontainers"), live).await;
    assert_eq!(refused.unwrap_err().message, why);
}
