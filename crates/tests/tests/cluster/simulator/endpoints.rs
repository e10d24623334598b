//! Endpoints and endpoint slices of services.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::simulator::support::{Cluster, pods, resource, selector};

fn slices() -> Resource {
    resource("discovery.k8s.io", "endpointslices")
}

fn endpoints() -> Resource {
    resource("", "endpoints")
}

fn deployment(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": selector("web"),
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "c", "image": "web:1", "ports": [{"name": "http", "containerPort": 8080}],
                }]},
            },
        },
    })
}

fn service(port: Value) -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "main", "port": 80, "targetPort": port}]},
    })
}

/// All endpoints of all slices of a service.
fn endpoints_in(slices: &[Value]) -> Vec<Value> {
    let of_web = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
    let web = slices.iter().filter(of_web);
    web.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default())
        .collect()
}

fn are_ready(endpoints: &[Value], count: usize) -> bool {
    endpoints.len() == count
        && endpoints
            .iter()
            .all(|endpoint| endpoint["conditions"]["ready"] == true)
}

#[tokio::test(start_paused = true)]
async fn a_service_resolves_named_ports_of_its_pods() {
    let cluster = Cluster::start().await;
    cluster
        .create(&resource("", "services"), service(json!("http")))
        .await;
    cluster
        .create(&resource("apps", "deployments"), deployment(2))
        .await;
    cluster
        .until(&slices(), "two are ready", |slices| {
            are_ready(&endpoints_in(slices), 2)
        })
        .await;
    let listed = cluster.api(&slices()).list().await.unwrap();
    let values = listed.items.iter().map(|slice| slice.to_value().unwrap());
    let slice = values
        .into_iter()
        .find(|slice| !endpoints_in(std::slice::from_ref(slice)).is_empty())
        .unwrap();
    assert_eq!(
        slice["ports"],
        json!([{"name": "main", "port": 8080, "protocol": "TCP"}])
    );
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": "web",
            "team": "a",
        })
    );
    let first = &slice["endpoints"][0];
    assert_eq!(first["targetRef"]["kind"], "Pod");
    assert!(first["nodeName"].is_string());
    assert_eq!(
        first["conditions"],
        json!({"ready": true, "serving": true, "terminating": false})
    );

    let addresses = |web: &Value| web["subsets"][0]["addresses"].as_array().map_or(0, Vec::len);
    cluster
        .until_one(&endpoints(), "web", "the older form agrees", |web| {
            addresses(web) == 2
        })
        .await;
    let never_ready = json!({"metadata": {"annotations": {"simulator.watchkeeper/ready": "false"}}});
    let name = first["targetRef"]["name"].as_str().unwrap();
    cluster.patch(&pods(), name, never_ready).await;
    let one = |slices: &[Value]| {
        let ready = |endpoint: &&Value| endpoint["conditions"]["ready"] == true;
        endpoints_in(slices).iter().filter(ready).count() == 1
    };
    cluster.until(&slices(), "one is not ready", one).await;
    cluster
        .until_one(&endpoints(), "web", "the older form agrees", |web| {
            addresses(web) == 1 && web["subsets"][0]["notReadyAddresses"].is_array()
        })
        .await;
    cluster.delete(&resource("", "services"), "web").await;
    cluster
        .until(&slices(), "slices go with the service", |slices| {
            endpoints_in(slices).is_empty()
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_split_into_slices_with_distinct_addresses() {
    let cluster = Cluster::start().await;
    let mut headless = service(json!(8080));
    headless["spec"]["clusterIP"] = json!("None");
    cluster.create(&resource("", "services"), headless).await;
    cluster
        .create(&resource("apps", "deployments"), deployment(101))
        .await;
    let cut = |slices: &[Value]| {
        let sizes = slices
            .iter()
            .map(|slice| endpoints_in(std::slice::from_ref(slice)).len());
        let endpoints = endpoints_in(slices);
        let addresses: BTreeSet<String> = endpoints
            .iter()
            .map(|one| one["addresses"][0].to_string())
            .collect();
        are_ready(&endpoints, 101) && addresses.len() == 101 && sizes.into_iter().all(|size| size <= 100)
    };
    cluster.until(&slices(), "all are ready", cut).await;
    cluster
        .patch(
            &resource("apps", "deployments"),
            "web",
            json!({"spec": {"replicas": 1}}),
        )
        .await;
    cluster
        .until(&slices(), "one is left", |slices| {
            are_ready(&endpoints_in(slices), 1)
        })
        .await;
    cluster.stop().await;
}

/// The slices of the service `web`, whichever controller manages them.
fn of_web(slices: &[Value]) -> Vec<Value> {
    let is_of_web = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
    slices.iter().filter(is_of_web).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn endpoints_written_by_hand_are_mirrored_into_slices() {
    let cluster = Cluster::start().await;
    let mut service = service(json!(80));
    service["spec"]["selector"].take();
    cluster.create(&resource("", "services"), service).await;
    let by_hand = json!({
        "metadata": {
            "name": "web",
            "labels": {"team": "b"},
            "annotations": {"note": "kept", "endpoints.kubernetes.io/last-change-trigger-time": "not kept"},
        },
        "subsets": [{
            "addresses": [{"ip": "10.1.2.3", "nodeName": "node-1"}, {"ip": "2001:db8::1"}],
            "notReadyAddresses": [{"ip": "10.1.2.4", "hostname": "four"}],
            "ports": [{"name": "http", "port": 8080}],
        }],
    });
    cluster.create(&endpoints(), by_hand).await;
    cluster
        .until(&slices(), "there is a slice for each kind of address", |slices| {
            of_web(slices).len() == 2
        })
        .await;
    let listed = cluster.api(&slices()).list().await.unwrap();
    let all: Vec<Value> = listed
        .items
        .iter()
        .map(|slice| slice.to_value().unwrap())
        .collect();
    let web = of_web(&all);
    let slice = web.iter().find(|slice| slice["addressType"] == "IPv4").unwrap();
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            "kubernetes.io/service-name": "web",
            "team": "b",
        })
    );
    assert_eq!(slice["metadata"]["annotations"], json!({"note": "kept"}));
    let owner = &slice["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"]),
        (&json!("Endpoints"), &json!("web"))
    );
    assert_eq!(
        slice["ports"],
        json!([{"name": "http", "port": 8080, "protocol": "TCP"}])
    );
    assert_eq!(
        slice["endpoints"],
        json!([
            {"addresses": ["10.1.2.3"], "conditions": {"ready": true}, "nodeName": "node-1"},
            {"addresses": ["10.1.2.4"], "conditions": {"ready": false}, "hostname": "four"},
        ])
    );
    let moved =
        json!({"subsets": [{"addresses": [{"ip": "10.1.2.9"}], "ports": [{"name": "http", "port": 81}]}]});
    cluster.patch(&endpoints(), "web", moved).await;
    cluster
        .until(&slices(), "the slices follow", |slices| {
            let web = of_web(slices);
            let addresses: Vec<&Value> = web
                .iter()
                .map(|slice| &slice["endpoints"][0]["addresses"])
                .collect();
            addresses == [&json!(["10.1.2.9"])] && web[0]["ports"][0]["port"] == 81
        })
        .await;
    cluster.delete(&endpoints(), "web").await;
    cluster
        .until(&slices(), "the slices go with the endpoints", |slices| {
            of_web(slices).is_empty()
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_deleted_with_their_service_and_kept_without_one() {
    let cluster = Cluster::start().await;
    let alone = json!({"metadata": {"name": "alone"}, "subsets": []});
    cluster.create(&endpoints(), alone).await;
    cluster
        .create(&resource("", "services"), service(json!(80)))
        .await;
    let has = |all: &[Value], name: &str| crate::simulator::support::names(all).contains(&name);
    cluster
        .until(&endpoints(), "the service has endpoints", |all| has(all, "web"))
        .await;
    cluster.delete(&resource("", "services"), "web").await;
    cluster
        .until(&endpoints(), "they go with it", |all| {
            !has(all, "web") && has(all, "alone")
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slices_get_new_labels_of_their_service() {
    let cluster = Cluster::start().await;
    cluster
        .create(&resource("", "services"), service(json!(80)))
        .await;
    cluster
        .until(&slices(), "there is a slice", |slices| of_web(slices).len() == 1)
        .await;
    let labels = json!({"metadata": {"labels": {"team": null, "tier": "front"}}});
    cluster.patch(&resource("", "services"), "web", labels).await;
    cluster
        .until(&slices(), "the slice has them", |slices| {
            let labels = &of_web(slices)[0]["metadata"]["labels"];
            labels["team"].is_null() && labels["tier"] == "front"
        })
        .await;
    cluster.stop().await;
}
