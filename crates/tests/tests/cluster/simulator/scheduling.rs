//! Scheduling, and the reasons pods stay unscheduled.

use serde_json::{Value, json};
use watchkeeper_meta::PatchKind;
use watchkeeper_simulator::SimulatorOptions;

use crate::simulator::events::until_told;
use crate::simulator::support::{Cluster, holds, pods, quick, resource};

async fn start(nodes: usize) -> Cluster {
    Cluster::start_with(SimulatorOptions { nodes, ..quick() }).await
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn requesting(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}]})
}

/// Waits until a pod is unschedulable with this message.
async fn until_refused(cluster: &Cluster, name: &str, words: &str) {
    let is_refused = |pod: &Value| {
        let conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.iter().any(|condition| {
            condition["type"] == "PodScheduled"
                && condition["status"] == "False"
                && condition["reason"] == "Unschedulable"
                && condition["message"] == words
        })
    };
    cluster.until_one(&pods(), name, words, is_refused).await;
    until_told(
        cluster,
        "default-scheduler",
        &format!("Pod/{name}"),
        "FailedScheduling",
        words,
    )
    .await;
}

async fn until_ready(cluster: &Cluster, name: &str) -> String {
    cluster
        .until_one(&pods(), name, &format!("{name} runs"), |pod| holds(pod, "Ready"))
        .await;
    let pod = cluster.get(&pods(), name).await;
    pod["spec"]["nodeName"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn nodes_have_the_well_known_labels() {
    let cluster = start(4).await;
    let nodes = resource("", "nodes");
    let mut zones = Vec::new();
    for number in 1..=4 {
        let node = cluster.get(&nodes, &format!("node-{number}")).await;
        let label = |name: &str| {
            node["metadata"]["labels"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(label("kubernetes.io/arch"), "amd64");
        assert_eq!(label("kubernetes.io/os"), "linux");
        assert_eq!(label("kubernetes.io/hostname"), format!("node-{number}"));
        assert_eq!(label("topology.kubernetes.io/region"), "simulated");
        zones.push(label("topology.kubernetes.io/zone"));
    }
    assert_eq!(
        zones,
        ["simulated-a", "simulated-b", "simulated-c", "simulated-a"]
    );
    let ready = "Node node-1 status is now: NodeReady";
    until_told(&cluster, "kubelet", "Node/node-1", "NodeReady", ready).await;
    let registered = "Node node-1 event: Registered Node node-1 in Controller";
    until_told(
        &cluster,
        "node-controller",
        "Node/node-1",
        "RegisteredNode",
        registered,
    )
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_enough_resources_waits_with_the_reason() {
    let cluster = start(2).await;
    for name in ["a", "b"] {
        cluster.create(&pods(), pod(name, requesting("20"))).await;
        until_ready(&cluster, name).await;
    }
    cluster.create(&pods(), pod("c", requesting("20"))).await;
    until_refused(
        &cluster,
        "c",
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: \
         2 No preemption victims found for incoming pod.",
    )
    .await;
    cluster.create(&pods(), pod("d", requesting("100"))).await;
    until_refused(
        &cluster,
        "d",
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: \
         2 Preemption is not helpful for scheduling.",
    )
    .await;
    let gone = cluster.get(&pods(), "a").await["spec"]["nodeName"].clone();
    cluster.delete(&pods(), "a").await;
    assert_eq!(until_ready(&cluster, "c").await, gone, "it takes the place");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_reasons_of_all_nodes_are_reported() {
    let cluster = start(3).await;
    let nodes = resource("", "nodes");
    cluster
        .patch(&nodes, "node-1", json!({"spec": {"unschedulable": true}}))
        .await;
    let taint = json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}});
    cluster.patch(&nodes, "node-2", taint).await;
    let lost = json!({"nodeSelector": {"disk": "ssd"}});
    cluster.create(&pods(), pod("lost", lost)).await;
    until_refused(
        &cluster,
        "lost",
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
         1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: \
         0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
    )
    .await;
    let claim = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]});
    cluster.create(&pods(), pod("claimless", claim)).await;
    until_refused(
        &cluster,
        "claimless",
        "0/3 nodes are available: persistentvolumeclaim \"none\" not found. no new claims to deallocate, preemption: \
         0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
    )
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pod_affinity_and_anti_affinity_are_respected() {
    let cluster = start(2).await;
    let term =
        |app: &str, key: &str| json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    let affinity = |kind: &str, term: Value| json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let mut alone = pod(
        "one",
        affinity("podAntiAffinity", term("web", "kubernetes.io/hostname")),
    );
    alone["metadata"]["labels"]["app"] = json!("web");
    cluster.create(&pods(), alone.clone()).await;
    let first = until_ready(&cluster, "one").await;
    alone["metadata"]["name"] = json!("two");
    cluster.create(&pods(), alone.clone()).await;
    assert_ne!(until_ready(&cluster, "two").await, first);
    alone["metadata"]["name"] = json!("three");
    cluster.create(&pods(), alone).await;
    until_refused(
        &cluster,
        "three",
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules. no new claims to deallocate, preemption: \
         0/2 nodes are available: 2 No preemption victims found for incoming pod.",
    )
    .await;
    let near = affinity("podAffinity", term("nobody", "kubernetes.io/hostname"));
    cluster.create(&pods(), pod("lonely", near)).await;
    until_refused(
        &cluster,
        "lonely",
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules. no new claims to deallocate, preemption: \
         0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    )
    .await;
    let here = json!({"nodeSelector": {"kubernetes.io/hostname": first}});
    cluster.create(&pods(), pod("anchor", here)).await;
    until_ready(&cluster, "anchor").await;
    let near = affinity("podAffinity", term("anchor", "kubernetes.io/hostname"));
    cluster.create(&pods(), pod("near", near)).await;
    assert_eq!(until_ready(&cluster, "near").await, first);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn topology_spread_constraints_are_respected() {
    let cluster = start(3).await;
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    let mut nodes = std::collections::BTreeSet::new();
    for name in ["one", "two", "three"] {
        let mut pod = pod(name, spread.clone());
        pod["metadata"]["labels"]["app"] = json!("web");
        cluster.create(&pods(), pod).await;
        nodes.insert(until_ready(&cluster, name).await);
    }
    assert_eq!(nodes.len(), 3, "one in each zone");
    let mut fourth = pod("four", spread);
    fourth["metadata"]["labels"]["app"] = json!("web");
    cluster.create(&pods(), fourth).await;
    let first = until_ready(&cluster, "four").await;
    let mut fifth = cluster.get(&pods(), "four").await["spec"].clone();
    fifth["nodeName"].take();
    let mut fifth = pod(
        "five",
        json!({"topologySpreadConstraints": fifth["topologySpreadConstraints"]}),
    );
    fifth["metadata"]["labels"]["app"] = json!("web");
    fifth["spec"]["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": {"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [first]},
        ]}},
    ]}});
    cluster.create(&pods(), fifth).await;
    assert_ne!(
        until_ready(&cluster, "five").await,
        first,
        "that zone has one more already"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_higher_priority_preempts_another() {
    let cluster = start(1).await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    cluster
        .create(&resource("scheduling.k8s.io", "priorityclasses"), class)
        .await;
    cluster.create(&pods(), pod("low", requesting("30"))).await;
    until_ready(&cluster, "low").await;
    let mut spec = requesting("30");
    spec["priorityClassName"] = json!("high");
    cluster.create(&pods(), pod("high", spec)).await;
    until_ready(&cluster, "high").await;
    until_told(
        &cluster,
        "default-scheduler",
        "Pod/low",
        "Preempted",
        "Preempted by pod ",
    )
    .await;
    cluster
        .until(&pods(), "the other is gone", |pods| {
            !crate::simulator::support::names(pods).contains(&"low")
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_takes_the_node_it_prefers_or_the_one_with_the_fewest_pods() {
    let cluster = start(3).await;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        cluster.create(&pods(), pod(name, json!({}))).await;
        nodes.push(until_ready(&cluster, name).await);
    }
    assert_eq!(nodes, ["node-1", "node-2", "node-3"]);
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-3"]}]});
    let preferred = json!([{"weight": 1, "preference": term}]);
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    cluster
        .create(&pods(), pod("choosy", json!({"affinity": affinity})))
        .await;
    assert_eq!(until_ready(&cluster, "choosy").await, "node-3");
    cluster.delete(&pods(), "b").await;
    cluster
        .until(&pods(), "b is gone", |pods| {
            !crate::simulator::support::names(pods).contains(&"b")
        })
        .await;
    cluster.create(&pods(), pod("d", json!({}))).await;
    assert_eq!(until_ready(&cluster, "d").await, "node-2");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_tainted_node_is_for_pods_that_tolerate_it_and_waiting_pods_get_it_without_the_taint() {
    let cluster = start(1).await;
    let taints = |taints: Value| json!({"spec": {"taints": taints}});
    let flood = json!([{"key": "flood", "effect": "NoSchedule"}]);
    cluster
        .patch(&resource("", "nodes"), "node-1", taints(flood))
        .await;
    cluster.create(&pods(), pod("dry", json!({}))).await;
    let words = "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/1 nodes are available: \
                 1 Preemption is not helpful for scheduling.";
    until_refused(&cluster, "dry", words).await;
    let brave = json!({"tolerations": [{"key": "flood", "operator": "Exists"}]});
    cluster.create(&pods(), pod("brave", brave)).await;
    assert_eq!(until_ready(&cluster, "brave").await, "node-1");
    cluster
        .patch(&resource("", "nodes"), "node-1", taints(json!([])))
        .await;
    assert_eq!(until_ready(&cluster, "dry").await, "node-1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_label_or_size_of_a_node_counts_for_the_next_pod() {
    let cluster = start(1).await;
    let nodes = resource("", "nodes");
    let refused = |why: &str| {
        format!(
            "0/1 nodes are available: 1 {why}. no new claims to deallocate, preemption: 0/1 nodes are available: \
             1 Preemption is not helpful for scheduling."
        )
    };
    let elsewhere = refused("node(s) didn't match Pod's node affinity/selector");
    let fast = json!({"nodeSelector": {"disk": "ssd"}});
    cluster.create(&pods(), pod("fast", fast.clone())).await;
    until_refused(&cluster, "fast", &elsewhere).await;
    let label = |disk: Value| json!({"metadata": {"labels": {"disk": disk}}});
    cluster.patch(&nodes, "node-1", label(json!("ssd"))).await;
    until_ready(&cluster, "fast").await;
    cluster.patch(&nodes, "node-1", label(Value::Null)).await;
    cluster.create(&pods(), pod("late", fast)).await;
    until_refused(&cluster, "late", &elsewhere).await;

    cluster.create(&pods(), pod("big", requesting("40"))).await;
    until_refused(&cluster, "big", &refused("Insufficient cpu")).await;
    let resize = async |cpu: &str| {
        let status = cluster.api(&nodes).subresource("status");
        let size = json!({"status": {"capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu}}});
        status.patch("node-1", PatchKind::Merge, &size).await.unwrap();
    };
    resize("48").await;
    until_ready(&cluster, "big").await;
    resize("44").await;
    cluster.create(&pods(), pod("next", requesting("8"))).await;
    let crowded = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are \
                   available: 1 No preemption victims found for incoming pod.";
    until_refused(&cluster, "next", crowded).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_gets_no_pods_and_a_new_one_of_its_name_starts_empty() {
    let cluster = start(2).await;
    let nodes = resource("", "nodes");
    let on_the_first = |cpu: &str| {
        let mut spec = requesting(cpu);
        spec["nodeSelector"] = json!({"kubernetes.io/hostname": "node-1"});
        spec
    };
    cluster.create(&pods(), pod("old", on_the_first("20"))).await;
    assert_eq!(until_ready(&cluster, "old").await, "node-1");
    cluster.delete(&nodes, "node-1").await;
    cluster
        .until(&pods(), "its pod is gone", <[Value]>::is_empty)
        .await;
    for name in ["a", "b"] {
        cluster.create(&pods(), pod(name, json!({}))).await;
        assert_eq!(until_ready(&cluster, name).await, "node-2");
    }
    cluster.create(&pods(), pod("new", on_the_first("20"))).await;
    let words = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to \
                 deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    until_refused(&cluster, "new", words).await;

    let labels = json!({"kubernetes.io/hostname": "node-1"});
    cluster
        .create(&nodes, json!({"metadata": {"name": "node-1", "labels": labels}}))
        .await;
    assert_eq!(until_ready(&cluster, "new").await, "node-1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_another_scheduler_are_ignored() {
    let cluster = start(1).await;
    cluster
        .create(&pods(), pod("theirs", json!({"schedulerName": "another"})))
        .await;
    cluster.create(&pods(), pod("ours", json!({}))).await;
    until_ready(&cluster, "ours").await;
    assert!(cluster.get(&pods(), "theirs").await["spec"]["nodeName"].is_null());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_toleration_are_evicted_from_a_tainted_node() {
    let cluster = start(1).await;
    let bears = |seconds: Value| {
        json!({"tolerations": [
            {"key": "flood", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds},
        ]})
    };
    cluster.create(&pods(), pod("dry", json!({}))).await;
    cluster.create(&pods(), pod("brave", bears(Value::Null))).await;
    cluster.create(&pods(), pod("patient", bears(json!(100)))).await;
    for name in ["dry", "brave", "patient"] {
        until_ready(&cluster, name).await;
    }
    let flood = json!({"spec": {"taints": [{"key": "flood", "effect": "NoExecute"}]}});
    cluster.patch(&resource("", "nodes"), "node-1", flood).await;
    let before = tokio::time::Instant::now();
    let left = |pods: &[Value]| crate::simulator::support::names(pods).join(" ");
    cluster
        .until(&pods(), "one leaves at once", |pods| {
            left(pods) == "brave patient"
        })
        .await;
    until_told(
        &cluster,
        "taint-eviction-controller",
        "Pod/dry",
        "TaintManagerEviction",
        "Marking for deletion Pod default/dry",
    )
    .await;
    cluster
        .until(&pods(), "one leaves later", |pods| left(pods) == "brave")
        .await;
    assert!(before.elapsed().as_secs() >= 99);
    cluster.stop().await;
}
