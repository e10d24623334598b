//! Lists of other built-in kinds.

use serde_json::{Value, json};

use crate::growth::{Call, Cluster, Item, list, map};

const DEFAULT: &str = "namespaces/default";

fn spec(path: &str, spec: Value) -> Call {
    Call::try_post(path, json!({"metadata": {"name": "x"}, "spec": spec}))
}

#[tokio::test]
async fn networks() {
    let mut cluster = Cluster::start().await;
    let services = format!("/api/v1/{DEFAULT}/services");
    let ports: [(&str, Item); 3] = [
        (
            "ports of a service",
            |index| json!({"name": format!("p{index}"), "port": 1 + index}),
        ),
        ("equal ports of a service", |_| json!({"name": "p", "port": 80})),
        (
            "impossible ports of a service",
            |_| json!({"port": 0, "protocol": "?"}),
        ),
    ];
    for (name, item) in ports {
        cluster
            .grows_in_proportion(name, 250, |n| spec(&services, json!({"ports": list(n, item)})))
            .await;
    }
    for (kind, field, item) in [
        ("NodePort", "externalIPs", "10.0.0.1"),
        ("LoadBalancer", "loadBalancerSourceRanges", "10.0.0.0/8"),
        ("ClusterIP", "clusterIPs", "10.96.0.1"),
        ("ClusterIP", "ipFamilies", "IPv4"),
    ] {
        cluster
            .grows_in_proportion(field, 250, |n| {
                let ports = json!([{"port": 80}]);
                spec(
                    &services,
                    json!({"type": kind, "ports": ports, field: list(n, |_| json!(item))}),
                )
            })
            .await;
    }
    let ingresses = format!("/apis/networking.k8s.io/v1/{DEFAULT}/ingresses");
    cluster
        .grows_in_proportion("rules of an ingress", 120, |n| {
            let rules = list(n, |index| {
                let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
                let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
                json!({"host": format!("h{index}.example.com"), "http": {"paths": paths}})
            });
            spec(&ingresses, json!({"rules": rules}))
        })
        .await;
    cluster
        .grows_in_proportion("hosts of an ingress", 250, |n| {
            let hosts = list(n, |index| json!(format!("h{index}.example.com")));
            let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
            spec(
                &ingresses,
                json!({"defaultBackend": backend, "tls": [{"hosts": hosts}]}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("rules of a network policy", 120, |n| {
            let rules = list(n, |index| {
                json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
                    "ports": [{"port": 1 + index}]})
            });
            spec(
                &format!("/apis/networking.k8s.io/v1/{DEFAULT}/networkpolicies"),
                json!({"podSelector": {}, "ingress": rules}),
            )
        })
        .await;
    let endpoints = |n: usize| {
        let address = |index: usize| format!("10.1.{}.{}", index / 256 % 256, index % 256);
        let slice = json!({
            "metadata": {"name": "x"}, "addressType": "IPv4",
            "endpoints": list(n, |index| json!({"addresses": [address(index)]})),
            "ports": list(n, |index| json!({"name": format!("p{index}"), "port": 1 + index})),
        });
        Call::try_post(
            &format!("/apis/discovery.k8s.io/v1/{DEFAULT}/endpointslices"),
            slice,
        )
    };
    cluster.grows_in_proportion("endpoints", 500, endpoints).await;
    cluster
        .grows_in_proportion("subsets", 120, |n| {
            let subsets = list(n, |index| {
                let address = format!("10.1.{}.{}", index / 256 % 256, index % 256);
                json!({"addresses": [{"ip": address}], "ports": [{"port": 80}]})
            });
            let object = json!({"metadata": {"name": "x"}, "subsets": subsets});
            Call::try_post(&format!("/api/v1/{DEFAULT}/endpoints"), object)
        })
        .await;
}

#[tokio::test]
async fn limits_and_nodes() {
    let mut cluster = Cluster::start().await;
    cluster
        .grows_in_proportion("a quota", 250, |n| {
            let hard = map(n, |index| (format!("count/k{index}.example.com"), json!("1")));
            spec(
                &format!("/api/v1/{DEFAULT}/resourcequotas"),
                json!({"hard": hard}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("scopes of a quota", 250, |n| {
            let scopes = list(n, |index| json!(format!("S{index}")));
            spec(
                &format!("/api/v1/{DEFAULT}/resourcequotas"),
                json!({"hard": {}, "scopes": scopes}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("limits", 250, |n| {
            let limits = list(
                n,
                |index| json!({"type": format!("example.com/t{index}"), "max": {"cpu": "1"}}),
            );
            spec(
                &format!("/api/v1/{DEFAULT}/limitranges"),
                json!({"limits": limits}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("taints", 250, |n| {
            let taints = list(
                n,
                |index| json!({"key": format!("k{index}"), "effect": "NoSchedule"}),
            );
            spec("/api/v1/nodes", json!({"taints": taints}))
        })
        .await;
    cluster
        .grows_in_proportion("equal taints", 250, |n| {
            let taints = list(n, |_| json!({"key": "k", "effect": "NoSchedule"}));
            spec("/api/v1/nodes", json!({"taints": taints}))
        })
        .await;
    cluster
        .grows_in_proportion("addresses of a node", 250, |n| {
            let addresses = list(
                n,
                |index| json!({"type": "Hostname", "address": index.to_string()}),
            );
            let object = json!({"metadata": {"name": "x"}, "status": {"addresses": addresses}});
            Call::try_post("/api/v1/nodes", object)
        })
        .await;
    cluster
        .grows_in_proportion("secrets of an account", 250, |n| {
            let secrets = list(n, |index| json!({"name": format!("s{index}")}));
            let object = json!({"metadata": {"name": "x"}, "secrets": secrets, "imagePullSecrets": secrets});
            Call::try_post(&format!("/api/v1/{DEFAULT}/serviceaccounts"), object)
        })
        .await;
}

#[tokio::test]
async fn workloads_and_webhooks() {
    let mut cluster = Cluster::start().await;
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    cluster
        .grows_in_proportion("rules of a job's failures", 120, |n| {
            let rules = list(n, |index| {
                let codes = json!({"operator": "In", "values": [1 + index]});
                json!({"action": "Ignore", "onExitCodes": codes})
            });
            let job = json!({"template": template, "podFailurePolicy": {"rules": rules}});
            spec(&format!("/apis/batch/v1/{DEFAULT}/jobs"), job)
        })
        .await;
    cluster
        .grows_in_proportion("exit codes of a job", 250, |n| {
            let codes = json!({"operator": "In", "values": list(n, |index| json!(n - index))});
            let rules = json!([{"action": "Ignore", "onExitCodes": codes}]);
            let job = json!({"template": template, "podFailurePolicy": {"rules": rules}});
            spec(&format!("/apis/batch/v1/{DEFAULT}/jobs"), job)
        })
        .await;
    cluster
        .grows_in_proportion("templates of claims", 120, |n| {
            let claims = list(n, |index| {
                json!({"metadata": {"name": format!("c{index}")}, "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}})
            });
            let template = json!({
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            let set = json!({
                "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": template,
                "volumeClaimTemplates": claims,
            });
            spec(&format!("/apis/apps/v1/{DEFAULT}/statefulsets"), set)
        })
        .await;
    cluster
        .grows_in_proportion("metrics", 120, |n| {
            let metrics = list(n, |_| {
                json!({"type": "Resource", "resource": {"name": "cpu", "target":
                    {"type": "Utilization", "averageUtilization": 50}}})
            });
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
            let scaler = json!({"scaleTargetRef": target, "maxReplicas": 3, "metrics": metrics});
            spec(
                &format!("/apis/autoscaling/v2/{DEFAULT}/horizontalpodautoscalers"),
                scaler,
            )
        })
        .await;
    let webhook = |index: usize| {
        json!({
            "name": format!("w{index}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://example.com"},
        })
    };
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    cluster
        .grows_in_proportion("webhooks", 120, |n| {
            Call::try_post(
                configurations,
                json!({"metadata": {"name": "x"}, "webhooks": list(n, webhook)}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("rules of a webhook", 120, |n| {
            let mut webhook = webhook(0);
            webhook["rules"] = list(n, |index| {
                json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": [format!("r{index}"), format!("r{index}/*")]})
            });
            Call::try_post(
                configurations,
                json!({"metadata": {"name": "x"}, "webhooks": [webhook]}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("resources of a webhook", 250, |n| {
            let mut webhook = webhook(0);
            let resources = list(n, |index| json!(format!("r{index}/s")));
            webhook["rules"] = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": resources}]);
            Call::try_post(
                configurations,
                json!({"metadata": {"name": "x"}, "webhooks": [webhook]}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("validations of a policy", 50, |n| {
            let validations = list(
                n,
                |index| json!({"expression": format!("object.metadata.name != 'a{index}'")}),
            );
            let rule =
                json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]});
            spec(
                "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
                json!({"matchConstraints": {"resourceRules": [rule]}, "validations": validations}),
            )
        })
        .await;
}

/// Each address has each port, and a row shows three of them.
#[tokio::test]
async fn rows_of_endpoints() {
    const ADDRESSES: usize = 200;
    const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
    let mut cluster = Cluster::start().await;
    for n in [ADDRESSES, 8 * ADDRESSES] {
        let addresses = list(
            n,
            |index| json!({"ip": format!("10.0.{}.{}", index / 256, index % 256)}),
        );
        let ports = list(n, |index| json!({"name": format!("p{index}"), "port": 1 + index}));
        let subsets = json!([{"addresses": addresses, "ports": ports}]);
        let object = json!({"metadata": {"name": format!("e{n}")}, "subsets": subsets});
        cluster.prepare(&Call::post(ENDPOINTS, object)).await;
    }
    let row = |n: usize| Call {
        header: Some((
            "accept",
            "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned(),
        )),
        ..Call::get(format!("{ENDPOINTS}/e{n}"))
    };
    cluster
        .takes_linear_time("rows of endpoints", ADDRESSES, row)
        .await;
}

/// Their claims get their type when they are sent.
#[tokio::test]
async fn stateful_sets_with_many_claims() {
    const CLAIMS: usize = 500;
    const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut cluster = Cluster::start().await;
    for n in [CLAIMS, 8 * CLAIMS] {
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}});
        let claims = list(
            n,
            |index| json!({"metadata": {"name": format!("c{index}")}, "spec": claim}),
        );
        let template = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let spec = json!({"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": template,
            "volumeClaimTemplates": claims});
        let set = json!({"metadata": {"name": format!("s{n}")}, "spec": spec});
        cluster.prepare(&Call::post(SETS, set)).await;
    }
    cluster
        .takes_linear_time("claims of a set", CLAIMS, |n| Call::get(format!("{SETS}/s{n}")))
        .await;
}
