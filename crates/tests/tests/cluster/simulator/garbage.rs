//! The garbage collector.

use serde_json::{Value, json};
use watchkeeper_meta::{DeleteOptions, PropagationPolicy, Resource};
use watchkeeper_runtime::factory::Selection;

use crate::simulator::events::until_told;
use crate::simulator::support::{Cluster, names, resource};

fn maps() -> Resource {
    resource("", "configmaps")
}

fn secrets() -> Resource {
    resource("", "secrets")
}

/// An owner reference with `blockOwnerDeletion`.
fn blocking(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    })
}

async fn create(cluster: &Cluster, kind: &Resource, name: &str, owners: &[Value]) -> Value {
    cluster
        .create(
            kind,
            json!({"metadata": {"name": name, "ownerReferences": owners}}),
        )
        .await;
    cluster.get(kind, name).await
}

async fn delete(cluster: &Cluster, kind: &Resource, name: &str, policy: PropagationPolicy) {
    let options = DeleteOptions {
        propagation_policy: Some(policy),
        ..Default::default()
    };
    cluster.api(kind).delete(name).with(&options).await.unwrap();
}

async fn until_gone(cluster: &Cluster, kind: &Resource, name: &str) {
    let gone = |all: &[Value]| !names(all).contains(&name);
    cluster.until(kind, &format!("{name} is gone"), gone).await;
}

fn owner_names(object: &Value) -> Vec<&str> {
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    owners.filter_map(|owner| owner["name"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_dependent_with_another_owner_survives_foreground_deletion() {
    let cluster = Cluster::start().await;
    let going = create(&cluster, &maps(), "going", &[]).await;
    let staying = create(&cluster, &maps(), "staying", &[]).await;
    for number in 0..10 {
        let both = [blocking(&going), blocking(&staying)];
        let owners = if number % 2 == 0 { &both[..] } else { &both[..1] };
        create(&cluster, &secrets(), &format!("s{number}"), owners).await;
    }
    delete(&cluster, &maps(), "going", PropagationPolicy::Foreground).await;
    until_gone(&cluster, &maps(), "going").await;
    let listed = cluster.api(&secrets()).list().await.unwrap();
    let left: Vec<Value> = listed.items.iter().map(|one| one.to_value().unwrap()).collect();
    assert_eq!(names(&left), ["s0", "s2", "s4", "s6", "s8"]);
    for secret in &left {
        assert_eq!(owner_names(secret), ["staying"]);
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dependent_with_another_owner_loses_the_reference_to_a_deleted_one() {
    let cluster = Cluster::start().await;
    let going = create(&cluster, &maps(), "going", &[]).await;
    let staying = create(&cluster, &maps(), "staying", &[]).await;
    create(
        &cluster,
        &secrets(),
        "both",
        &[blocking(&going), blocking(&staying)],
    )
    .await;
    delete(&cluster, &maps(), "going", PropagationPolicy::Background).await;
    let one = |both: &Value| owner_names(both) == ["staying"];
    cluster
        .until_one(&secrets(), "both", "it has one owner", one)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_ownership_cycle_does_not_block_itself() {
    let cluster = Cluster::start().await;
    let one = create(&cluster, &maps(), "one", &[]).await;
    let two = create(&cluster, &maps(), "two", &[blocking(&one)]).await;
    let three = create(&cluster, &maps(), "three", &[blocking(&two)]).await;
    let closed = json!({"metadata": {"ownerReferences": [blocking(&three)]}});
    cluster.patch(&maps(), "one", closed).await;
    delete(&cluster, &maps(), "one", PropagationPolicy::Foreground).await;
    for name in ["one", "two", "three"] {
        until_gone(&cluster, &maps(), name).await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_all_levels_of_dependents() {
    let cluster = Cluster::start().await;
    let top = create(&cluster, &maps(), "top", &[]).await;
    let middle = create(&cluster, &maps(), "middle", &[blocking(&top)]).await;
    let held = json!({"metadata": {
        "name": "bottom", "ownerReferences": [blocking(&middle)], "finalizers": ["example.com/held"],
    }});
    cluster.create(&secrets(), held).await;
    delete(&cluster, &maps(), "top", PropagationPolicy::Foreground).await;
    let going = |bottom: &Value| bottom["metadata"]["deletionTimestamp"].is_string();
    cluster
        .until_one(&secrets(), "bottom", "the bottom is going", going)
        .await;
    for name in ["top", "middle"] {
        assert!(going(&cluster.get(&maps(), name).await), "{name} waits");
    }
    cluster
        .patch(&secrets(), "bottom", json!({"metadata": {"finalizers": null}}))
        .await;
    until_gone(&cluster, &maps(), "top").await;
    until_gone(&cluster, &maps(), "middle").await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_does_not_wait_for_non_blocking_dependents() {
    let cluster = Cluster::start().await;
    let owner = create(&cluster, &maps(), "owner", &[]).await;
    let mut reference = blocking(&owner);
    reference["blockOwnerDeletion"] = json!(false);
    let held = json!({"metadata": {
        "name": "held", "ownerReferences": [reference], "finalizers": ["example.com/held"],
    }});
    cluster.create(&secrets(), held).await;
    delete(&cluster, &maps(), "owner", PropagationPolicy::Foreground).await;
    until_gone(&cluster, &maps(), "owner").await;
    let going = |held: &Value| held["metadata"]["deletionTimestamp"].is_string();
    cluster.until_one(&secrets(), "held", "it is going", going).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_orphan_keeps_its_other_owners() {
    let cluster = Cluster::start().await;
    let going = create(&cluster, &maps(), "going", &[]).await;
    let staying = create(&cluster, &maps(), "staying", &[]).await;
    create(&cluster, &secrets(), "one", &[blocking(&going)]).await;
    create(
        &cluster,
        &secrets(),
        "both",
        &[blocking(&going), blocking(&staying)],
    )
    .await;
    delete(&cluster, &maps(), "going", PropagationPolicy::Orphan).await;
    until_gone(&cluster, &maps(), "going").await;
    assert!(owner_names(&cluster.get(&secrets(), "one").await).is_empty());
    assert_eq!(owner_names(&cluster.get(&secrets(), "both").await), ["staying"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_does_not_count() {
    let cluster = Cluster::start().await;
    let api = cluster.client().dynamic(maps()).namespace("kube-system");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let owner = api.create(&owner).await.unwrap().to_value().unwrap();
    cluster
        .create(
            &secrets(),
            json!({"metadata": {"name": "lost", "ownerReferences": [blocking(&owner)]}}),
        )
        .await;
    until_gone(&cluster, &secrets(), "lost").await;
    let who = "garbage-collector-controller";
    let words = "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: ";
    until_told(&cluster, who, "Secret/lost", "OwnerRefInvalidNamespace", words).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_object_with_an_owner_in_a_namespace_stays() {
    let cluster = Cluster::start().await;
    let roles = resource("rbac.authorization.k8s.io", "clusterroles");
    let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "nobody"});
    let role = json!({"metadata": {"name": "kept", "ownerReferences": [nobody]}});
    cluster.create(&roles, role).await;
    let owner = create(&cluster, &maps(), "owner", &[]).await;
    create(&cluster, &secrets(), "dependent", &[blocking(&owner)]).await;
    // Other garbage is collected meanwhile.
    delete(&cluster, &maps(), "owner", PropagationPolicy::Background).await;
    until_gone(&cluster, &secrets(), "dependent").await;
    let kept = |roles: &[Value]| names(roles).contains(&"kept");
    cluster
        .until_selected(Selection::all(roles), "it is kept", kept)
        .await;
    cluster.stop().await;
}
