//! Validation of fields that depend on a pod's operating system or on the namespaces of its host.

use serde_json::{Value, json};

use crate::refusals::check;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(spec: Value) -> Value {
    let mut all = json!({"containers": [{"name": "c", "image": "i"}]});
    all.as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": "x"}, "spec": all})
}

#[tokio::test]
async fn a_linux_pod_has_no_windows_options() {
    const WHY: &str = "windowsOptions: Forbidden: windows options cannot be set for a linux pod";
    let options = json!({"windowsOptions": {"runAsUserName": "me"}});
    check(
        PODS,
        pod(json!({"os": {"name": "linux"}})),
        &[
            (
                "/spec/securityContext",
                options.clone(),
                &format!("spec.securityContext.{WHY}"),
            ),
            (
                "/spec/containers/0/securityContext",
                options,
                &format!("spec.containers[0].securityContext.{WHY}"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_windows_pod_has_no_linux_fields() {
    const WHY: &str = "Forbidden: cannot be set for a windows pod";
    let windows = pod(json!({"os": {"name": "windows"}}));
    let of_pod = |name: &str| format!("spec.{name}: {WHY}");
    check(
        PODS,
        windows,
        &[
            ("/spec/hostPID", json!(true), &of_pod("hostPID")),
            ("/spec/hostPID", json!(false), ""),
            ("/spec/hostUsers", json!(true), &of_pod("hostUsers")),
            (
                "/spec/securityContext",
                json!({"runAsUser": 1, "fsGroup": 2, "runAsNonRoot": true}),
                &format!(
                    "[{}, {}]",
                    of_pod("securityContext.fsGroup"),
                    of_pod("securityContext.runAsUser")
                ),
            ),
            (
                "/spec/containers/0/securityContext",
                json!({"procMount": "Default", "capabilities": {"drop": ["ALL"]}}),
                &format!(
                    "[{}, {}]",
                    of_pod("containers[0].securityContext.capabilities"),
                    of_pod("containers[0].securityContext.procMount")
                ),
            ),
            (
                "/spec/containers/0/securityContext",
                json!({"windowsOptions": {"runAsUserName": "me"}}),
                "",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn sysctls_of_a_namespace_shared_with_the_host() {
    let sysctl = |name: &str| json!({"sysctls": [{"name": name, "value": "1"}]});
    let shared = pod(json!({"hostNetwork": true, "hostIPC": true}));
    let why = |name: &str, shared: &str| {
        format!(
            "spec.securityContext.sysctls[0].name: Invalid value: \"{name}\": may not be specified when '{shared}' is true"
        )
    };
    check(
        PODS,
        shared,
        &[
            ("/spec/securityContext", sysctl("kernel.domainname"), ""),
            (
                "/spec/securityContext",
                sysctl("net.core.x"),
                &why("net.core.x", "hostNetwork"),
            ),
            (
                "/spec/securityContext",
                sysctl("net/core/x"),
                &why("net/core/x", "hostNetwork"),
            ),
            (
                "/spec/securityContext",
                sysctl("kernel.sem"),
                &why("kernel.sem", "hostIPC"),
            ),
            (
                "/spec/securityContext",
                sysctl("kernel.shm_rmid_forced"),
                &why("kernel.shm_rmid_forced", "hostIPC"),
            ),
        ],
    )
    .await;
    check(
        PODS,
        pod(json!({})),
        &[("/spec/securityContext", sysctl("net.core.x"), "")],
    )
    .await;
}

#[tokio::test]
async fn profiles_in_annotations_and_fields_agree() {
    let mut annotated = pod(json!({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}));
    let key = "/metadata/annotations";
    check(
        PODS,
        annotated.clone(),
        &[
            (key, json!({"seccomp.security.alpha.kubernetes.io/pod": "docker/default"}), ""),
            (
                key,
                json!({"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
                "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
            ),
        ],
    )
    .await;
    annotated["spec"]["containers"][0]["securityContext"] =
        json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}});
    check(
        PODS,
        annotated,
        &[
            (key, json!({"container.apparmor.security.beta.kubernetes.io/c": "localhost/a"}), ""),
            (
                key,
                json!({"container.apparmor.security.beta.kubernetes.io/c": "localhost/b"}),
                "spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in \
                 annotation and field must match",
            ),
        ],
    )
    .await;
}
