//! Services, config maps, secrets, namespaces and claims of volumes.

use serde_json::Value;
use watchkeeper_meta::ListOptions;

use super::list;
use super::page::{Page, ago, fields, items, joined, pairs, text, text_or};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::json_path::plain;

fn head(metadata: &Value, page: &mut Page) {
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
}

/// A service, with its endpoints.
pub(super) async fn service(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    head(metadata, page);
    page.field(0, "Selector", joined(&pairs(&spec["selector"], "="), "<none>"));
    page.field(0, "Type", text(&spec["type"]));
    page.field_if(0, "IP Family Policy", &spec["ipFamilyPolicy"]);
    let texts = |field: &str, absent| {
        let texts: Vec<_> = items(&spec[field]).iter().map(plain).collect();
        joined(&texts, absent)
    };
    page.field(0, "IP Families", texts("ipFamilies", "<none>"));
    page.field(0, "IP", text(&spec["clusterIP"]));
    page.field(0, "IPs", texts("clusterIPs", "<none>"));
    if !items(&spec["externalIPs"]).is_empty() {
        page.field(0, "External IPs", texts("externalIPs", ""));
    }
    page.field_if(0, "Desired LoadBalancer IP", &spec["loadBalancerIP"]);
    page.field_if(0, "External Name", &spec["externalName"]);
    let ingress = items(&object["status"]["loadBalancer"]["ingress"]).iter();
    let ingress: Vec<_> = ingress
        .map(|point| format!("{}{}", text(&point["ip"]), text(&point["hostname"])))
        .collect();
    if !ingress.is_empty() {
        page.field(0, "LoadBalancer Ingress", ingress.join(", "));
    }
    let slices = endpoint_slices(metadata, cluster).await?;
    for port in items(&spec["ports"]) {
        let protocol = text_or(&port["protocol"], "TCP");
        let name = text_or(&port["name"], "<unset>");
        page.field(0, "Port", format!("{name}\t{}/{protocol}", text(&port["port"])));
        page.field(
            0,
            "TargetPort",
            format!("{}/{protocol}", text(&port["targetPort"])),
        );
        if !port["nodePort"].is_null() {
            page.field(
                0,
                "NodePort",
                format!("{name}\t{}/{protocol}", text(&port["nodePort"])),
            );
        }
        page.field(0, "Endpoints", endpoints(port, &slices));
    }
    page.field(0, "Session Affinity", text(&spec["sessionAffinity"]));
    page.field_if(0, "External Traffic Policy", &spec["externalTrafficPolicy"]);
    page.field_if(0, "Internal Traffic Policy", &spec["internalTrafficPolicy"]);
    Ok(())
}

async fn endpoint_slices(metadata: &Value, cluster: &Cluster) -> Result<Vec<Value>, Failure> {
    let options = ListOptions {
        label_selector: format!("kubernetes.io/service-name={}", text(&metadata["name"]))
            .parse()
            .map_err(Failure::text)?,
        ..Default::default()
    };
    let namespace = text(&metadata["namespace"]);
    list(
        cluster,
        "discovery.k8s.io",
        "endpointslices",
        &namespace,
        &options,
    )
    .await
}

/// At most three, as in kubectl.
fn endpoints(port: &Value, slices: &[Value]) -> String {
    let mut found = Vec::new();
    for slice in slices {
        let ports = items(&slice["ports"]).iter();
        let same = ports.filter(|own| text(&own["name"]) == text(&port["name"]));
        for own in same {
            let ready = items(&slice["endpoints"])
                .iter()
                .filter(|one| one["conditions"]["ready"] != false);
            let addresses = ready.flat_map(|one| items(&one["addresses"]));
            found.extend(addresses.map(|address| format!("{}:{}", plain(address), text(&own["port"]))));
        }
    }
    let more = match found.len() {
        count @ 4.. => format!(" + {} more...", count - 3),
        _ => String::new(),
    };
    found.truncate(3);
    format!("{}{more}", found.join(","))
}

/// A config map, with its texts.
pub(super) fn config_map(object: &Value, page: &mut Page) {
    head(&object["metadata"], page);
    page.line(0, "\nData\n====");
    for (key, value) in fields(&object["data"]) {
        // A tab of a user's text is no column.
        page.line(
            0,
            format!("{key}:\n----\n{}\n", plain(value).replace('\t', "        ")),
        );
    }
    page.line(0, "\nBinaryData\n====");
    for (key, value) in fields(&object["binaryData"]) {
        page.line(0, format!("{key}: {} bytes", decoded_length(value)));
    }
    page.line(0, "");
}

/// A secret, with the sizes of its values.
pub(super) fn secret(object: &Value, page: &mut Page) {
    head(&object["metadata"], page);
    page.line(0, "");
    page.field(0, "Type", text(&object["type"]));
    page.line(0, "\nData\n====");
    for (key, value) in fields(&object["data"]) {
        page.field(0, key, format!("{} bytes", decoded_length(value)));
    }
}

/// Four base64 characters are three bytes.
fn decoded_length(value: &Value) -> usize {
    plain(value).trim_end_matches('=').len() * 3 / 4
}

/// A namespace, with its quotas and limits.
pub(super) async fn namespace(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let metadata = &object["metadata"];
    let name = text(&metadata["name"]);
    page.field(0, "Name", &name);
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    page.field(0, "Status", text(&object["status"]["phase"]));
    let everything = ListOptions::default();
    let quotas = list(cluster, "", "resourcequotas", &name, &everything).await?;
    page.line(
        0,
        if quotas.is_empty() {
            "\nNo resource quota."
        } else {
            "\nResource Quotas"
        },
    );
    for quota in &quotas {
        let (hard, used) = (&quota["status"]["hard"], &quota["status"]["used"]);
        page.field(1, "Name", text(&quota["metadata"]["name"]));
        page.line(1, "Resource\tUsed\tHard");
        page.line(1, "--------\t---\t---");
        for (key, hard) in fields(hard) {
            page.line(1, format!("{key}\t{}\t{}", text(&used[key]), plain(hard)));
        }
    }
    let ranges = list(cluster, "", "limitranges", &name, &everything).await?;
    if ranges.is_empty() {
        page.line(0, "\nNo LimitRange resource.");
        return Ok(());
    }
    page.line(0, "\nResource Limits");
    let header = [
        " Type",
        "Resource",
        "Min",
        "Max",
        "Default Request",
        "Default Limit",
        "Max Limit/Request Ratio",
    ];
    let rule = header.map(|name| name.replace(|c: char| c != ' ' || !name.starts_with(' '), "-"));
    page.line(0, header.join("\t"));
    page.line(0, rule.join("\t"));
    for row in ranges
        .iter()
        .flat_map(|range| items(&range["spec"]["limits"]))
        .flat_map(limits)
    {
        page.line(0, format!(" {}", row.join("\t")));
    }
    Ok(())
}

/// A row per resource that a limit names.
fn limits(limit: &Value) -> Vec<Vec<String>> {
    let parts = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
    let mut names: Vec<_> = parts
        .iter()
        .flat_map(|part| fields(&limit[part]))
        .map(|(name, _)| name.clone())
        .collect();
    names.sort();
    names.dedup();
    let row = |name: String| {
        let mut row = vec![text(&limit["type"]), name.clone()];
        row.extend(parts.iter().map(|part| text_or(&limit[part][&name], "-")));
        row
    };
    names.into_iter().map(row).collect()
}

/// A claim of a volume, with the pods that use it.
pub(super) async fn claim(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.field(0, "StorageClass", text(&spec["storageClassName"]));
    match metadata["deletionTimestamp"].is_null() {
        true => page.field(0, "Status", text(&status["phase"])),
        false => page.field(
            0,
            "Status",
            format!("Terminating (lasts {})", ago(&metadata["deletionTimestamp"])),
        ),
    }
    page.field(0, "Volume", text(&spec["volumeName"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    let finalizers: Vec<_> = items(&metadata["finalizers"]).iter().map(plain).collect();
    page.field(0, "Finalizers", format!("[{}]", finalizers.join(" ")));
    let bound = !text(&spec["volumeName"]).is_empty();
    let modes: Vec<_> = items(&status["accessModes"])
        .iter()
        .map(|mode| short_mode(&plain(mode)))
        .collect();
    page.field(
        0,
        "Capacity",
        if bound {
            text(&status["capacity"]["storage"])
        } else {
            String::new()
        },
    );
    page.field(
        0,
        "Access Modes",
        if bound { modes.join(",") } else { String::new() },
    );
    page.field_if(0, "VolumeMode", &spec["volumeMode"]);
    let pods = list(
        cluster,
        "",
        "pods",
        &text(&metadata["namespace"]),
        &ListOptions::default(),
    )
    .await?;
    let uses = |pod: &&Value| {
        let volumes = items(&pod["spec"]["volumes"]).iter();
        volumes
            .into_iter()
            .any(|volume| volume["persistentVolumeClaim"]["claimName"] == metadata["name"])
    };
    let users: Vec<_> = pods
        .iter()
        .filter(uses)
        .map(|pod| text(&pod["metadata"]["name"]))
        .collect();
    page.lines(0, "Used By", &users);
    Ok(())
}

fn short_mode(mode: &str) -> String {
    match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        mode => mode,
    }
    .to_owned()
}
