//! Defaults and immutability of pods and workloads that no recording covers.

use crate::recording::{registry, send};
use serde_json::{Value, json};
use watchkeeper_registry::RegistryOptions;
use watchkeeper_storage::{Store, StoreOptions};

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

fn template(restart: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i:1"}]},
    })
}

fn set(name: &str) -> Value {
    let selector = json!({"matchLabels": {"app": "a"}});
    json!({"metadata": {"name": name}, "spec": {"selector": selector, "template": template("Always")}})
}

/// The defaulted fields of a spec, without its template.
fn completed(object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    spec.as_object_mut().unwrap().remove("template");
    spec
}

#[tokio::test]
async fn a_job_runs_once_and_selects_its_own_pods() {
    let registry = registry().await;
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template("Never")}});
    let job = send(&registry, "POST", JOBS, job).await.unwrap();
    let uid = &job["metadata"]["uid"];
    assert_eq!(
        completed(&job),
        json!({
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "completions": 1,
            "manualSelector": false,
            "parallelism": 1,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
            "suspend": false,
        })
    );
    assert_eq!(
        job["spec"]["template"]["metadata"]["labels"],
        json!({
            "app": "a",
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": "j",
            "controller-uid": uid,
            "job-name": "j",
        })
    );
    assert_eq!(job["metadata"]["labels"], json!({"app": "a"}));
}

#[tokio::test]
async fn a_job_can_be_paused_but_not_changed() {
    let registry = registry().await;
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template("Never")}});
    send(&registry, "POST", JOBS, job).await.unwrap();
    let path = format!("{JOBS}/j");
    let paused = json!({"spec": {"suspend": true, "parallelism": 2}});
    let paused = send(&registry, "PATCH", &path, paused).await.unwrap();
    assert_eq!(paused["metadata"]["generation"], 2);
    let longer = json!({"spec": {"completions": 2}});
    let refused = send(&registry, "PATCH", &path, longer).await.unwrap_err();
    assert_eq!(
        refused.message,
        r#"Job.batch "j" is invalid: spec.completions: Invalid value: 2: field is immutable"#
    );
}

#[tokio::test]
async fn service_name_and_claim_templates_of_a_stateful_set_are_immutable() {
    let registry = registry().await;
    let mut wanted = set("s");
    wanted["spec"]["volumeClaimTemplates"] = json!([{
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    let created = send(&registry, "POST", STATEFUL_SETS, wanted).await.unwrap();
    let mut spec = completed(&created);
    let claims = spec
        .as_object_mut()
        .unwrap()
        .remove("volumeClaimTemplates")
        .unwrap();
    assert_eq!(
        spec,
        json!({
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "podManagementPolicy": "OrderedReady",
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "a"}},
            "serviceName": "",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
        })
    );
    assert_eq!(claims[0]["spec"]["volumeMode"], "Filesystem");
    assert_eq!(claims[0]["status"], json!({"phase": "Pending"}));
    let path = format!("{STATEFUL_SETS}/s");
    let scaled = json!({"spec": {"replicas": 3}});
    send(&registry, "PATCH", &path, scaled).await.unwrap();
    let renamed = json!({"spec": {"serviceName": "other"}});
    let refused = send(&registry, "PATCH", &path, renamed).await.unwrap_err();
    assert_eq!(
        refused.message,
        r#"StatefulSet.apps "s" is invalid: spec.serviceName: Invalid value: "other": field is immutable"#
    );
}

#[tokio::test]
async fn a_daemon_set_increments_its_template_generation() {
    let registry = registry().await;
    send(&registry, "POST", DAEMON_SETS, set("d")).await.unwrap();
    let path = format!("{DAEMON_SETS}/d");
    let count = |set: &Value| {
        set["metadata"]["annotations"]["deprecated.daemonset.template.generation"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let waiting = json!({"spec": {"minReadySeconds": 1}, "metadata": {"annotations": null}});
    let waiting = send(&registry, "PATCH", &path, waiting).await.unwrap();
    assert_eq!(count(&waiting), "1");
    let changed = json!({"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}});
    let changed = send(&registry, "PATCH", &path, changed).await.unwrap();
    assert_eq!(count(&changed), "2");
}

#[tokio::test]
async fn a_replication_controller_gets_the_labels_of_its_template() {
    let registry = registry().await;
    let controller = json!({"metadata": {"name": "r"}, "spec": {"template": template("Always")}});
    let controller = send(&registry, "POST", CONTROLLERS, controller).await.unwrap();
    assert_eq!(
        completed(&controller),
        json!({"replicas": 1, "selector": {"app": "a"}})
    );
    assert_eq!(controller["metadata"]["labels"], json!({"app": "a"}));
}

#[tokio::test]
async fn a_pod_gets_the_priority_of_its_class() {
    let registry = registry().await;
    let class = |name: &str, value: i64, default: bool| json!({"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": "Never"});
    send(&registry, "POST", PRIORITY_CLASSES, class("high", 1000, false))
        .await
        .unwrap();
    let with_class = |name: &str, class: &str| {
        let mut pod = pod(name);
        pod["spec"]["priorityClassName"] = json!(class);
        pod
    };
    let of = |pod: &Value| {
        (
            pod["spec"]["priority"].clone(),
            pod["spec"]["preemptionPolicy"].clone(),
        )
    };
    let plain = send(&registry, "POST", PODS, pod("plain")).await.unwrap();
    assert_eq!(of(&plain), (json!(0), json!("PreemptLowerPriority")));
    let high = send(&registry, "POST", PODS, with_class("high", "high"))
        .await
        .unwrap();
    assert_eq!(of(&high), (json!(1000), json!("Never")));
    let system = with_class("system", "system-node-critical");
    let system = send(&registry, "POST", PODS, system).await.unwrap();
    assert_eq!(of(&system), (json!(2_000_001_000), json!("PreemptLowerPriority")));
    let lost = send(&registry, "POST", PODS, with_class("lost", "lost"))
        .await
        .unwrap_err();
    assert_eq!(
        lost.message,
        r#"pods "lost" is forbidden: no PriorityClass with name lost was found"#
    );
    send(&registry, "POST", PRIORITY_CLASSES, class("usual", 5, true))
        .await
        .unwrap();
    let usual = send(&registry, "POST", PODS, pod("usual")).await.unwrap();
    assert_eq!(of(&usual), (json!(5), json!("Never")));
    assert_eq!(usual["spec"]["priorityClassName"], "usual");
}

#[tokio::test]
async fn most_fields_of_a_pod_are_immutable() {
    let registry = registry().await;
    let mut wanted = pod("p");
    wanted["spec"]["activeDeadlineSeconds"] = json!(100);
    let created = send(&registry, "POST", PODS, wanted).await.unwrap();
    let path = format!("{PODS}/p");
    let container = |change: Value| {
        let mut container = created["spec"]["containers"][0].clone();
        container
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        json!({"spec": {"containers": [container]}})
    };
    let tolerations = |change: Value| {
        let mut tolerations = created["spec"]["tolerations"].as_array().unwrap().clone();
        tolerations.push(change);
        json!({"spec": {"tolerations": tolerations}})
    };
    for allowed in [
        container(json!({"image": "i:2"})),
        tolerations(json!({"key": "k", "operator": "Exists"})),
        json!({"spec": {"activeDeadlineSeconds": 50}}),
    ] {
        send(&registry, "PATCH", &path, allowed).await.unwrap();
    }
    for (change, why) in [
        (
            container(json!({"command": ["sh"]})),
            "spec: Forbidden: pod updates may not change fields other than",
        ),
        (
            json!({"spec": {"containers": [created["spec"]["containers"][0], {"name": "d", "image": "i"}]}}),
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            json!({"spec": {"activeDeadlineSeconds": 90}}),
            "spec.activeDeadlineSeconds: Invalid value: 90: must be less than or equal to previous value",
        ),
        (
            json!({"spec": {"tolerations": [{"key": "other", "operator": "Exists"}]}}),
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            json!({"spec": {"restartPolicy": "Never"}}),
            "spec: Forbidden: pod updates may not change fields other than",
        ),
    ] {
        let refused = send(&registry, "PATCH", &path, change).await.unwrap_err();
        let wanted = format!("Pod \"p\" is invalid: {why}");
        assert!(refused.message.starts_with(&wanted), "{refused}");
    }
}

#[tokio::test]
async fn immutable_fields_of_a_pod_are_named() {
    let registry = registry().await;
    send(&registry, "POST", PODS, pod("p")).await.unwrap();
    let change = json!({"spec": {"restartPolicy": "Never", "hostname": "h"}});
    let refused = send(&registry, "PATCH", &format!("{PODS}/p"), change)
        .await
        .unwrap_err();
    let (_, changes) = refused.message.split_once('\n').unwrap();
    assert_eq!(
        changes,
        r#"@@ -35,7 +35,7 @@
   }
  ],
  "EphemeralContainers": null,
- "RestartPolicy": "Always",
+ "RestartPolicy": "Never",
  "TerminationGracePeriodSeconds": 30,
  "ActiveDeadlineSeconds": null,
  "DNSPolicy": "ClusterFirst",
@@ -64,7 +64,7 @@
   "SELinuxChangePolicy": null
  },
  "ImagePullSecrets": null,
- "Hostname": "",
+ "Hostname": "h",
  "Subdomain": "",
  "Affinity": null,
  "SchedulerName": "default-scheduler",
"#
    );
}

#[tokio::test]
async fn privileged_containers_are_rejected_unless_allowed() {
    let mut privileged = pod("p");
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let mut set = set("s");
    set["spec"]["template"]["spec"] = privileged["spec"].clone();
    for (allow_privileged, path, object, place) in [
        (true, PODS, &privileged, None),
        (true, DAEMON_SETS, &set, None),
        (false, PODS, &privileged, Some("spec")),
        (false, DAEMON_SETS, &set, Some("spec.template.spec")),
    ] {
        let store = Store::memory(StoreOptions::default());
        let options = RegistryOptions {
            allow_privileged,
            ..Default::default()
        };
        let registry = options.open(store).await.unwrap();
        let refusal = send(&registry, "POST", path, object.clone()).await.err();
        let refusal = refusal.map(|status| status.message.clone().split_once(": ").unwrap().1.to_owned());
        let expected = place.map(|place| {
            format!(
                "{place}.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"
            )
        });
        assert_eq!(refusal, expected, "{path}");
    }
}

#[tokio::test]
async fn a_quota_is_charged_and_enforced() {
    const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
    let registry = registry().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
    send(&registry, "POST", QUOTAS, quota).await.unwrap();
    let counted =
        json!({"metadata": {"name": "q"}, "status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}});
    let status = format!("{QUOTAS}/q/status");
    send(&registry, "PUT", &status, counted).await.unwrap();
    send(&registry, "POST", PODS, pod("a")).await.unwrap();
    let refusal = send(&registry, "POST", PODS, pod("b")).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
    let quota = send(&registry, "GET", &format!("{QUOTAS}/q"), json!({}))
        .await
        .unwrap();
    assert_eq!(quota["status"]["used"], json!({"pods": "1"}));
}

#[tokio::test]
async fn annotations_of_a_deployment_increment_its_generation() {
    let registry = registry().await;
    send(&registry, "POST", DEPLOYMENTS, set("d")).await.unwrap();
    let path = format!("{DEPLOYMENTS}/d");
    let check = async |metadata: Value, expected: u64| {
        let patched = send(&registry, "PATCH", &path, json!({"metadata": metadata})).await;
        assert_eq!(patched.unwrap()["metadata"]["generation"], expected, "{metadata}");
    };
    check(json!({"labels": {"a": "b"}}), 1).await;
    check(json!({"annotations": {"a": "b"}}), 2).await;
    check(json!({"annotations": {"a": "b"}}), 2).await;
    check(json!({"annotations": null}), 3).await;
}

#[tokio::test]
async fn labels_of_a_slice_increment_its_generation() {
    const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let registry = registry().await;
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []});
    send(&registry, "POST", SLICES, slice).await.unwrap();
    let path = format!("{SLICES}/s");
    let check = async |patch: Value, expected: u64| {
        let patched = send(&registry, "PATCH", &path, patch.clone()).await;
        assert_eq!(patched.unwrap()["metadata"]["generation"], expected, "{patch}");
    };
    check(json!({"metadata": {"annotations": {"a": "b"}}}), 1).await;
    check(json!({"metadata": {"labels": {"a": "b"}}}), 2).await;
    check(json!({"metadata": {"labels": {"a": "b"}}}), 2).await;
    check(json!({"endpoints": [{"addresses": ["10.1.0.1"]}]}), 3).await;
}
