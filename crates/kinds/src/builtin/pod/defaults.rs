//! Defaults of pods and pod templates.
//!
//! Templates share [`default_spec`]; the other defaults apply to pods only, so that templates stay as written.

use serde_json::{Value, json};

use super::{image, quota};
use crate::rules::defaulting::{fill, items_mut, object_mut};
use crate::rules::resource_names::is_huge_page;

/// `rw-r--r--`.
const FILE_MODE: i64 = 0o644;

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fills in the defaults of a pod.
pub(crate) fn default_pod(pod: &mut Value) {
    let Some(spec) = object_mut(pod, "spec") else {
        return;
    };
    for list in ["containers", "initContainers"] {
        items_mut(spec, list).for_each(default_requests_to_limits);
    }
    default_pod_limits(spec);
    default_pod_requests(spec);
    fill(spec, "enableServiceLinks", true);
    if spec["hostNetwork"] == true {
        for list in ["containers", "initContainers"] {
            items_mut(spec, list).for_each(default_host_ports);
        }
    }
    default_spec(spec);
}

/// Sets the requests of a container to its limits where they are unset.
fn default_requests_to_limits(container: &mut Value) {
    let Some(resources) = object_mut(container, "resources") else {
        return;
    };
    let limits = resources["limits"].as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    fill(resources, "requests", json!({}));
    for (name, limit) in limits {
        fill(&mut resources["requests"], &name, limit);
    }
}

/// Sets the limits of a pod on huge pages to those of its containers, if the pod states other resources.
fn default_pod_limits(spec: &mut Value) {
    let is_stated = |list: &str| {
        spec["resources"][list]
            .as_object()
            .is_some_and(|list| !list.is_empty())
    };
    if !is_stated("requests") && !is_stated("limits") {
        return;
    }
    let pages = quota::of_containers(spec, "limits").into_iter();
    let pages: Vec<_> = pages
        .filter(|(name, _)| is_huge_page(name) && spec["resources"]["requests"].get(name).is_none())
        .collect();
    fill_amounts(spec, "limits", pages);
}

/// Sets the requests of a pod that has limits: to those of its containers, or else to its limits. Huge pages that are
/// requested must be limited, so their requests follow the limits.
fn default_pod_requests(spec: &mut Value) {
    let limits = spec["resources"]["limits"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = quota::of_containers(spec, "requests").into_iter();
    let requests = requests.filter(|(name, _)| !is_huge_page(name));
    let amounts = requests.chain(limits).filter(|(name, _)| quota::is_of_pods(name));
    fill_amounts(spec, "requests", amounts.collect());
}

/// Sets amounts of a pod as a whole where they are unset.
fn fill_amounts(spec: &mut Value, list: &str, amounts: Vec<(String, Value)>) {
    if amounts.is_empty() {
        return;
    }
    fill(&mut spec["resources"], list, json!({}));
    for (name, amount) in amounts {
        fill(&mut spec["resources"][list], &name, amount);
    }
}

/// Sets the host port to the container port, for pods on the host network.
fn default_host_ports(container: &mut Value) {
    for port in items_mut(container, "ports") {
        let number = port["containerPort"].clone();
        fill(port, "hostPort", number);
    }
}

/// Fills in the defaults of the spec of a pod or template.
pub(crate) fn default_spec(spec: &mut Value) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    sync_service_account_names(spec);
    items_mut(spec, "volumes").for_each(default_volume);
    for list in CONTAINER_LISTS {
        items_mut(spec, list).for_each(default_container);
    }
}

/// Sets both `serviceAccountName` and the deprecated `serviceAccount`. The new name wins.
fn sync_service_account_names(spec: &mut Value) {
    if let Some(old) = spec.get("serviceAccount").cloned() {
        fill(spec, "serviceAccountName", old);
    }
    if let Some(name) = spec.get("serviceAccountName").cloned() {
        spec["serviceAccount"] = name;
    }
}

fn default_container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let pull = pull_policy(image);
    fill(container, "imagePullPolicy", pull);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    for variable in items_mut(container, "env") {
        if let Some(source) = object_mut(variable, "valueFrom") {
            default_field_reference(source);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = object_mut(container, name) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = object_mut(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = object_mut(lifecycle, name) {
                default_http_get(handler);
            }
        }
    }
}

fn pull_policy(image: &str) -> &'static str {
    if image::is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

fn default_probe(probe: &mut Value) {
    fill(probe, "timeoutSeconds", 1);
    fill(probe, "periodSeconds", 10);
    fill(probe, "successThreshold", 1);
    fill(probe, "failureThreshold", 3);
    default_http_get(probe);
}

fn default_http_get(handler: &mut Value) {
    if let Some(request) = object_mut(handler, "httpGet") {
        fill(request, "path", "/");
        fill(request, "scheme", "HTTP");
    }
}

fn default_field_reference(source: &mut Value) {
    if let Some(reference) = object_mut(source, "fieldRef") {
        fill(reference, "apiVersion", "v1");
    }
}

fn default_volume(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|fields| fields.keys().any(|name| name != "name"));
    if !has_source {
        fill(volume, "emptyDir", json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object_mut(volume, name) {
            fill(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = object_mut(volume, "hostPath") {
        fill(source, "type", "");
    }
    if let Some(source) = object_mut(volume, "image") {
        let pull = pull_policy(source["reference"].as_str().unwrap_or_default());
        fill(source, "pullPolicy", pull);
    }
    if let Some(source) = object_mut(volume, "downwardAPI") {
        items_mut(source, "items").for_each(default_field_reference);
    }
    if let Some(source) = object_mut(volume, "projected") {
        items_mut(source, "sources").for_each(default_projection);
    }
    if let Some(source) = object_mut(volume, "ephemeral")
        && let Some(template) = object_mut(source, "volumeClaimTemplate")
        && let Some(claim) = object_mut(template, "spec")
    {
        fill(claim, "volumeMode", "Filesystem");
    }
}

fn default_projection(projection: &mut Value) {
    if let Some(token) = object_mut(projection, "serviceAccountToken") {
        fill(token, "expirationSeconds", 3600);
    }
    if let Some(source) = object_mut(projection, "downwardAPI") {
        items_mut(source, "items").for_each(default_field_reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_states_limits_requests_what_its_containers_do() {
        let check = |stated: Value, defaulted: Value| {
            let container = |resources: Value| json!({"resources": resources});
            let mut spec = json!({
                "containers": [
                    container(json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}})),
                    container(json!({"requests": {"cpu": "500m"}, "limits": {"hugepages-2Mi": "2Mi"}})),
                ],
                "resources": stated,
            });
            default_pod_limits(&mut spec);
            default_pod_requests(&mut spec);
            assert_eq!(spec["resources"], defaulted);
        };
        check(Value::Null, Value::Null);
        check(
            json!({"limits": {"cpu": "2", "memory": "1Gi"}}),
            json!({
                "limits": {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "2Mi"},
                "requests": {"cpu": "1500m", "memory": "1Gi", "hugepages-2Mi": "2Mi"},
            }),
        );
        check(
            json!({"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}}),
            json!({"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}}),
        );
    }
}
