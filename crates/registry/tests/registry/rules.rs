//! Validation and defaults of services, pods and simple kinds that no recording covers.

use crate::recording::{create, registry, send, warnings, warnings_of};
use serde_json::{Value, json};
use watchkeeper_registry::{Registry, RegistryOptions};
use watchkeeper_storage::{Store, StoreOptions};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The error of a spec, without kind and name; empty if it is valid.
async fn refusal(path: &str, spec: Value) -> String {
    let object = json!({"metadata": {"name": "x"}, "spec": spec});
    match send(&registry().await, "POST", path, object).await {
        Ok(_) => String::new(),
        Err(status) => status.message.split_once(": ").unwrap().1.to_owned(),
    }
}

#[tokio::test]
async fn services_are_validated_by_type() {
    let with = |mut spec: Value| {
        if spec.get("ports").is_none() {
            spec["ports"] = json!([{"port": 80}]);
        }
        spec
    };
    for (spec, why) in [
        (
            json!({"type": "ExternalName", "externalName": "a.example.com", "clusterIP": "10.0.0.7"}),
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
        ),
        (
            json!({"type": "NodePort", "clusterIP": "None"}),
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ),
        (
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than \
             86400",
        ),
        (
            json!({"externalTrafficPolicy": "Local"}),
            "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
        ),
        (
            json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]}),
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["x"]}),
            "spec.LoadBalancerSourceRanges[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or \
             2001:db8::/64)",
        ),
        (
            json!({"allocateLoadBalancerNodePorts": true}),
            "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            json!({"loadBalancerClass": "a/b"}),
            "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            json!({"healthCheckNodePort": 30001}),
            "spec.healthCheckNodePort: Invalid value: 30001: may only be set when `type` is 'LoadBalancer' and \
             `externalTrafficPolicy` is 'Local'",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv4"]}),
            "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack \
             services",
        ),
        (
            json!({"clusterIP": "10.0.0.8", "clusterIPs": ["10.0.0.9"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: first value must match `clusterIP`",
        ),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), ""),
        (
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
            "",
        ),
    ] {
        assert_eq!(refusal(SERVICES, with(spec.clone())).await, why, "{spec}");
    }
}

#[tokio::test]
async fn host_namespaces_of_pods() {
    let pod = |extra: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "i:1"}]});
        for (name, value) in extra.as_object().unwrap() {
            spec[name] = value.clone();
        }
        spec
    };
    let port = json!([{"name": "c", "image": "i:1", "ports": [{"containerPort": 80, "hostPort": 81}]}]);
    for (extra, why) in [
        (
            json!({"hostNetwork": true, "containers": port}),
            "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is \
             true",
        ),
        (
            json!({"os": {"name": "plan9"}}),
            "spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"",
        ),
        (
            json!({"volumes": [{"name": "v", "nfs": {"server": "s", "path": "x"}}]}),
            "spec.volumes[0].nfs.path: Invalid value: \"x\": must be an absolute path",
        ),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.010"]}}),
            "spec.dnsConfig.nameservers[0]: Invalid value: \"10.0.0.010\": must not have leading 0s",
        ),
        (
            json!({"runtimeClassName": "nope"}),
            "pod rejected: RuntimeClass \"nope\" not found",
        ),
    ] {
        assert_eq!(refusal(PODS, pod(extra.clone())).await, why, "{extra}");
    }
}

#[tokio::test]
async fn a_pod_gets_the_values_of_its_runtime_class() {
    let registry = registry().await;
    let class = json!({
        "metadata": {"name": "sandboxed"},
        "handler": "runsc",
        "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
    });
    send(&registry, "POST", "/apis/node.k8s.io/v1/runtimeclasses", class)
        .await
        .unwrap();
    let spec = json!({"runtimeClassName": "sandboxed", "containers": [{"name": "c", "image": "i:1"}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    let spec = send(&registry, "POST", PODS, pod).await.unwrap()["spec"].clone();
    assert_eq!(spec["overhead"], json!({"cpu": "100m"}));
    assert_eq!(spec["nodeSelector"], json!({"sandbox": "yes"}));
    // After the default tolerations.
    assert_eq!(
        spec["tolerations"][2],
        json!({"key": "sandbox", "operator": "Exists"})
    );
}

#[tokio::test]
async fn simple_kinds_are_defaulted() {
    let registry = registry().await;
    for (path, object, filled) in [
        (
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"metadata": {"name": "d.example.com"}, "spec": {}}),
            json!({
                "attachRequired": true, "fsGroupPolicy": "ReadWriteOnceWithFSType", "podInfoOnMount": false,
                "preventPodSchedulingIfMissing": false, "requiresRepublish": false, "seLinuxMount": false, "storageCapacity": false,
                "volumeLifecycleModes": ["Persistent"],
            }),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            json!({"metadata": {"name": "f"}, "spec": {"priorityLevelConfiguration": {"name": "p"}}}),
            json!({"matchingPrecedence": 1000, "priorityLevelConfiguration": {"name": "p"}}),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            json!({
                "metadata": {"name": "p"},
                "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}},
            }),
            json!({"type": "Limited", "limited": {
                "lendablePercent": 0, "nominalConcurrencyShares": 30,
                "limitResponse": {"type": "Queue", "queuing": {"handSize": 8, "queueLengthLimit": 50, "queues": 64}},
            }}),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
                {"name": "r", "exactly": {"deviceClassName": "gpu"}},
            ]}}}),
            json!({"devices": {"requests": [
                {"name": "r", "exactly": {"allocationMode": "ExactCount", "count": 1, "deviceClassName": "gpu"}},
            ]}}),
        ),
    ] {
        let created = send(&registry, "POST", path, object).await.unwrap();
        assert_eq!(created["spec"], filled, "{path}");
    }
}

#[tokio::test]
async fn a_job_gets_the_labels_of_its_pods_and_an_immutable_template() {
    const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
    let registry = registry().await;
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}});
    let job = send(&registry, "POST", JOBS, job).await.unwrap();
    assert_eq!(
        job["metadata"]["labels"],
        job["spec"]["template"]["metadata"]["labels"]
    );
    assert_eq!(job["metadata"]["labels"]["job-name"], "j");
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    let refusal = send(&registry, "PATCH", &format!("{JOBS}/j"), change)
        .await
        .unwrap_err();
    let quoted = r#"spec.template.spec: Invalid value: {"Volumes":null,"InitContainers":null,"Containers":[{"Name":"c","Image":"i:2","Command":null,"#;
    assert!(refusal.message.contains(quoted), "{refusal}");
    assert!(refusal.message.ends_with(": field is immutable"), "{refusal}");
}

#[tokio::test]
async fn the_pod_cidr_of_a_node_is_immutable() {
    const NODES: &str = "/api/v1/nodes";
    let registry = registry().await;
    let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.1.0.0/24"}});
    let node = send(&registry, "POST", NODES, node).await.unwrap();
    assert_eq!(node["spec"]["podCIDRs"], json!(["10.1.0.0/24"]));
    let change = json!({"spec": {"podCIDR": "10.2.0.0/24"}});
    let refusal = send(&registry, "PATCH", &format!("{NODES}/n"), change)
        .await
        .unwrap_err();
    assert_eq!(
        refusal.message,
        "Node \"n\" is invalid: spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"
    );
}

#[tokio::test]
async fn claim_templates_have_a_type() {
    const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
    let registry = registry().await;
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let mount = json!({"name": "data", "mountPath": "/data"});
    let container = json!({"name": "c", "image": "i:1", "volumeMounts": [mount]});
    let mut set = json!({"metadata": {"name": "s"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [claim],
    }});
    let created = send(&registry, "POST", SETS, set.clone()).await.unwrap();
    let shown = &created["spec"]["volumeClaimTemplates"][0];
    assert_eq!(shown["apiVersion"], "v1");
    assert_eq!(shown["kind"], "PersistentVolumeClaim");
    assert_eq!(shown["spec"]["volumeMode"], "Filesystem");
    assert_eq!(shown["status"], json!({"phase": "Pending"}));
    // A client that states it too changes nothing.
    set["spec"]["volumeClaimTemplates"][0]["kind"] = json!("PersistentVolumeClaim");
    let updated = send(&registry, "PUT", &format!("{SETS}/s"), set).await.unwrap();
    assert_eq!(
        updated["metadata"]["generation"],
        created["metadata"]["generation"]
    );
}

#[tokio::test]
async fn addresses_are_allocated_once_and_released() {
    let store = Store::memory(StoreOptions::default());
    let registry = Registry::open(store.clone()).await.unwrap();
    let service = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "type": "NodePort", "clusterIP": "10.0.0.77", "ports": [{"port": 80, "nodePort": 30077}],
        }})
    };
    let send_to = async |registry: &Registry, method: &str, path: &str, body: Value| {
        let answer = send(registry, method, path, body).await;
        answer.map(drop).map_err(|status| status.message)
    };
    send_to(&registry, "POST", SERVICES, service("a")).await.unwrap();
    let taken = "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.77\"]: failed to allocate IP \
                 10.0.0.77: provided IP is already allocated";
    assert_eq!(
        send_to(&registry, "POST", SERVICES, service("b"))
            .await
            .unwrap_err(),
        taken
    );
    // A registry that opens the store again knows it too, also during concurrent writes.
    let again = Registry::open(store).await.unwrap();
    assert_eq!(
        send_to(&again, "POST", SERVICES, service("b")).await.unwrap_err(),
        taken
    );
    send_to(&registry, "DELETE", &format!("{SERVICES}/a"), json!(null))
        .await
        .unwrap();
    send_to(&again, "POST", SERVICES, service("b")).await.unwrap();
    // A service keeps its values.
    let path = format!("{SERVICES}/b");
    send_to(&registry, "PUT", &path, service("b")).await.unwrap();
    assert!(send_to(&registry, "POST", SERVICES, service("c")).await.is_err());
}

#[tokio::test]
async fn a_pod_needs_its_service_account_if_accounts_are_enabled() {
    let options = RegistryOptions {
        service_accounts: true,
        ..Default::default()
    };
    let registry = options
        .open(Store::memory(StoreOptions::default()))
        .await
        .unwrap();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let refusal = send(&registry, "POST", PODS, pod.clone()).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "pods \"p\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"
    );
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "default"}});
    send(&registry, "POST", accounts, account).await.unwrap();
    let pod = send(&registry, "POST", PODS, pod).await.unwrap();
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    let volume = &pod["spec"]["volumes"][0];
    assert_eq!(
        pod["spec"]["containers"][0]["volumeMounts"][0]["name"],
        volume["name"]
    );
    assert_eq!(
        volume["projected"]["sources"][0]["serviceAccountToken"]["path"],
        "token"
    );
}

#[tokio::test]
async fn the_cluster_has_system_priority_classes() {
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
    let registry = registry().await;
    let class = send(&registry, "GET", path, json!(null)).await.unwrap();
    assert_eq!(class["value"], 2_000_001_000);
    let refusal = send(&registry, "DELETE", path, json!(null)).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system priority class and \
         cannot be deleted"
    );
}

/// DNS over TCP and UDP shares one node port, stated or allocated.
#[tokio::test]
async fn equal_ports_share_a_node_port() {
    let port = |number: i64, protocol: &str, node_port: i64| {
        json!({"name": format!("{protocol}-{number}").to_lowercase(), "port": number, "protocol": protocol,
               "nodePort": node_port})
    };
    let cases = [
        (vec![port(53, "TCP", 0), port(53, "UDP", 0)], Ok(true)),
        (vec![port(53, "TCP", 30053), port(53, "UDP", 30053)], Ok(true)),
        (vec![port(53, "TCP", 0), port(53, "UDP", 30053)], Ok(true)),
        (vec![port(53, "TCP", 30053), port(53, "UDP", 30054)], Ok(false)),
        (vec![port(53, "TCP", 0), port(54, "UDP", 0)], Ok(false)),
        (
            vec![port(53, "TCP", 30053), port(54, "UDP", 30053)],
            Err("spec.ports[1].nodePort: Invalid value: 30053: provided port is already allocated"),
        ),
    ];
    for (ports, expected) in cases {
        let registry = registry().await;
        let service = json!({"metadata": {"name": "dns"}, "spec": {"type": "NodePort", "ports": ports}});
        let made = send(&registry, "POST", SERVICES, service).await;
        let shared = made.map(|service| {
            let ports = &service["spec"]["ports"];
            ports[0]["nodePort"] == ports[1]["nodePort"]
        });
        let told = shared.map_err(|status| status.message);
        let told = told
            .as_ref()
            .map_err(|message| message.split_once("is invalid: ").unwrap().1);
        assert_eq!(told.copied(), expected, "{ports:?}");
    }
}

/// A field that only the old type has is removed with it, unless the same write changes it.
#[tokio::test]
async fn changing_the_type_of_a_service() {
    let balanced =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "loadBalancerClass": "a/b"});
    let cases = [
        (json!({"type": "NodePort"}), json!({"type": "ClusterIP"}), ""),
        (
            json!({"type": "NodePort"}),
            json!({"type": "ExternalName", "externalName": "a.example"}),
            "",
        ),
        (balanced.clone(), json!({"type": "ClusterIP"}), ""),
        (balanced.clone(), json!({"type": "NodePort"}), ""),
        (balanced.clone(), json!({"externalTrafficPolicy": "Cluster"}), ""),
        (
            json!({"externalIPs": ["198.51.100.7"]}),
            json!({"externalIPs": null}),
            "",
        ),
        (
            json!({"type": "ExternalName", "externalName": "a.example"}),
            json!({"type": "ClusterIP"}),
            "",
        ),
        (
            json!({"type": "NodePort"}),
            json!({"type": "ClusterIP", "externalTrafficPolicy": "Local"}),
            "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
        ),
        (
            json!({"type": "NodePort"}),
            json!({"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 31999}]}),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
    ];
    for (before, change, why) in cases {
        let registry = registry().await;
        let mut spec = json!({"ports": [{"port": 80}]});
        for (name, value) in before.as_object().unwrap() {
            spec[name] = value.clone();
        }
        let service = json!({"metadata": {"name": "x"}, "spec": spec});
        send(&registry, "POST", SERVICES, service).await.unwrap();
        let changed = send(
            &registry,
            "PATCH",
            &format!("{SERVICES}/x"),
            json!({"spec": change}),
        )
        .await;
        let told = changed
            .as_ref()
            .err()
            .map_or("", |status| status.message.split_once(": ").unwrap().1);
        assert_eq!(told, why, "{before} {change}");
        if let Ok(changed) = changed {
            let has_node_ports = matches!(
                changed["spec"]["type"].as_str(),
                Some("NodePort" | "LoadBalancer")
            );
            assert_eq!(
                changed["spec"]["ports"][0]["nodePort"].is_number(),
                has_node_ports,
                "{changed}"
            );
            assert_eq!(changed["spec"].get("healthCheckNodePort"), None, "{changed}");
        }
    }
}

/// These pods are valid, but probably not what their authors meant.
#[tokio::test]
async fn warnings_for_pods() {
    const NO_SELECTOR: &str = "labelSelector: a null labelSelector results in matching no pod";
    let port = |name: &str| json!({"containerPort": 80, "name": name});
    let item = |path: &str| json!({"key": "k", "path": path});
    let cases = [
        (
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]},
            }]}}}),
            vec![
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference\
                 .matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" \
                 instead"
                    .to_owned(),
            ],
        ),
        (
            json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            ]}),
            vec![format!("spec.topologySpreadConstraints[0].{NO_SELECTOR}")],
        ),
        (
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone"},
            ]}}}),
            vec![format!(
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].{NO_SELECTOR}"
            )],
        ),
        (
            json!({"volumes": [{"name": "v", "glusterfs": {"endpoints": "e", "path": "p"}}]}),
            vec!["spec.volumes[0].glusterfs: deprecated in v1.25, non-functional in v1.26+".to_owned()],
        ),
        (
            json!({"volumes": [{"name": "v", "configMap": {"name": "c", "items": [item("a"), item("a/b")]}}]}),
            vec![r#"volume "v" (ConfigMap "c"): overlapping paths: "a/b" with "a""#.to_owned()],
        ),
        (
            json!({"serviceAccountName": "default", "volumes": [{"name": "v", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"secret": {"name": "s", "items": [item("token")]}},
            ]}}]}),
            vec![
                r#"volume "v" (Projected): overlapping paths: "token" (Secret "s") with "token" (ServiceAccountToken)"#
                    .to_owned(),
            ],
        ),
        (
            json!({"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]}),
            vec![
                r#"spec.imagePullSecrets[1].name: duplicate name "a""#.to_owned(),
                r#"spec.imagePullSecrets[2].name: invalid empty name """#.to_owned(),
            ],
        ),
        (
            json!({"containers": [
                {"name": "a", "image": "i", "ports": [port("web")]},
                {"name": "b", "image": "i", "ports": [port("web")]},
            ]}),
            vec![
                "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]".to_owned(),
                "spec.containers[1].ports[0]: duplicate port name \"web\" with spec.containers[0].ports[0], services \
                 and probes that select ports by name will use spec.containers[0].ports[0]"
                    .to_owned(),
            ],
        ),
        (
            json!({"containers": [{"name": "a", "image": "i", "ports": [
                {"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostIP": "10.0.0.1"},
            ]}]}),
            vec![
                "spec.containers[0].ports[1]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 \
                 Protocol:TCP HostIP:10.0.0.1}"
                    .to_owned(),
                "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]".to_owned(),
            ],
        ),
        (
            json!({"containers": [{"name": "a", "image": "i", "env": [
                {"name": "PATH", "value": "/bin"}, {"name": "PATH", "value": "$(PATH):/sbin"},
                {"name": "PATH", "value": "/usr"},
            ]}]}),
            vec![
                "spec.containers[0].env[2]: hides previous definition of \"PATH\", which may be dropped when using \
                 apply"
                    .to_owned(),
            ],
        ),
    ];
    let more = [
        (
            json!({"nodeSelector": {"node-role.kubernetes.io/master": ""}}),
            vec![
                "spec.nodeSelector[node-role.kubernetes.io/master]: use \"node-role.kubernetes.io/control-plane\" instead"
                    .to_owned(),
            ],
        ),
        (
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "-c"]}]},
            }]}}}),
            vec![format!(
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference\
                 .matchExpressions[0].values[1]: -c is invalid, {LABEL_VALUE}"
            )],
        ),
        (
            json!({"volumes": [{"name": "v", "storageos": {"volumeName": "v"}}]}),
            vec!["spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+".to_owned()],
        ),
        (
            json!({
                "dnsConfig": {"nameservers": ["2001:DB8::1", "10.0.0.1"]},
                "hostAliases": [{"ip": "2001:db8:0::1", "hostnames": ["a"]}],
            }),
            vec![
                "spec.dnsConfig.nameservers[0]: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format \
                 (\"2001:db8::1\")"
                    .to_owned(),
                "spec.hostAliases[0].ip: IPv6 address \"2001:db8:0::1\" should be in RFC 5952 canonical format \
                 (\"2001:db8::1\")"
                    .to_owned(),
            ],
        ),
    ];
    for (fields, told) in cases.into_iter().chain(more) {
        let mut spec = json!({"containers": [{"name": "a", "image": "i"}]});
        for (name, value) in fields.as_object().unwrap() {
            spec[name] = value.clone();
        }
        let pod = json!({"metadata": {"name": "x"}, "spec": spec});
        assert_eq!(warnings(&registry().await, PODS, pod).await, told, "{fields}");
    }
}

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                           must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                           regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Kubernetes evaluates a pod once, when it is created.
#[tokio::test]
async fn updates_of_pods_have_no_warnings() {
    let registry = registry().await;
    let pod = json!({"metadata": {"name": "x"}, "spec": {
        "containers": [{"name": "a", "image": "i"}], "imagePullSecrets": [{}],
    }});
    assert_eq!(warnings(&registry, PODS, pod).await.len(), 1);
    let path = format!("{PODS}/x");
    let mut live = send(&registry, "GET", &path, json!(null)).await.unwrap();
    live["spec"]["containers"][0]["image"] = json!("j");
    assert!(warnings_of(&registry, "PUT", &path, live).await.is_empty());
}

/// An AppArmor annotation becomes a field, unless the pod's own profile says the same.
#[tokio::test]
async fn app_armor_annotations_without_a_field_have_a_warning() {
    const KEY: &str = "container.apparmor.security.beta.kubernetes.io/a";
    const WHY: &str = "metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]: deprecated since v1.30; use \
                       the \"appArmorProfile\" field instead";
    let profile = json!({"appArmorProfile": {"type": "RuntimeDefault"}});
    let plain = json!({"name": "a", "image": "i"});
    let profiled = json!({"name": "a", "image": "i", "securityContext": profile});
    for (spec, is_warned, stored) in [
        (json!({"containers": [plain]}), true, profile.clone()),
        (json!({"containers": [profiled]}), false, profile.clone()),
        (
            json!({"containers": [plain], "securityContext": profile}),
            false,
            json!(null),
        ),
        (
            json!({"containers": [plain], "os": {"name": "windows"}}),
            false,
            json!(null),
        ),
    ] {
        let registry = registry().await;
        let metadata = json!({"name": "x", "annotations": {KEY: "runtime/default"}});
        let told = warnings(&registry, PODS, json!({"metadata": metadata, "spec": spec})).await;
        assert_eq!(told == [WHY], is_warned, "{spec}: {told:?}");
        let live = send(&registry, "GET", &format!("{PODS}/x"), json!(null))
            .await
            .unwrap();
        assert_eq!(live["spec"]["containers"][0]["securityContext"], stored, "{spec}");
    }
    // A template keeps its annotations.
    let path = "/api/v1/namespaces/default/podtemplates";
    for (container, is_warned) in [(plain, true), (profiled, false)] {
        let template = json!({"metadata": {"annotations": {KEY: "runtime/default"}}, "spec": {"containers": [container]}});
        let told = warnings(
            &registry().await,
            path,
            json!({"metadata": {"name": "x"}, "template": template}),
        )
        .await;
        assert_eq!(told == [format!("template.{WHY}")], is_warned, "{told:?}");
    }
}

#[tokio::test]
async fn addresses_that_are_not_in_canonical_form_have_a_warning() {
    let told = |path: &str, shown: &str, canonical: &str| {
        let what = if shown.contains('/') {
            "CIDR value"
        } else {
            "address"
        };
        format!("{path}: IPv6 {what} \"{shown}\" should be in RFC 5952 canonical format (\"{canonical}\")")
    };
    let slice = |labels: Value| {
        json!({
            "metadata": {"name": "x", "labels": labels}, "addressType": "IPv6",
            "endpoints": [{"addresses": ["2001:DB8::1"]}],
        })
    };
    let managed = json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"});
    let block = |cidr: &str, except: Value| json!([{"ipBlock": {"cidr": cidr, "except": except}}]);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let cases = [
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "x"}, "spec": {
                "type": "LoadBalancer", "ports": [{"port": 80}],
                "loadBalancerIP": "2001:DB8::1", "loadBalancerSourceRanges": ["2001:DB8::/64", "10.0.0.0/8"],
            }}),
            vec![
                told("spec.loadBalancerIP", "2001:DB8::1", "2001:db8::1"),
                told(
                    "spec.loadBalancerSourceRanges[0]",
                    "2001:DB8::/64",
                    "2001:db8::/64",
                ),
            ],
        ),
        (
            "/api/v1/namespaces/default/endpoints",
            json!({"metadata": {"name": "x"}, "subsets": [
                {"notReadyAddresses": [{"ip": "2001:db8::0:1"}], "ports": [{"port": 80}]},
            ]}),
            vec![told(
                "subsets[0].notReadyAddresses[0].ip",
                "2001:db8::0:1",
                "2001:db8::1",
            )],
        ),
        (
            slices,
            slice(json!({})),
            vec![told("endpoints[0].addresses[0]", "2001:DB8::1", "2001:db8::1")],
        ),
        (slices, slice(managed), vec![]),
        (
            slices,
            json!({"metadata": {"name": "x"}, "addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]}),
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()],
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({"metadata": {"name": "x"}, "spec": {
                "podSelector": {},
                "ingress": [{"from": block("10.0.0.0/8", json!([]))}],
                "egress": [{"to": block("2001:DB8::/32", json!(["2001:db8:0:1::/64", "2001:db8:0::/64"]))}],
            }}),
            vec![
                told(
                    "spec.egress[0].to[0].ipBlock.cidr",
                    "2001:DB8::/32",
                    "2001:db8::/32",
                ),
                told(
                    "spec.egress[0].to[0].ipBlock.except[1]",
                    "2001:db8:0::/64",
                    "2001:db8::/64",
                ),
            ],
        ),
    ];
    for (path, object, told) in cases {
        // Endpoints as such are deprecated; that is told by the server.
        assert_eq!(warnings(&registry().await, path, object).await, told, "{path}");
    }
}

#[tokio::test]
async fn a_written_status_has_warnings_of_its_own() {
    let registry = registry().await;
    let services = "/api/v1/namespaces/default/services";
    let service =
        json!({"metadata": {"name": "x"}, "spec": {"clusterIP": "None", "sessionAffinity": "ClientIP"}});
    assert_eq!(
        warnings(&registry, services, service).await,
        ["spec.SessionAffinity is ignored for headless services"]
    );
    let balancer =
        json!({"metadata": {"name": "y"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    create(&registry, services, balancer).await;
    let pod = json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    create(&registry, PODS, pod).await;
    let headless = format!("{services}/x");
    for (path, status, told) in [
        (&headless, json!({}), None),
        (
            &format!("{services}/y"),
            json!({"loadBalancer": {"ingress": [{"ip": "2001:DB8::1"}]}}),
            Some("status.loadBalancer.ingress[0]"),
        ),
        (
            &format!("{PODS}/x"),
            json!({"podIPs": [{"ip": "2001:DB8::1"}], "podIP": "2001:DB8::1"}),
            Some("status.podIPs[0].ip"),
        ),
    ] {
        let mut live = send(&registry, "GET", path, json!(null)).await.unwrap();
        live["status"] = status;
        let told: Vec<String> = told
            .iter()
            .map(|path| {
                format!(
                    "{path}: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"
                )
            })
            .collect();
        let path = format!("{path}/status");
        assert_eq!(warnings_of(&registry, "PUT", &path, live).await, told, "{path}");
    }
}

#[tokio::test]
async fn warnings_for_nodes_classes_and_workloads() {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}],
    }});
    let indexed = json!({
        "completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001, "template": template,
    });
    let many = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes \
                might not be able to track completedIndexes when a big number of indexes fail";
    let mut running = template.clone();
    running["spec"]["restartPolicy"] = json!("Always");
    let cases = [
        (
            "/api/v1/nodes",
            json!({"metadata": {"name": "x"}, "spec": {"externalID": "i"}}),
            vec!["spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned()],
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses",
            json!({"metadata": {"name": "x"}, "handler": "h", "scheduling": {
                "nodeSelector": {"beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"},
            }}),
            vec!["scheduling.nodeSelector: deprecated since v1.14; use \"kubernetes.io/os\" instead".to_owned()],
        ),
        (
            "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
            json!({"metadata": {"name": "x"}, "storageClassName": "s", "nodeTopology": {
                "matchLabels": {"beta.kubernetes.io/os": "linux"},
                "matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}],
            }}),
            vec![
                "nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use \
                 \"kubernetes.io/arch\" instead"
                    .to_owned(),
                "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead"
                    .to_owned(),
            ],
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"metadata": {"name": "x"}, "spec": indexed}),
            vec![format!("spec: {many}")],
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"metadata": {"name": "x"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": indexed}}}),
            vec![format!("spec.jobTemplate.spec: {many}")],
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"metadata": {"name": "x"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}}, "template": running, "revisionHistoryLimit": -1,
                "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}},
                }}],
            }}),
            vec![
                "spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: fractional byte value \"1500m\" is \
                 invalid, must be an integer"
                    .to_owned(),
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                 recommended"
                    .to_owned(),
            ],
        ),
        (
            "/api/v1/persistentvolumes",
            json!({"metadata": {"name": "x"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "quobyte": {"registry": "r:1", "volume": "v"},
            }}),
            vec![],
        ),
    ];
    for (path, object, told) in cases {
        assert_eq!(warnings(&registry().await, path, object).await, told, "{path}");
    }
}

#[tokio::test]
async fn warnings_for_storage() {
    let claim = json!({"metadata": {"name": "x"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}},
    }});
    let volume = json!({"metadata": {"name": "x"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "rbd": {"monitors": ["m"], "image": "i"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm"]}]},
        ]}},
    }});
    let class = json!({"metadata": {"name": "x"}, "provisioner": "p", "allowedTopologies": [
        {"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]},
    ]});
    let cases = [
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            claim,
            vec![
                "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            ],
        ),
        (
            "/api/v1/persistentvolumes",
            volume,
            vec![
                "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/arch is \
                 deprecated since v1.14; use \"kubernetes.io/arch\" instead",
                "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
            ],
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            class,
            vec![
                "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use \
                 \"topology.kubernetes.io/zone\" instead",
            ],
        ),
    ];
    for (path, object, told) in cases {
        assert_eq!(warnings(&registry().await, path, object).await, told, "{path}");
    }
}

#[tokio::test]
async fn a_new_cron_job_whose_name_is_no_label_has_a_warning() {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}});
    let cron_job = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "schedule": "@daily", "jobTemplate": {"spec": {"template": template}},
        }})
    };
    let registry = registry().await;
    let path = "/apis/batch/v1/namespaces/default/cronjobs";
    assert!(warnings(&registry, path, cron_job("nightly")).await.is_empty());
    let told = warnings(&registry, path, cron_job("nightly.v2")).await;
    let why = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label \
               is recommended: [must not contain dots]";
    assert_eq!(told, [why]);
    // The name of an existing object cannot be changed any more.
    let path = format!("{path}/nightly.v2");
    let mut live = send(&registry, "GET", &path, json!(null)).await.unwrap();
    live["spec"]["suspend"] = json!(true);
    assert!(warnings_of(&registry, "PUT", &path, live).await.is_empty());
}

#[tokio::test]
async fn only_one_priority_class_is_the_default() {
    let registry = registry().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str, is_default: bool| json!({"metadata": {"name": name}, "value": 1, "globalDefault": is_default});
    create(&registry, path, class("first", true)).await;
    let other = create(&registry, path, class("other", false)).await;
    let why = |name: &str| {
        format!(
            "priorityclasses.scheduling.k8s.io \"{name}\" is forbidden: PriorityClass first is already marked as default. \
             Only one default can exist"
        )
    };
    let second = send(&registry, "POST", path, class("second", true))
        .await
        .unwrap_err();
    assert_eq!((second.code, second.message), (403, why("second")));
    let mut changed = other;
    changed["globalDefault"] = json!(true);
    let refused = send(&registry, "PUT", &format!("{path}/other"), changed)
        .await
        .unwrap_err();
    assert_eq!(refused.message, why("other"));
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    send(&registry, "PATCH", &format!("{path}/first"), patch)
        .await
        .unwrap();
}
