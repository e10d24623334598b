//! Namespaces, garbage collection, and bare pods.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_meta::{DeleteOptions, PropagationPolicy};
use watchkeeper_runtime::factory::Selection;
use watchkeeper_server::{Flow, RequestMatch, Verb};

use crate::simulator::support::{Cluster, all_run, names, pods, resource, selector, template};

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_to_completion_ends() {
    let cluster = Cluster::start().await;
    let pod = |name: &str, code: &str| {
        json!({
            "metadata": {"name": name, "annotations": {"simulator.watchkeeper/exit-code": code}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "job:1"}]},
        })
    };
    cluster.create(&pods(), pod("well", "0")).await;
    cluster.create(&pods(), pod("badly", "3")).await;
    for (name, phase) in [("well", "Succeeded"), ("badly", "Failed")] {
        let ended = |pod: &Value| pod["status"]["phase"] == phase;
        cluster.until_one(&pods(), name, "the pod has ended", ended).await;
    }
    let code = &cluster.get(&pods(), "badly").await["status"]["containerStatuses"][0]["state"];
    assert_eq!(code["terminated"]["exitCode"], 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_deleted() {
    let cluster = Cluster::start().await;
    let pod = json!({
        "metadata": {"name": "one"},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": "node-2"}, "containers": [{"name": "c", "image": "web:1"}]},
    });
    cluster.create(&pods(), pod).await;
    cluster
        .until(&pods(), "the pod runs", |pods| all_run(pods, 1, "web:1"))
        .await;
    cluster.delete(&resource("", "nodes"), "node-2").await;
    cluster
        .until(&pods(), "the pod is gone", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_emptied_and_removed() {
    let cluster = Cluster::start().await;
    let namespaces = resource("", "namespaces");
    let api = cluster.client().dynamic(namespaces.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short"}});
    api.create(&namespace).await.unwrap();
    let is_there = |all: &[Value], name: &str| all.iter().any(|one| one["metadata"]["name"] == name);
    let mut maps = Selection::all(resource("", "configmaps"));
    maps.namespaces = vec!["short".to_owned()];
    cluster
        .until_selected(maps, "the namespace is complete", |maps| {
            is_there(maps, "kube-root-ca.crt")
        })
        .await;
    api.delete("short").await.unwrap();
    cluster
        .until(&namespaces, "the namespace is gone", |all| {
            !is_there(all, "short")
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_deleted_in_the_foreground_is_removed_last() {
    let cluster = Cluster::start().await;
    let deployments = resource("apps", "deployments");
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": selector("web"), "template": template("web", "web:1")},
    });
    cluster.create(&deployments, deployment).await;
    cluster
        .until(&pods(), "two pods run", |pods| all_run(pods, 2, "web:1"))
        .await;
    let foreground = DeleteOptions {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..Default::default()
    };
    cluster
        .api(&deployments)
        .delete("web")
        .with(&foreground)
        .await
        .unwrap();
    cluster
        .until(&deployments, "the deployment is gone", <[Value]>::is_empty)
        .await;
    let sets = cluster.api(&resource("apps", "replicasets"));
    let left = sets.list().await.unwrap();
    assert!(left.items.is_empty(), "the owner went before its dependents");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_by_a_matching_controller() {
    let cluster = Cluster::start().await;
    let orphan = DeleteOptions {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..Default::default()
    };
    for plural in ["deployments", "statefulsets", "daemonsets"] {
        let kind = resource("apps", plural);
        let mut object = json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": selector("web"), "template": template("web", "web:1")},
        });
        if plural == "daemonsets" {
            object["spec"]["replicas"].take();
        }
        cluster.create(&kind, object.clone()).await;
        cluster
            .until(&pods(), plural, |pods| all_run(pods, 2, "web:1"))
            .await;
        let uids = |pods: &[Value]| -> Vec<Value> {
            pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
        };
        let listed = cluster.api(&pods()).list().await.unwrap();
        let before: Vec<Value> = listed.items.iter().map(|pod| json!(pod.uid())).collect();
        cluster.api(&kind).delete("web").with(&orphan).await.unwrap();
        cluster.until(&kind, "it is gone", <[Value]>::is_empty).await;
        cluster.create(&kind, object).await;
        let settled = |web: &Value| {
            let ready = ["readyReplicas", "numberReady"]
                .iter()
                .any(|count| web["status"][count] == 2);
            ready && web["status"]["observedGeneration"] == 1
        };
        cluster
            .until_one(&kind, "web", "it has its pods back", settled)
            .await;
        cluster
            .until(&pods(), "they are the same", |pods| uids(pods) == before)
            .await;
        cluster.delete(&kind, "web").await;
        cluster.until(&pods(), "they go", <[Value]>::is_empty).await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dependents_of_an_owner_replaced_unseen_are_collected() {
    let cluster = Cluster::start().await;
    let (maps, secrets) = (resource("", "configmaps"), resource("", "secrets"));
    cluster
        .create(&maps, json!({"metadata": {"name": "owner"}}))
        .await;
    let uid = cluster.get(&maps, "owner").await["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    let dependent = json!({"metadata": {"name": "dependent", "ownerReferences": [owner]}});
    cluster.create(&secrets, dependent).await;
    // Time for both to be seen.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let watches = RequestMatch::new(Verb::Watch, "configmaps");
    cluster.server().faults().set_flow(&watches, Flow::Stalled);
    cluster.delete(&maps, "owner").await;
    cluster
        .create(&maps, json!({"metadata": {"name": "owner"}}))
        .await;
    let store = cluster.server().registry().store();
    store.compact(store.current_revision()).await.unwrap();
    cluster.server().faults().set_flow(&watches, Flow::Cut);
    let gone = |secrets: &[Value]| !names(secrets).contains(&"dependent");
    cluster.until(&secrets, "the dependent is gone", gone).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_role_includes_matching_roles() {
    let cluster = Cluster::start().await;
    let roles = resource("rbac.authorization.k8s.io", "clusterroles");
    let rule = json!({"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]});
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    let role = json!({"metadata": {"name": "widgets", "labels": {label: "true"}}, "rules": [rule]});
    cluster.create(&roles, role).await;
    let has = |role: &Value| role["rules"].as_array().unwrap().contains(&rule);
    // The aggregation is transitive: edit includes view, and admin includes edit.
    for name in ["view", "edit", "admin"] {
        cluster.until_one(&roles, name, "the rule is there", has).await;
    }
    cluster.delete(&roles, "widgets").await;
    for name in ["view", "edit", "admin"] {
        cluster
            .until_one(&roles, name, "the rule is gone", |role| !has(role))
            .await;
    }
    cluster.stop().await;
}
