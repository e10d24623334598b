//! Pods, the kind with the most lists.

use serde_json::{Value, json};

use crate::growth::{Call, Cluster, Item, list, map};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod with a field in its spec.
fn in_spec(field: &str, value: Value) -> Call {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    spec[field] = value;
    Call::try_post(PODS, json!({"metadata": {"name": "x"}, "spec": spec}))
}

/// A pod with a field in its container.
fn in_container(field: &str, value: Value) -> Call {
    let mut container = json!({"name": "c", "image": "i"});
    container[field] = value;
    in_spec("containers", json!([container]))
}

#[tokio::test]
async fn lists_of_a_container() {
    let mut cluster = Cluster::start().await;
    let cases: [(&str, &str, Item); 16] = [
        (
            "variables",
            "env",
            |index| json!({"name": format!("V{index}"), "value": "v"}),
        ),
        ("equal variables", "env", |_| json!({"name": "V", "value": "v"})),
        ("variables without a name", "env", |_| json!({})),
        (
            "variables from fields",
            "env",
            |index| json!({"name": format!("V{index}"), "valueFrom": {"fieldRef": {"fieldPath": "wrong"}}}),
        ),
        (
            "sources of variables",
            "envFrom",
            |index| json!({"configMapRef": {"name": format!("c{index}")}}),
        ),
        (
            "ports",
            "ports",
            |index| json!({"containerPort": 1 + index, "name": format!("p{index}")}),
        ),
        (
            "equal ports",
            "ports",
            |_| json!({"containerPort": 80, "hostPort": 80, "name": "p"}),
        ),
        ("impossible ports", "ports", |_| json!({"containerPort": 0})),
        (
            "mounts",
            "volumeMounts",
            |index| json!({"name": "v", "mountPath": format!("/{index}")}),
        ),
        (
            "equal mounts",
            "volumeMounts",
            |_| json!({"name": "v", "mountPath": "/"}),
        ),
        (
            "devices",
            "volumeDevices",
            |index| json!({"name": format!("v{index}"), "devicePath": format!("/{index}")}),
        ),
        (
            "equal devices",
            "volumeDevices",
            |_| json!({"name": "v", "devicePath": "/"}),
        ),
        ("arguments", "args", |index| json!(index.to_string())),
        (
            "rules of resizing",
            "resizePolicy",
            |index| json!({"resourceName": format!("r{index}"), "restartPolicy": "?"}),
        ),
        (
            "equal rules of resizing",
            "resizePolicy",
            |_| json!({"resourceName": "cpu", "restartPolicy": "NotRequired"}),
        ),
        (
            "wrong mounts",
            "volumeMounts",
            |_| json!({"mountPropagation": "?"}),
        ),
    ];
    for (name, field, item) in cases {
        cluster
            .grows_in_proportion(name, 250, |n| in_container(field, list(n, item)))
            .await;
    }
    cluster
        .grows_in_proportion("resources", 500, |n| {
            let limits = map(n, |index| (format!("example.com/r{index}"), json!("1")));
            in_container("resources", json!({"limits": limits, "requests": limits}))
        })
        .await;
    cluster
        .grows_in_proportion("claims of resources", 500, |n| {
            let claims = list(n, |index| json!({"name": format!("c{index}")}));
            in_container("resources", json!({"claims": claims}))
        })
        .await;
    cluster
        .grows_in_proportion("capabilities", 500, |n| {
            let add = list(n, |index| json!(format!("C{index}")));
            in_container(
                "securityContext",
                json!({"capabilities": {"add": add, "drop": add}}),
            )
        })
        .await;
}

#[tokio::test]
async fn lists_of_a_pod() {
    let mut cluster = Cluster::start().await;
    let cases: [(&str, &str, Item); 17] = [
        (
            "containers",
            "containers",
            |index| json!({"name": format!("c{index}"), "image": "i"}),
        ),
        (
            "equal containers",
            "containers",
            |_| json!({"name": "c", "image": "i"}),
        ),
        ("containers without anything", "containers", |_| json!({})),
        (
            "containers with one port",
            "containers",
            |index| json!({"name": format!("c{index}"), "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}),
        ),
        (
            "first containers",
            "initContainers",
            |index| json!({"name": format!("i{index}"), "image": "i", "restartPolicy": "Always"}),
        ),
        (
            "volumes",
            "volumes",
            |index| json!({"name": format!("v{index}"), "emptyDir": {}}),
        ),
        (
            "equal volumes",
            "volumes",
            |_| json!({"name": "v", "emptyDir": {}}),
        ),
        (
            "volumes with a claim",
            "volumes",
            |index| json!({"name": format!("v{index}"), "persistentVolumeClaim": {"claimName": "c"}}),
        ),
        (
            "tolerations",
            "tolerations",
            |index| json!({"key": format!("k{index}"), "operator": "Exists", "effect": "NoSchedule"}),
        ),
        (
            "equal tolerations",
            "tolerations",
            |_| json!({"operator": "Exists"}),
        ),
        (
            "wrong tolerations",
            "tolerations",
            |_| json!({"key": "!", "operator": "?", "effect": "?"}),
        ),
        (
            "names of hosts",
            "hostAliases",
            |index| json!({"ip": format!("10.0.{}.{}", index / 256 % 256, index % 256), "hostnames": ["a", "!"]}),
        ),
        (
            "secrets",
            "imagePullSecrets",
            |index| json!({"name": format!("s{index}")}),
        ),
        (
            "gates of readiness",
            "readinessGates",
            |index| json!({"conditionType": format!("a.b/g{index}")}),
        ),
        (
            "gates of scheduling",
            "schedulingGates",
            |index| json!({"name": format!("a.b/g{index}")}),
        ),
        (
            "claims",
            "resourceClaims",
            |index| json!({"name": format!("c{index}"), "resourceClaimName": "c"}),
        ),
        ("constraints", "topologySpreadConstraints", |index| {
            json!({"maxSkew": 1, "topologyKey": format!("k{index}"), "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"a": "b"}}})
        }),
    ];
    for (name, field, item) in cases {
        cluster
            .grows_in_proportion(name, 125, |n| in_spec(field, list(n, item)))
            .await;
    }
}

#[tokio::test]
async fn constraints_of_a_pod() {
    let mut cluster = Cluster::start().await;
    cluster
        .grows_in_proportion("equal constraints", 250, |n| {
            let constraint = json!({"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"});
            in_spec("topologySpreadConstraints", list(n, |_| constraint.clone()))
        })
        .await;
    cluster
        .grows_in_proportion("sysctls", 500, |n| {
            let sysctls = list(
                n,
                |index| json!({"name": format!("kernel.s{index}"), "value": "1"}),
            );
            in_spec("securityContext", json!({"sysctls": sysctls}))
        })
        .await;
    cluster
        .grows_in_proportion("groups", 500, |n| {
            in_spec(
                "securityContext",
                json!({"supplementalGroups": list(n, |index| json!(index))}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("terms of affinity", 250, |n| {
            let terms = list(
                n,
                |index| json!({"matchExpressions": [{"key": format!("k{index}"), "operator": "Exists"}]}),
            );
            let required = json!({"nodeSelectorTerms": terms});
            let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
            in_spec("affinity", json!({"nodeAffinity": affinity}))
        })
        .await;
    cluster
        .grows_in_proportion("pods to be near to", 250, |n| {
            let terms = list(n, |index| {
                json!({"topologyKey": format!("k{index}"), "labelSelector": {}, "matchLabelKeys": ["a", "a"]})
            });
            let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
            in_spec("affinity", json!({"podAffinity": affinity, "podAntiAffinity": affinity}))
        })
        .await;
    cluster
        .grows_in_proportion("keys of nodes", 500, |n| {
            in_spec("nodeSelector", map(n, |index| (format!("k{index}"), json!("v"))))
        })
        .await;
    cluster
        .grows_in_proportion("projected sources", 250, |n| {
            let sources = list(n, |index| {
                let items = json!([{"key": "k", "path": format!("p{index}")}]);
                json!({"configMap": {"name": format!("c{index}"), "items": items}})
            });
            in_spec(
                "volumes",
                json!([{"name": "v", "projected": {"sources": sources}}]),
            )
        })
        .await;
    cluster
        .grows_in_proportion("servers of names", 500, |n| {
            let config = json!({
                "nameservers": list(n, |_| json!("10.0.0.1")),
                "searches": list(n, |index| json!(format!("a{index}"))),
                "options": list(n, |index| json!({"name": format!("o{index}")})),
            });
            in_spec("dnsConfig", config)
        })
        .await;
    cluster
        .grows_in_proportion("annotations of containers", 150, |n| {
            let annotations = map(n, |index| {
                let key = format!("container.apparmor.security.beta.kubernetes.io/c{index}");
                (key, json!("unconfined"))
            });
            let containers = list(n, |index| json!({"name": format!("c{index}"), "image": "i"}));
            let metadata = json!({"name": "x", "annotations": annotations});
            Call::try_post(
                PODS,
                json!({"metadata": metadata, "spec": {"containers": containers}}),
            )
        })
        .await;
}

#[tokio::test]
async fn changes_of_a_pod() {
    let mut cluster = Cluster::start().await;
    let pod = |n: usize, image: &str, tolerations: usize| {
        let containers = list(n, |index| json!({"name": format!("c{index}"), "image": image}));
        let tolerations = list(
            tolerations,
            |index| json!({"key": format!("k{index}"), "operator": "Exists", "effect": "NoExecute"}),
        );
        json!({"metadata": {"name": format!("p{n}")}, "spec": {"containers": containers, "tolerations": tolerations}})
    };
    cluster
        .grows_after("images and tolerations", 100, |n| {
            let changed = Call::new(
                http::Method::PUT,
                format!("{PODS}/p{n}?dryRun=All"),
                pod(n, "j", 2 * n),
            );
            (vec![Call::post(PODS, pod(n, "i", n))], changed)
        })
        .await;
    cluster
        .grows_after("what may not change", 210, |n| {
            let mut changed = pod(n, "i", n);
            for container in changed["spec"]["containers"].as_array_mut().unwrap() {
                container["command"] = json!(["other"]);
            }
            let path = format!("{PODS}/p{n}?dryRun=All");
            (
                vec![Call::post(PODS, pod(n, "i", n))],
                Call::new(http::Method::PUT, path, changed),
            )
        })
        .await;
}

/// Items that are compared with all others: nothing is allocated for it, so only the time of many shows it.
const COMPARED: usize = 1_500;

/// Conditions, which take more room with their managed fields.
const CONDITIONS: usize = COMPARED / 2;

/// The sizes that [`Cluster::takes_linear_time`] asks for.
fn sizes(n: usize) -> [usize; 2] {
    [n, 8 * n]
}

#[tokio::test]
async fn items_compared_with_each_other() {
    let mut cluster = Cluster::start().await;
    let keys = |prefix: &str, n: usize| list(n, |index| json!(format!("{prefix}{index}")));
    let variables = |n: usize| in_container("env", list(n, |index| json!({"name": format!("V{index}")})));
    let constraints = |n: usize| {
        let constraint = |index: usize| json!({"maxSkew": 1, "topologyKey": format!("k{index}"), "whenUnsatisfiable": "DoNotSchedule"});
        in_spec("topologySpreadConstraints", list(n, constraint))
    };
    let label_keys = |n: usize| {
        let term = json!({"topologyKey": "k", "labelSelector": {"matchLabels": {"a": "b"}},
            "matchLabelKeys": keys("a", n), "mismatchLabelKeys": keys("b", n)});
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        in_spec("affinity", json!({"podAffinity": affinity}))
    };
    let hosts = |n: usize| {
        let aliases = list(
            n,
            |index| json!({"ip": format!("10.0.{}.{}", index / 256, index % 256)}),
        );
        in_spec("hostAliases", aliases)
    };
    let unknown_claims = |n: usize| {
        let wanted = list(n, |index| json!({"name": format!("w{index}")}));
        let container = json!({"name": "c", "image": "i", "resources": {"claims": wanted}});
        let known = list(
            n,
            |index| json!({"name": format!("c{index}"), "resourceClaimName": "c"}),
        );
        let spec = json!({"containers": [container], "resourceClaims": known});
        Call::try_post(PODS, json!({"metadata": {"name": "x"}, "spec": spec}))
    };
    let beside_a_sidecar = |n: usize| {
        let limits = map(n, |index| (format!("example.com/r{index}"), json!("1")));
        let sidecar = json!({"name": "s", "image": "i", "restartPolicy": "Always",
            "resources": {"limits": limits}});
        let others = (0..n).map(|index| json!({"name": format!("c{index}"), "image": "i"}));
        let all: Value = std::iter::once(sidecar).chain(others).collect();
        // With resources of its own, what a pod needs is added up for its defaults.
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "initContainers": all,
            "resources": {"requests": {"cpu": "1"}}});
        Call::try_post(PODS, json!({"metadata": {"name": "x"}, "spec": spec}))
    };
    let files = |n: usize| {
        let files = list(n, |index| json!({"key": "k", "path": format!("p{index}")}));
        in_spec(
            "volumes",
            json!([{"name": "v", "configMap": {"name": "c", "items": files}}]),
        )
    };
    let claims = |n: usize| {
        let claims = list(n, |index| json!({"metadata": {"name": format!("c{index}")}}));
        let volumes = list(n, |index| json!({"name": format!("v{index}")}));
        let spec = json!({"serviceName": "x", "volumeClaimTemplates": claims,
            "template": {"spec": {"volumes": volumes}}});
        let path = "/apis/apps/v1/namespaces/default/statefulsets";
        Call::try_post(path, json!({"metadata": {"name": "x"}, "spec": spec}))
    };
    let cases: [(&str, &dyn Fn(usize) -> Call); 8] = [
        ("variables", &variables),
        ("constraints", &constraints),
        ("label keys", &label_keys),
        ("hosts", &hosts),
        ("claims that the pod does not have", &unknown_claims),
        ("files", &files),
        ("containers beside a sidecar", &beside_a_sidecar),
        ("claims and volumes of a set", &claims),
    ];
    for (name, call) in cases {
        cluster.takes_linear_time(name, COMPARED, call).await;
    }
}

/// Creates pods of these sizes, each with one list in its spec.
async fn with_pods(cluster: &mut Cluster, sizes: [usize; 2], prefix: &str, field: &str, item: Item) {
    for n in sizes {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        spec[field] = list(n, item);
        let pod = json!({"metadata": {"name": format!("{prefix}{n}")}, "spec": spec});
        cluster.prepare(&Call::post(PODS, pod)).await;
    }
}

const MERGE: &str = "application/merge-patch+json";

#[tokio::test]
async fn items_compared_with_those_before() {
    let mut cluster = Cluster::start().await;
    let cases: [(&str, Item); 2] = [
        (
            "tolerations",
            |index| json!({"key": format!("k{index}"), "operator": "Exists"}),
        ),
        (
            "schedulingGates",
            |index| json!({"name": format!("a.b/g{index}")}),
        ),
    ];
    for (field, item) in cases {
        let prefix = field.to_lowercase();
        with_pods(&mut cluster, sizes(COMPARED), &prefix, field, item).await;
        let patch = |n: usize| {
            let patch = json!({"spec": {"activeDeadlineSeconds": 100}});
            Call::patch(format!("{PODS}/{prefix}{n}?dryRun=All"), MERGE, patch)
        };
        cluster.prepare(&patch(COMPARED)).await;
        cluster.takes_linear_time(field, COMPARED, patch).await;
    }
}

#[tokio::test]
async fn statuses_compared_with_the_spec() {
    let mut cluster = Cluster::start().await;
    with_pods(
        &mut cluster,
        sizes(COMPARED),
        "c",
        "resourceClaims",
        |index| json!({"name": format!("c{index}"), "resourceClaimName": "c"}),
    )
    .await;
    let of_claims = |n: usize| {
        let statuses = list(n, |index| json!({"name": format!("c{}", n - 1 - index)}));
        let patch = json!({"status": {"resourceClaimStatuses": statuses}});
        Call::patch(format!("{PODS}/c{n}/status?dryRun=All"), MERGE, patch)
    };
    cluster.prepare(&of_claims(COMPARED)).await;
    cluster
        .takes_linear_time("statuses of claims", COMPARED, of_claims)
        .await;
    with_pods(
        &mut cluster,
        sizes(CONDITIONS),
        "g",
        "readinessGates",
        |index| json!({"conditionType": format!("g{index}")}),
    )
    .await;
    for n in sizes(CONDITIONS) {
        let conditions = list(
            n,
            |index| json!({"type": format!("g{}", n - 1 - index), "status": "True"}),
        );
        let patch = json!({"status": {"conditions": conditions}});
        let path = format!("{PODS}/g{n}/status");
        cluster.prepare(&Call::patch(path, MERGE, patch)).await;
    }
    let row = |n: usize| Call {
        header: Some((
            "accept",
            "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned(),
        )),
        ..Call::get(format!("{PODS}/g{n}"))
    };
    cluster
        .takes_linear_time("gates and conditions of a row", CONDITIONS, row)
        .await;
}
