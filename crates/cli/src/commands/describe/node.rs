//! Nodes, with the pods on them.

use serde_json::Value;
use watchkeeper_meta::{FieldSelector, ListOptions};
use watchkeeper_wire::schema::resources;
use watchkeeper_wire::values::{Quantity, QuantityFormat};

use super::list;
use super::page::{Page, ago, fields, items, joined, moment, text, text_or};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::json_path::plain;

/// The prefix of labels that name a role.
const ROLE: &str = "node-role.kubernetes.io/";

/// A node.
pub(super) async fn describe(node: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let (metadata, spec, status) = (&node["metadata"], &node["spec"], &node["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    let roles: Vec<_> = fields(&metadata["labels"])
        .filter_map(|(key, _)| Some(key.strip_prefix(ROLE)?.to_owned()))
        .collect();
    page.field(0, "Roles", joined(&roles, "<none>"));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    page.field(0, "CreationTimestamp", moment(&metadata["creationTimestamp"]));
    let taint = |taint: &Value| match text(&taint["value"]) {
        value if value.is_empty() => format!("{}:{}", text(&taint["key"]), text(&taint["effect"])),
        value => format!("{}={value}:{}", text(&taint["key"]), text(&taint["effect"])),
    };
    let taints: Vec<_> = items(&spec["taints"]).iter().map(taint).collect();
    page.lines(0, "Taints", &taints);
    page.field(0, "Unschedulable", text_or(&spec["unschedulable"], "false"));
    lease(metadata, cluster, page).await?;
    conditions(status, page);
    page.line(0, "Addresses:");
    for address in items(&status["addresses"]) {
        page.field(1, &text(&address["type"]), text(&address["address"]));
    }
    for (title, field) in [("Capacity", "capacity"), ("Allocatable", "allocatable")] {
        if fields(&status[field]).next().is_some() {
            page.line(0, format!("{title}:"));
            fields(&status[field]).for_each(|(name, amount)| page.field(1, name, plain(amount)));
        }
    }
    system(&status["nodeInfo"], page);
    page.field_if(0, "PodCIDR", &spec["podCIDR"]);
    let ranges: Vec<_> = items(&spec["podCIDRs"]).iter().map(plain).collect();
    if !ranges.is_empty() {
        page.field(0, "PodCIDRs", ranges.join(","));
    }
    page.field_if(0, "ProviderID", &spec["providerID"]);
    pods(node, cluster, page).await
}

async fn lease(metadata: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let Some(found) = resources::by_plural("coordination.k8s.io", "v1", "leases") else {
        return Ok(());
    };
    let leases = cluster
        .client
        .dynamic(found.resource.clone())
        .namespace("kube-node-lease");
    let lease = match leases.find(&text(&metadata["name"])).await {
        Ok(Some(lease)) => lease.to_value().map_err(Failure::other)?,
        Ok(None) => Value::Null,
        // A description without it is better than none.
        Err(error) if error.is_forbidden() => Value::Null,
        Err(error) => return Err(error.into()),
    };
    page.line(0, "Lease:");
    page.field(
        1,
        "HolderIdentity",
        text_or(&lease["spec"]["holderIdentity"], "<unset>"),
    );
    page.field(1, "AcquireTime", moment(&lease["spec"]["acquireTime"]));
    page.field(1, "RenewTime", moment(&lease["spec"]["renewTime"]));
    Ok(())
}

fn conditions(status: &Value, page: &mut Page) {
    let header = [
        "Type",
        "Status",
        "LastHeartbeatTime",
        "LastTransitionTime",
        "Reason",
        "Message",
    ];
    let row = |condition: &Value| {
        vec![
            format!("{} ", text(&condition["type"])),
            format!("{} ", text(&condition["status"])),
            format!("{} ", moment(&condition["lastHeartbeatTime"])),
            format!("{} ", moment(&condition["lastTransitionTime"])),
            format!("{} ", text(&condition["reason"])),
            text(&condition["message"]),
        ]
    };
    if !items(&status["conditions"]).is_empty() {
        page.line(0, "Conditions:");
        page.table(1, &header, items(&status["conditions"]).iter().map(row));
    }
}

fn system(info: &Value, page: &mut Page) {
    page.line(0, "System Info:");
    for (title, field) in [
        ("Machine ID", "machineID"),
        ("System UUID", "systemUUID"),
        ("Boot ID", "bootID"),
        ("Kernel Version", "kernelVersion"),
        ("OS Image", "osImage"),
        ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"),
        ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
        ("Kube-Proxy Version", "kubeProxyVersion"),
    ] {
        page.field(1, title, text(&info[field]));
    }
}

async fn pods(node: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let options = ListOptions {
        field_selector: FieldSelector::equals("spec.nodeName", text(&node["metadata"]["name"])),
        ..Default::default()
    };
    let mut pods = list(cluster, "", "pods", "", &options).await?;
    pods.retain(|pod| pod["status"]["phase"] != "Succeeded" && pod["status"]["phase"] != "Failed");
    let allocatable = &node["status"]["allocatable"];
    let share = |of: &[&Value], list: &str, name: &str| {
        let sum = total(of, list, name);
        format!("{sum} ({}%)", percent(&sum, &allocatable[name]))
    };
    page.line(0, format!("Non-terminated Pods:\t({} in total)", pods.len()));
    let header = [
        "Namespace",
        "Name",
        "\tCPU Requests",
        "CPU Limits",
        "Memory Requests",
        "Memory Limits",
        "Age",
    ];
    page.line(1, header.join("\t"));
    page.line(
        1,
        header
            .map(|name| name.replace(|c: char| c != '\t', "-"))
            .join("\t"),
    );
    for pod in &pods {
        let of = [pod];
        let row = [
            text(&pod["metadata"]["namespace"]),
            text(&pod["metadata"]["name"]),
            format!("\t{}", share(&of, "requests", "cpu")),
            share(&of, "limits", "cpu"),
            share(&of, "requests", "memory"),
            share(&of, "limits", "memory"),
            ago(&pod["metadata"]["creationTimestamp"]),
        ];
        page.line(1, row.join("\t"));
    }
    let all: Vec<_> = pods.iter().collect();
    page.line(0, "Allocated resources:");
    page.line(1, "(Total limits may be over 100 percent, i.e., overcommitted.)");
    let rows = ["cpu", "memory", "ephemeral-storage"];
    let rows = rows.map(|name| {
        vec![
            name.to_owned(),
            share(&all, "requests", name),
            share(&all, "limits", name),
        ]
    });
    page.table(1, &["Resource", "Requests", "Limits"], rows);
    Ok(())
}

/// The sum over pods.
fn total(pods: &[&Value], list: &str, name: &str) -> Quantity {
    sum(pods.iter().map(|pod| of_pod(pod, list, name)))
}

/// The containers of a pod run together, its init containers before them, one by one: the larger amount counts.
fn of_pod(pod: &Value, list: &str, name: &str) -> Quantity {
    let amounts = |field: &str| {
        let containers = items(&pod["spec"][field]).iter();
        containers.filter_map(|container| {
            container["resources"][list][name]
                .as_str()?
                .parse::<Quantity>()
                .ok()
        })
    };
    amounts("initContainers").fold(sum(amounts("containers")), Ord::max)
}

fn sum(amounts: impl Iterator<Item = Quantity>) -> Quantity {
    let zero = Quantity::new(0, QuantityFormat::DecimalSi);
    amounts.fold(zero, |sum, amount| match sum.is_zero() {
        true => amount,
        false => sum.checked_add(&amount).unwrap_or(sum),
    })
}

fn percent(part: &Quantity, whole: &Value) -> i64 {
    let whole = whole.as_str().and_then(|whole| whole.parse::<Quantity>().ok());
    match whole.map(|whole| whole.to_f64()) {
        #[allow(clippy::cast_possible_truncation, reason = "a percentage is small")]
        Some(whole) if whole > 0.0 => (part.to_f64() / whole * 100.0) as i64,
        _ => 0,
    }
}
