//! What stands in a column: one place per kind and column, the same words as Kubernetes.

use serde_json::{Value, json};
use watchkeeper_meta::{LabelSelector, Time};

use super::autoscaler;
use super::human::{age, duration};
use super::pod::{PodSummary, readiness_gates};

pub(super) const NONE: &str = "<none>";

/// The cells of an object's row, one per column.
pub(super) fn cells<'c>(
    kind: &str,
    columns: impl Iterator<Item = &'c str>,
    object: &Value,
    now: Time,
) -> Vec<Value> {
    // Several columns tell of one summary.
    let pod = (kind == "Pod").then(|| PodSummary::of(object));
    columns
        .map(|column| match &pod {
            Some(pod) => pod_cell(column, pod, object, now),
            None => cell(kind, column, object, now),
        })
        .collect()
}

fn pod_cell(column: &str, pod: &PodSummary, object: &Value, now: Time) -> Value {
    let or_none = |pointer: &str| json!(or(text_at(object, pointer), NONE));
    match column {
        "Ready" => json!(format!("{}/{}", pod.ready, pod.total)),
        "Status" => json!(pod.status),
        "Restarts" => pod.restarts(now),
        "IP" => json!(or(either(object, "/status/podIPs/0/ip", "/status/podIP"), NONE)),
        "Node" => or_none("/spec/nodeName"),
        "Nominated Node" => or_none("/status/nominatedNodeName"),
        "Readiness Gates" => json!(readiness_gates(object)),
        _ => cell("Pod", column, object, now),
    }
}

fn cell(kind: &str, column: &str, object: &Value, now: Time) -> Value {
    let at = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    let text = |pointer: &str| text_at(object, pointer);
    let or_none = |pointer: &str| or(text(pointer), NONE);
    let count = |pointer: &str| json!(at(pointer).as_i64().unwrap_or_default());
    let list_len = |pointer: &str| json!(at(pointer).as_array().map_or(0, Vec::len));
    let aged = |pointer: &str| json!(age(object.pointer(pointer).and_then(Value::as_str), now));
    match (kind, column) {
        (_, "Name") => text("/metadata/name").into(),
        (_, "Age") => aged("/metadata/creationTimestamp"),
        (_, "Created At") => text("/metadata/creationTimestamp").into(),

        ("ConfigMap", "Data") => json!(map_len(object, "/data") + map_len(object, "/binaryData")),
        ("Secret", "Type") => text("/type").into(),
        ("Secret", "Data") => json!(map_len(object, "/data")),
        ("Namespace", "Status") => text("/status/phase").into(),

        ("Deployment" | "StatefulSet", "Ready") => {
            let wanted = at("/spec/replicas").as_i64().unwrap_or_default();
            json!(format!("{}/{wanted}", count("/status/readyReplicas")))
        }
        ("Deployment", "Up-to-date") => count("/status/updatedReplicas"),
        ("Deployment", "Available") => count("/status/availableReplicas"),
        ("ReplicaSet" | "ReplicationController", "Desired") => count("/spec/replicas"),
        ("ReplicaSet" | "ReplicationController", "Current") => count("/status/replicas"),
        ("ReplicaSet" | "ReplicationController", "Ready") => count("/status/readyReplicas"),
        ("DaemonSet", "Desired") => count("/status/desiredNumberScheduled"),
        ("DaemonSet", "Current") => count("/status/currentNumberScheduled"),
        ("DaemonSet", "Ready") => count("/status/numberReady"),
        ("DaemonSet", "Up-to-date") => count("/status/updatedNumberScheduled"),
        ("DaemonSet", "Available") => count("/status/numberAvailable"),
        ("DaemonSet", "Node Selector") => json!(labels(&at("/spec/template/spec/nodeSelector"))),
        ("PodTemplate", "Containers") => json!(containers(object, "/template/spec", "name")),
        ("PodTemplate", "Images") => json!(containers(object, "/template/spec", "image")),
        ("PodTemplate", "Pod Labels") => json!(labels(&at("/template/metadata/labels"))),
        ("CronJob", "Containers") => {
            json!(containers(object, "/spec/jobTemplate/spec/template/spec", "name"))
        }
        ("CronJob", "Images") => json!(containers(
            object,
            "/spec/jobTemplate/spec/template/spec",
            "image"
        )),
        ("CronJob", "Selector") => json!(selector(&at("/spec/jobTemplate/spec/selector"))),
        (_, "Containers") => json!(containers(object, "/spec/template/spec", "name")),
        (_, "Images") => json!(containers(object, "/spec/template/spec", "image")),
        ("ReplicationController" | "Service", "Selector") => json!(labels(&at("/spec/selector"))),
        (_, "Selector") => json!(selector(&at("/spec/selector"))),

        ("Job", "Status") => json!(job_status(object)),
        ("Job", "Completions") => json!(job_completions(object)),
        ("Job", "Duration") => json!(job_duration(object, now)),
        ("CronJob", "Schedule") => text("/spec/schedule").into(),
        ("CronJob", "Timezone") => json!(or_none("/spec/timeZone")),
        ("CronJob", "Suspend") => at("/spec/suspend"),
        ("CronJob", "Active") => list_len("/status/active"),
        ("CronJob", "Last Schedule") => match text("/status/lastScheduleTime") {
            time if time.is_empty() => json!(NONE),
            _ => aged("/status/lastScheduleTime"),
        },

        ("Service", "Type") => text("/spec/type").into(),
        ("Service", "Cluster-IP") => json!(or_none("/spec/clusterIP")),
        ("Service", "External-IP") => json!(external_ip(object)),
        ("Service", "Port(s)") => json!(service_ports(object)),
        ("Endpoints", "Endpoints") => json!(endpoints(object)),
        ("EndpointSlice", "AddressType") => text("/addressType").into(),
        ("EndpointSlice", "Ports") => json!(some_of(slice_ports(object), 3, "<unset>")),
        ("EndpointSlice", "Endpoints") => json!(some_of(slice_addresses(object), 3, "<unset>")),
        ("Ingress", "Class") => json!(or_none("/spec/ingressClassName")),
        ("Ingress", "Hosts") => json!(ingress_hosts(object)),
        ("Ingress", "Address") => json!(load_balancer(object).join(",")),
        ("Ingress", "Ports") => match list_len("/spec/tls") {
            tls if tls == json!(0) => json!("80"),
            _ => json!("80, 443"),
        },
        ("IngressClass", "Controller") => text("/spec/controller").into(),
        ("IngressClass", "Parameters") => json!(parameters(&at("/spec/parameters"))),
        ("NetworkPolicy", "Pod-Selector") => json!(selector(&at("/spec/podSelector"))),
        ("IPAddress", "ParentRef") => json!(parent(&at("/spec/parentRef"))),
        ("ServiceCIDR", "CIDRs") => json!(joined(&at("/spec/cidrs"), ",")),

        ("Node", "Status") => json!(node_status(object)),
        ("Node", "Roles") => json!(node_roles(object)),
        ("Node", "Version") => text("/status/nodeInfo/kubeletVersion").into(),
        ("Node", "Internal-IP") => json!(node_address(object, "InternalIP")),
        ("Node", "External-IP") => json!(node_address(object, "ExternalIP")),
        ("Node", "OS-Image") => json!(or(text("/status/nodeInfo/osImage"), "<unknown>")),
        ("Node", "Kernel-Version") => json!(kernel(object)),
        ("Node", "Container-Runtime") => {
            json!(or(text("/status/nodeInfo/containerRuntimeVersion"), "<unknown>"))
        }

        ("PersistentVolume", "Capacity") => text("/spec/capacity/storage").into(),
        ("PersistentVolume", "Access Modes") => json!(access_modes(&at("/spec/accessModes"))),
        ("PersistentVolume", "Reclaim Policy") => text("/spec/persistentVolumeReclaimPolicy").into(),
        ("PersistentVolume", "Claim") => match at("/spec/claimRef") {
            Value::Null => json!(""),
            claim => json!(format!(
                "{}/{}",
                text_at(&claim, "/namespace"),
                text_at(&claim, "/name")
            )),
        },
        ("PersistentVolume", "Reason") => text("/status/reason").into(),
        ("PersistentVolumeClaim", "Volume") => text("/spec/volumeName").into(),
        ("PersistentVolumeClaim", "Capacity") => text("/status/capacity/storage").into(),
        ("PersistentVolumeClaim", "Access Modes") => json!(access_modes(&at("/status/accessModes"))),
        ("PersistentVolume" | "PersistentVolumeClaim", "Status") => {
            match object.pointer("/metadata/deletionTimestamp") {
                Some(_) => json!("Terminating"),
                None => text("/status/phase").into(),
            }
        }
        ("PersistentVolume" | "PersistentVolumeClaim", "StorageClass") => {
            let annotated = text("/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
            json!(if annotated.is_empty() {
                text("/spec/storageClassName")
            } else {
                annotated
            })
        }
        ("PersistentVolume" | "PersistentVolumeClaim", "VolumeAttributesClass") => {
            json!(or(text("/spec/volumeAttributesClassName"), "<unset>"))
        }
        ("PersistentVolume" | "PersistentVolumeClaim", "VolumeMode") => {
            json!(or(text("/spec/volumeMode"), "<unset>"))
        }
        ("StorageClass", "Provisioner") => text("/provisioner").into(),
        ("StorageClass", "ReclaimPolicy") => json!(or(text("/reclaimPolicy"), "Delete")),
        ("StorageClass", "VolumeBindingMode") => json!(or(text("/volumeBindingMode"), "Immediate")),
        ("StorageClass", "AllowVolumeExpansion") => {
            json!(at("/allowVolumeExpansion").as_bool().unwrap_or_default())
        }
        ("VolumeAttributesClass", "DriverName") => text("/driverName").into(),
        ("VolumeAttachment", "Attacher") => text("/spec/attacher").into(),
        ("VolumeAttachment", "PV") => text("/spec/source/persistentVolumeName").into(),
        ("VolumeAttachment", "Node") => text("/spec/nodeName").into(),
        ("VolumeAttachment", "Attached") => json!(at("/status/attached").as_bool().unwrap_or_default()),
        ("CSINode", "Drivers") => list_len("/spec/drivers"),
        ("CSIDriver", "AttachRequired") => json!(at("/spec/attachRequired").as_bool().unwrap_or(true)),
        ("CSIDriver", "PodInfoOnMount") => json!(at("/spec/podInfoOnMount").as_bool().unwrap_or_default()),
        ("CSIDriver", "StorageCapacity") => json!(at("/spec/storageCapacity").as_bool().unwrap_or_default()),
        ("CSIDriver", "RequiresRepublish") => {
            json!(at("/spec/requiresRepublish").as_bool().unwrap_or_default())
        }
        ("CSIDriver", "TokenRequests") => {
            let audiences = list_of(&at("/spec/tokenRequests"), |request| {
                text_at(request, "/audience")
            });
            json!(or(audiences.join(","), "<unset>"))
        }
        ("CSIDriver", "Modes") => json!(or(joined(&at("/spec/volumeLifecycleModes"), ","), NONE)),

        ("PodDisruptionBudget", "Min Available") => json!(or(plain(&at("/spec/minAvailable")), "N/A")),
        ("PodDisruptionBudget", "Max Unavailable") => json!(or(plain(&at("/spec/maxUnavailable")), "N/A")),
        ("PodDisruptionBudget", "Allowed Disruptions") => count("/status/disruptionsAllowed"),
        ("HorizontalPodAutoscaler", "Reference") => {
            json!(format!(
                "{}/{}",
                text("/spec/scaleTargetRef/kind"),
                text("/spec/scaleTargetRef/name")
            ))
        }
        ("ComponentStatus", "Status") => json!(match text("/conditions/0/status").as_str() {
            "True" => "Healthy",
            "" => "Unknown",
            _ => "Unhealthy",
        }),
        ("ComponentStatus", "Message") => text("/conditions/0/message").into(),
        ("ComponentStatus", "Error") => text("/conditions/0/error").into(),

        ("HorizontalPodAutoscaler", "Targets") => json!(autoscaler::targets(object)),
        ("HorizontalPodAutoscaler", "MinPods") => json!(or(plain(&at("/spec/minReplicas")), "<unset>")),
        ("HorizontalPodAutoscaler", "MaxPods") => count("/spec/maxReplicas"),
        ("HorizontalPodAutoscaler", "Replicas") => count("/status/currentReplicas"),
        ("ResourceQuota", "Request") => json!(quota(object, |name| !name.starts_with("limits"))),
        ("ResourceQuota", "Limit") => json!(quota(object, |name| name.starts_with("limits"))),

        ("ClusterRoleBinding" | "RoleBinding", "Role") => {
            json!(format!("{}/{}", text("/roleRef/kind"), text("/roleRef/name")))
        }
        ("ClusterRoleBinding" | "RoleBinding", "Users") => json!(subjects(object, "User")),
        ("ClusterRoleBinding" | "RoleBinding", "Groups") => json!(subjects(object, "Group")),
        ("ClusterRoleBinding" | "RoleBinding", "ServiceAccounts") => {
            json!(subjects(object, "ServiceAccount"))
        }

        ("Event", "Last Seen") => json!(last_seen(object, now)),
        ("Event", "First Seen") => json!(first_seen(object, now)),
        ("Event", "Type") => text("/type").into(),
        ("Event", "Reason") => text("/reason").into(),
        ("Event", "Object") => json!(event_object(object)),
        ("Event", "Subobject") => json!(either(
            object,
            "/involvedObject/fieldPath",
            "/regarding/fieldPath"
        )),
        ("Event", "Source") => json!(event_source(object)),
        ("Event", "Message") => json!(either(object, "/message", "/note").trim()),
        ("Event", "Count") => {
            let times = [at("/series/count"), at("/count"), at("/deprecatedCount")];
            json!(
                times
                    .iter()
                    .find_map(Value::as_i64)
                    .filter(|times| *times > 0)
                    .unwrap_or(1)
            )
        }

        ("CertificateSigningRequest", "SignerName")
        | ("ClusterTrustBundle" | "PodCertificateRequest", "SignerName") => {
            json!(or_none("/spec/signerName"))
        }
        ("CertificateSigningRequest", "Requestor") => text("/spec/username").into(),
        ("CertificateSigningRequest", "RequestedDuration") => match at("/spec/expirationSeconds").as_i64() {
            Some(seconds) => json!(duration(seconds)),
            None => json!(NONE),
        },
        ("CertificateSigningRequest", "Condition") => json!(certificate_condition(object)),
        ("PodCertificateRequest", "PodName") => text("/spec/podName").into(),
        ("PodCertificateRequest", "ServiceAccountName") => text("/spec/serviceAccountName").into(),
        ("PodCertificateRequest", "NodeName") => text("/spec/nodeName").into(),

        ("ValidatingAdmissionPolicy", "Validations") => list_len("/spec/validations"),
        ("MutatingAdmissionPolicy", "Mutations") => list_len("/spec/mutations"),
        ("ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy", "ParamKind") => match at("/spec/paramKind")
        {
            Value::Null => json!("<unset>"),
            kind => json!(format!(
                "{}/{}",
                text_at(&kind, "/apiVersion"),
                text_at(&kind, "/kind")
            )),
        },
        (_, "PolicyName") => text("/spec/policyName").into(),
        (_, "ParamRef") => match at("/spec/paramRef") {
            Value::Null => json!("<unset>"),
            reference => json!(parent(&json!({
                "namespace": reference["namespace"], "name": reference["name"],
            }))),
        },
        (_, "Webhooks") => list_len("/webhooks"),

        ("CustomResourceDefinition", "Scope") => text("/spec/scope").into(),
        ("CustomResourceDefinition", "Versions") => json!(crd_versions(object)),
        ("CustomResourceDefinition", "Group") => text("/spec/group").into(),
        ("CustomResourceDefinition", "Kind") => text("/spec/names/kind").into(),
        ("CustomResourceDefinition", "ShortNames") => json!(joined(&at("/spec/names/shortNames"), ",")),
        ("CustomResourceDefinition", "Established") => json!(condition(object, "Established") == "True"),
        ("APIService", "Service") => match at("/spec/service") {
            Value::Null => json!("Local"),
            service => json!(format!(
                "{}/{}",
                text_at(&service, "/namespace"),
                text_at(&service, "/name")
            )),
        },
        ("APIService", "Available") => json!(condition(object, "Available")),
        ("PriorityClass", "Value") => count("/value"),
        ("PriorityClass", "Global-Default") => json!(at("/globalDefault").as_bool().unwrap_or_default()),
        ("PriorityClass", "PreemptionPolicy") => json!(or(text("/preemptionPolicy"), "PreemptLowerPriority")),
        ("Lease", "Holder") => text("/spec/holderIdentity").into(),
        ("RuntimeClass", "Handler") => text("/handler").into(),
        ("ControllerRevision", "Controller") => json!(controller(object)),
        ("ControllerRevision", "Revision") => count("/revision"),
        ("FlowSchema", "PriorityLevel") => json!(or_none("/spec/priorityLevelConfiguration/name")),
        ("FlowSchema", "MatchingPrecedence") => count("/spec/matchingPrecedence"),
        ("FlowSchema", "DistinguisherMethod") => json!(or_none("/spec/distinguisherMethod/type")),
        ("FlowSchema", "MissingPL") => json!(or(condition(object, "Dangling"), "?")),
        ("PriorityLevelConfiguration", "Type") => text("/spec/type").into(),
        ("PriorityLevelConfiguration", "NominalConcurrencyShares") => {
            json!(or(plain(&at("/spec/limited/nominalConcurrencyShares")), NONE))
        }
        ("PriorityLevelConfiguration", "Queues") => {
            json!(or(plain(&at("/spec/limited/limitResponse/queuing/queues")), NONE))
        }
        ("PriorityLevelConfiguration", "HandSize") => {
            json!(or(
                plain(&at("/spec/limited/limitResponse/queuing/handSize")),
                NONE
            ))
        }
        ("PriorityLevelConfiguration", "QueueLengthLimit") => {
            json!(or(
                plain(&at("/spec/limited/limitResponse/queuing/queueLengthLimit")),
                NONE
            ))
        }
        ("ResourceClaim", "State") => json!(claim_state(object)),
        ("ResourceSlice", "Node") => text("/spec/nodeName").into(),
        ("ResourceSlice", "Driver") => text("/spec/driver").into(),
        ("ResourceSlice", "Pool") => text("/spec/pool/name").into(),
        ("DeviceTaintRule", "Key") => text("/spec/taint/key").into(),
        ("DeviceTaintRule", "Value") => text("/spec/taint/value").into(),
        ("DeviceTaintRule", "Effect") => text("/spec/taint/effect").into(),
        ("DeviceTaintRule", "TimeAdded") => aged("/spec/taint/timeAdded"),
        ("StorageVersionMigration", "Resource") => text("/spec/resource/resource").into(),
        _ => json!(NONE),
    }
}

pub(super) fn text_at(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn either(object: &Value, first: &str, second: &str) -> String {
    match text_at(object, first) {
        text if text.is_empty() => text_at(object, second),
        text => text,
    }
}

pub(super) fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() {
        otherwise.to_owned()
    } else {
        text
    }
}

/// A number or a text as it prints; nothing for null.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn map_len(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

fn list_of(list: &Value, item: impl Fn(&Value) -> String) -> Vec<String> {
    list.as_array().into_iter().flatten().map(item).collect()
}

fn joined(list: &Value, separator: &str) -> String {
    list_of(list, plain).join(separator)
}

fn containers(object: &Value, pod_spec: &str, field: &str) -> String {
    let containers = object
        .pointer(&format!("{pod_spec}/containers"))
        .cloned()
        .unwrap_or_default();
    list_of(&containers, |container| plain(&container[field])).join(",")
}

/// `a=b,c=d`.
fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    or(
        pairs
            .map(|(key, value)| format!("{key}={}", plain(value)))
            .collect::<Vec<_>>()
            .join(","),
        NONE,
    )
}

fn selector(selector: &Value) -> String {
    match LabelSelector::from_json(selector) {
        Ok(selector) if !selector.is_everything() => selector.to_string(),
        _ => NONE.to_owned(),
    }
}

/// The first few of a list, and how many more there are.
fn some_of(items: Vec<String>, most: usize, none: &str) -> String {
    if items.is_empty() {
        return none.to_owned();
    }
    let shown = items[..items.len().min(most)].join(",");
    match items.len().checked_sub(most) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

fn condition(object: &Value, kind: &str) -> String {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    found
        .map(|condition| plain(&condition["status"]))
        .unwrap_or_default()
}

fn job_status(job: &Value) -> &'static str {
    let is = |kind: &str| condition(job, kind) == "True";
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if !job["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn job_completions(job: &Value) -> String {
    let succeeded = job["status"]["succeeded"].as_i64().unwrap_or_default();
    match (
        job["spec"]["completions"].as_i64(),
        job["spec"]["parallelism"].as_i64().unwrap_or_default(),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value, now: Time) -> String {
    let time = |name: &str| {
        job["status"][name]
            .as_str()
            .and_then(|text| text.parse::<Time>().ok())
    };
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), Some(end)) => duration(end.seconds - start.seconds),
        (Some(start), None) => duration(now.seconds - start.seconds),
    }
}

fn load_balancer(object: &Value) -> Vec<String> {
    let ingress = object
        .pointer("/status/loadBalancer/ingress")
        .cloned()
        .unwrap_or_default();
    let mut found = list_of(&ingress, |entry| match text_at(entry, "/ip") {
        ip if ip.is_empty() => text_at(entry, "/hostname"),
        ip => ip,
    });
    found.retain(|address| !address.is_empty());
    found
}

fn external_ip(service: &Value) -> String {
    let external = joined(&service["spec"]["externalIPs"], ",");
    match text_at(service, "/spec/type").as_str() {
        "ExternalName" => text_at(service, "/spec/externalName"),
        "LoadBalancer" => {
            let mut all = load_balancer(service);
            all.extend((!external.is_empty()).then_some(external));
            or(all.join(","), "<pending>")
        }
        _ => or(external, NONE),
    }
}

fn service_ports(service: &Value) -> String {
    let ports = list_of(&service["spec"]["ports"], |port| {
        let (number, protocol) = (plain(&port["port"]), plain(&port["protocol"]));
        match port["nodePort"].as_i64() {
            Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    or(ports.join(","), NONE)
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in object["subsets"].as_array().into_iter().flatten() {
        let addresses = list_of(&subset["addresses"], |address| text_at(address, "/ip"));
        let ports = list_of(&subset["ports"], |port| plain(&port["port"]));
        match ports.is_empty() {
            true => all.extend(addresses),
            false => all.extend(ports.iter().flat_map(|port| {
                addresses.iter().map(move |address| match address.contains(':') {
                    true => format!("[{address}]:{port}"),
                    false => format!("{address}:{port}"),
                })
            })),
        }
    }
    some_of(all, 3, NONE)
}

fn slice_ports(slice: &Value) -> Vec<String> {
    list_of(&slice["ports"], |port| match &port["port"] {
        Value::Null => "*".to_owned(),
        number => plain(number),
    })
}

fn slice_addresses(slice: &Value) -> Vec<String> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .flat_map(|endpoint| list_of(&endpoint["addresses"], plain))
        .collect()
}

fn ingress_hosts(ingress: &Value) -> String {
    let mut hosts = list_of(&ingress["spec"]["rules"], |rule| text_at(rule, "/host"));
    hosts.retain(|host| !host.is_empty());
    some_of(hosts, 3, "*")
}

fn parameters(parameters: &Value) -> String {
    if parameters.is_null() {
        return NONE.to_owned();
    }
    let (kind, group) = (text_at(parameters, "/kind"), text_at(parameters, "/apiGroup"));
    let kind = if group.is_empty() {
        kind
    } else {
        format!("{kind}.{group}")
    };
    format!("{kind}/{}", text_at(parameters, "/name"))
}

/// `resource.group/namespace/name`, without what is not there.
fn parent(reference: &Value) -> String {
    let (resource, group) = (text_at(reference, "/resource"), text_at(reference, "/group"));
    let resource = if group.is_empty() {
        resource
    } else {
        format!("{resource}.{group}")
    };
    let parts = [
        resource,
        text_at(reference, "/namespace"),
        text_at(reference, "/name"),
    ];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/")
}

fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready").as_str() {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    };
    match node["spec"]["unschedulable"].as_bool() {
        Some(true) => format!("{ready},SchedulingDisabled"),
        _ => ready.to_owned(),
    }
}

fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<String> = labels
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) if !role.is_empty() => Some(role.to_owned()),
                _ if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
                _ => None,
            },
        )
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or(roles.join(","), NONE)
}

fn node_address(node: &Value, kind: &str) -> String {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let found = addresses.into_iter().find(|address| address["type"] == kind);
    or(
        found
            .map(|address| text_at(address, "/address"))
            .unwrap_or_default(),
        NONE,
    )
}

fn kernel(node: &Value) -> String {
    let info = &node["status"]["nodeInfo"];
    let (version, architecture) = (text_at(info, "/kernelVersion"), text_at(info, "/architecture"));
    match (version.is_empty(), architecture.is_empty()) {
        (true, _) => "<unknown>".to_owned(),
        (false, true) => version,
        (false, false) => format!("{version} ({architecture})"),
    }
}

fn access_modes(modes: &Value) -> String {
    let short = list_of(modes, |mode| {
        match mode.as_str().unwrap_or_default() {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        }
        .to_owned()
    });
    short.join(",")
}

fn quota(quota: &Value, wanted: impl Fn(&str) -> bool) -> String {
    let hard = quota["status"]["hard"].as_object().into_iter().flatten();
    let shown = hard.filter(|(name, _)| wanted(name)).map(|(name, limit)| {
        let used = or(plain(&quota["status"]["used"][name]), "0");
        format!("{name}: {used}/{}", plain(limit))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    let named = subjects.filter(|subject| subject["kind"] == kind).map(|subject| {
        match (kind, text_at(subject, "/namespace")) {
            ("ServiceAccount", namespace) => format!("{namespace}/{}", text_at(subject, "/name")),
            _ => text_at(subject, "/name"),
        }
    });
    named.collect::<Vec<_>>().join(", ")
}

fn first_seen(event: &Value, now: Time) -> String {
    let pointers = ["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"];
    let time = pointers
        .iter()
        .find_map(|pointer| event.pointer(pointer).and_then(Value::as_str));
    age(time, now)
}

fn last_seen(event: &Value, now: Time) -> String {
    let pointers = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
        "/firstTimestamp",
        "/eventTime",
    ];
    let time = pointers
        .iter()
        .find_map(|pointer| event.pointer(pointer).and_then(Value::as_str));
    age(time, now)
}

fn event_object(event: &Value) -> String {
    let kind = either(event, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    let name = either(event, "/involvedObject/name", "/regarding/name");
    if kind.is_empty() {
        name
    } else {
        format!("{kind}/{name}")
    }
}

fn event_source(event: &Value) -> String {
    let component = either(event, "/source/component", "/deprecatedSource/component");
    let host = either(event, "/source/host", "/deprecatedSource/host");
    let component = match component.is_empty() {
        true => either(event, "/reportingComponent", "/reportingController"),
        false => component,
    };
    if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    }
}

fn certificate_condition(request: &Value) -> String {
    let is = |kind: &str| !condition(request, kind).is_empty();
    let mut words = Vec::new();
    words.push(match (is("Approved"), is("Denied")) {
        (_, true) => "Denied",
        (true, _) => "Approved",
        _ => "Pending",
    });
    words.extend(is("Failed").then_some("Failed"));
    words.extend((!text_at(request, "/status/certificate").is_empty()).then_some("Issued"));
    words.join(",")
}

fn crd_versions(definition: &Value) -> String {
    let versions = list_of(&definition["spec"]["versions"], |version| {
        let mut name = plain(&version["name"]);
        if version["storage"] == true {
            name += "(storage)";
        }
        name
    });
    versions.join(",")
}

fn controller(object: &Value) -> String {
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    let Some(owner) = owners.into_iter().find(|owner| owner["controller"] == true) else {
        return NONE.to_owned();
    };
    let group = text_at(owner, "/apiVersion");
    let group = group
        .split_once('/')
        .map(|(group, _)| format!(".{group}"))
        .unwrap_or_default();
    format!(
        "{}{group}/{}",
        text_at(owner, "/kind").to_lowercase(),
        text_at(owner, "/name")
    )
}

fn claim_state(claim: &Value) -> String {
    let mut words = Vec::new();
    words.extend((!claim["metadata"]["deletionTimestamp"].is_null()).then_some("deleted"));
    if claim["status"]["allocation"].is_null() {
        words.extend(
            claim["metadata"]["deletionTimestamp"]
                .is_null()
                .then_some("pending"),
        );
    } else {
        words.push("allocated");
        let reserved = claim["status"]["reservedFor"]
            .as_array()
            .is_some_and(|users| !users.is_empty());
        words.extend(reserved.then_some("reserved"));
    }
    words.join(",")
}
