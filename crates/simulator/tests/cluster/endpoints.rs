//! Where services find their pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::support::{Cluster, pods, resource, selector};

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
async fn a_service_knows_its_pods_by_named_port() {
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
async fn many_pods_are_cut_into_slices_and_have_addresses_of_their_own() {
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
