//! Stateful sets: names, order, storage and revisions.

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::simulator::support::{Cluster, all_run, names, new_image, pods, resource, selector, template};

fn stateful_sets() -> Resource {
    resource("apps", "statefulsets")
}

fn claims() -> Resource {
    resource("", "persistentvolumeclaims")
}

fn stateful_set(replicas: u32, more: Value) -> Value {
    let mut set = json!({
        "metadata": {"name": "web"},
        "spec": {
            "serviceName": "web",
            "replicas": replicas,
            "selector": selector("web"),
            "template": template("web", "web:1"),
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        set["spec"][name] = value.clone();
    }
    set
}

/// True if all pods are ready and have the same template.
fn is_settled(set: &Value, replicas: u32) -> bool {
    let status = &set["status"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && status["currentRevision"] == status["updateRevision"]
        && [
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "currentReplicas",
            "updatedReplicas",
        ]
        .iter()
        .all(|count| status[count].as_u64().unwrap_or_default() == u64::from(replicas))
}

#[tokio::test(start_paused = true)]
async fn pods_have_stable_names_and_storage() {
    let cluster = Cluster::start().await;
    cluster.create(&stateful_sets(), stateful_set(3, json!({}))).await;
    cluster
        .until_one(&stateful_sets(), "web", "three pods run", |set| {
            is_settled(set, 3)
        })
        .await;
    let pod = cluster.get(&pods(), "web-1").await;
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-1");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(pod["spec"]["hostname"], "web-1");
    assert_eq!(pod["spec"]["subdomain"], "web");
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    assert!(
        volumes
            .iter()
            .any(|volume| volume["persistentVolumeClaim"]["claimName"] == "data-web-1")
    );
    let bound = |claim: &Value| {
        claim["status"]["phase"] == "Bound" && claim["status"]["capacity"]["storage"] == "1Gi"
    };
    cluster
        .until(&claims(), "claims are bound", |claims| {
            claims.len() == 3 && claims.iter().all(bound)
        })
        .await;

    cluster
        .patch(&stateful_sets(), "web", json!({"spec": {"replicas": 1}}))
        .await;
    cluster
        .until(&pods(), "one pod is left", |pods| names(pods) == ["web-0"])
        .await;
    cluster
        .until(&claims(), "disks stay", |claims| claims.len() == 3)
        .await;
    cluster.delete(&stateful_sets(), "web").await;
    cluster
        .until(&pods(), "no pod is left", <[Value]>::is_empty)
        .await;
    for claim in ["data-web-0", "data-web-1", "data-web-2"] {
        cluster.delete(&claims(), claim).await;
    }
    let volumes = resource("", "persistentvolumes");
    cluster
        .until(&volumes, "volumes are reclaimed", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

/// A set of two running pods whose claims are deleted with them.
async fn start_with_claims_deleted_with_pods() -> Cluster {
    let cluster = Cluster::start().await;
    let retention = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let set = stateful_set(2, json!({"persistentVolumeClaimRetentionPolicy": retention}));
    cluster.create(&stateful_sets(), set).await;
    cluster
        .until_one(&stateful_sets(), "web", "two pods run", |set| is_settled(set, 2))
        .await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn claims_are_deleted_by_the_retention_policy() {
    let cluster = start_with_claims_deleted_with_pods().await;
    cluster
        .patch(&stateful_sets(), "web", json!({"spec": {"replicas": 1}}))
        .await;
    cluster
        .until(&claims(), "one disk is left", |claims| {
            names(claims) == ["data-web-0"]
        })
        .await;
    cluster.delete(&stateful_sets(), "web").await;
    cluster
        .until(&claims(), "no disk is left", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_another_owner_outlives_its_pod() {
    let cluster = start_with_claims_deleted_with_pods().await;
    let config_maps = resource("", "configmaps");
    cluster
        .create(&config_maps, json!({"metadata": {"name": "keeper"}}))
        .await;
    let keeper = cluster.get(&config_maps, "keeper").await;
    let mut owners = cluster.get(&claims(), "data-web-1").await["metadata"]["ownerReferences"].clone();
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": keeper["metadata"]["uid"]});
    owners
        .as_array_mut()
        .expect("the set owns it")
        .push(owner.clone());
    cluster
        .patch(
            &claims(),
            "data-web-1",
            json!({"metadata": {"ownerReferences": owners}}),
        )
        .await;
    cluster
        .patch(&stateful_sets(), "web", json!({"spec": {"replicas": 1}}))
        .await;
    cluster
        .until_one(
            &claims(),
            "data-web-1",
            "its pod is no longer an owner",
            |claim| claim["metadata"]["ownerReferences"] == json!([owner]),
        )
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_template_is_rolled_out_by_partition_and_rolled_back() {
    let cluster = Cluster::start().await;
    cluster.create(&stateful_sets(), stateful_set(3, json!({}))).await;
    cluster
        .until_one(&stateful_sets(), "web", "three pods run", |set| {
            is_settled(set, 3)
        })
        .await;
    let first = cluster.get(&stateful_sets(), "web").await["status"]["currentRevision"].clone();

    let mut patch = new_image("web:2");
    patch["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 2}});
    cluster.patch(&stateful_sets(), "web", patch).await;
    let partly =
        |set: &Value| set["status"]["updatedReplicas"] == 1 && set["status"]["availableReplicas"] == 3;
    cluster
        .until_one(&stateful_sets(), "web", "one pod is new", partly)
        .await;
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].clone();
    assert_eq!(image(&cluster.get(&pods(), "web-2").await), "web:2");
    assert_eq!(image(&cluster.get(&pods(), "web-1").await), "web:1");
    // A pod below the partition is recreated from the old template.
    cluster.delete(&pods(), "web-0").await;
    cluster
        .until_one(&pods(), "web-0", "it is back", |pod| {
            all_run(std::slice::from_ref(pod), 1, "web:1")
        })
        .await;

    let all = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    cluster.patch(&stateful_sets(), "web", all).await;
    cluster
        .until(&pods(), "all are new", |pods| all_run(pods, 3, "web:2"))
        .await;
    cluster.patch(&stateful_sets(), "web", new_image("web:1")).await;
    cluster
        .until(&pods(), "all are old", |pods| all_run(pods, 3, "web:1"))
        .await;
    let back = |set: &Value| is_settled(set, 3) && set["status"]["currentRevision"] == first;
    cluster
        .until_one(&stateful_sets(), "web", "the first revision is the latest", back)
        .await;
    let revisions = resource("apps", "controllerrevisions");
    let mut numbers = Vec::new();
    for revision in cluster.api(&revisions).list().await.unwrap().items {
        numbers.push(revision.to_value().unwrap()["revision"].as_i64());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(2), Some(3)]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_on_delete_only_deleted_pods_get_the_new_template() {
    let cluster = Cluster::start().await;
    let more = json!({"updateStrategy": {"type": "OnDelete"}, "podManagementPolicy": "Parallel"});
    cluster.create(&stateful_sets(), stateful_set(2, more)).await;
    cluster
        .until(&pods(), "two pods run", |pods| all_run(pods, 2, "web:1"))
        .await;
    cluster.patch(&stateful_sets(), "web", new_image("web:2")).await;
    let seen =
        |set: &Value| set["status"]["observedGeneration"] == 2 && set["status"]["updatedReplicas"].is_null();
    cluster
        .until_one(&stateful_sets(), "web", "the template is seen", seen)
        .await;
    cluster.delete(&pods(), "web-1").await;
    cluster
        .until_one(&pods(), "web-1", "it is new", |pod| {
            all_run(std::slice::from_ref(pod), 1, "web:2")
        })
        .await;
    assert_eq!(
        cluster.get(&pods(), "web-0").await["spec"]["containers"][0]["image"],
        "web:1"
    );
    cluster.stop().await;
}
