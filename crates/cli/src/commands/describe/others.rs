//! Services, ingresses, config maps, secrets, service accounts, namespaces and claims of volumes.

use serde_json::Value;
use watchkeeper_meta::ListOptions;

use super::list;
use super::page::{Page, ago, fields, items, joined, pairs, text, text_or};
use crate::cluster::Cluster;
use crate::documents::{self, Form};
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
    let slices = endpoint_slices(&text(&metadata["name"]), metadata, cluster).await?;
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
    page.field_if(0, "HealthCheck NodePort", &spec["healthCheckNodePort"]);
    if !items(&spec["loadBalancerSourceRanges"]).is_empty() {
        page.field(
            0,
            "LoadBalancer Source Ranges",
            texts("loadBalancerSourceRanges", ""),
        );
    }
    Ok(())
}

/// The slices of a service in the namespace of an object.
async fn endpoint_slices(service: &str, metadata: &Value, cluster: &Cluster) -> Result<Vec<Value>, Failure> {
    let options = ListOptions {
        label_selector: format!("kubernetes.io/service-name={service}")
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
    if slices.is_empty() {
        return "<none>".to_owned();
    }
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

/// An ingress, with the endpoints of its backends.
pub(super) async fn ingress(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.field(0, "Namespace", text(&metadata["namespace"]));
    let points = items(&object["status"]["loadBalancer"]["ingress"]).iter();
    let addresses: Vec<_> = points
        .map(|point| text_or(&point["ip"], &text(&point["hostname"])))
        .collect();
    page.field(0, "Address", addresses.join(","));
    page.field(0, "Ingress Class", text_or(&spec["ingressClassName"], "<none>"));
    let default = match &spec["defaultBackend"] {
        Value::Null => "<default>".to_owned(),
        default => backend(default, metadata, cluster).await?,
    };
    page.field(0, "Default backend", &default);
    if !items(&spec["tls"]).is_empty() {
        page.line(0, "TLS:");
    }
    for tls in items(&spec["tls"]) {
        let hosts: Vec<_> = items(&tls["hosts"]).iter().map(plain).collect();
        let hosts = hosts.join(",");
        match text(&tls["secretName"]) {
            secret if secret.is_empty() => page.line(1, format!("SNI routes {hosts}")),
            secret => page.line(1, format!("{secret} terminates {hosts}")),
        }
    }
    page.line(0, "Rules:");
    // kubectl leaves room for a short name of a host.
    page.line(1, "Host      \tPath\tBackends");
    page.line(1, "----\t----\t--------");
    let rules = items(&spec["rules"]).iter();
    let rules: Vec<_> = rules.filter(|rule| !rule["http"].is_null()).collect();
    if rules.is_empty() {
        page.line(1, format!("*\t*\t{default}"));
    }
    for rule in rules {
        page.line(1, format!("{}\t", text_or(&rule["host"], "*")));
        for path in items(&rule["http"]["paths"]) {
            let backend = backend(&path["backend"], metadata, cluster).await?;
            page.line(2, format!("\t{} \t{backend}", text(&path["path"])));
        }
    }
    page.annotations(0, &metadata["annotations"]);
    Ok(())
}

/// `web:80` and the endpoints of that port, or the resource.
async fn backend(backend: &Value, metadata: &Value, cluster: &Cluster) -> Result<String, Failure> {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    if service.is_null() {
        let part = |field: &str| text(&resource[field]);
        let (group, kind, name) = (part("apiGroup"), part("kind"), part("name"));
        return Ok(format!("APIGroup: {group}, Kind: {kind}, Name: {name}"));
    }
    let name = text(&service["name"]);
    let port = text_or(&service["port"]["name"], &text(&service["port"]["number"]));
    let api = cluster.objects(&cluster.resource("services").await?.resource, false);
    let api = api.namespace(text(&metadata["namespace"]));
    let found = match documents::object(&api, Form::JSON, &name).await {
        Ok(found) => found,
        Err(failure) if failure.is_not_found() => {
            return Ok(format!("{name}:{port} (<error: services {name:?} not found>)"));
        }
        Err(failure) => return Err(failure),
    };
    let mut ports = items(&found["spec"]["ports"]).iter();
    let wanted = ports.find(|one| text(&one["name"]) == port || text(&one["port"]) == port);
    let slices = endpoint_slices(&name, metadata, cluster).await?;
    let endpoints = wanted.map(|port| endpoints(port, &slices)).unwrap_or_default();
    Ok(format!("{name}:{port} ({endpoints})"))
}

/// A service account, with the secrets it names and its tokens.
pub(super) async fn service_account(object: &Value, cluster: &Cluster, page: &mut Page) {
    let metadata = &object["metadata"];
    head(metadata, page);
    let namespace = text(&metadata["namespace"]);
    // Who may not read secrets sees their names.
    let secrets = list(cluster, "", "secrets", &namespace, &ListOptions::default())
        .await
        .ok();
    let is_there = |name: &str| {
        secrets
            .as_ref()
            .is_none_or(|secrets| secrets.iter().any(|secret| secret["metadata"]["name"] == name))
    };
    let names = |list: &Value| -> Vec<String> {
        let names = items(list).iter().map(|one| text(&one["name"]));
        names
            .map(|name| match is_there(&name) {
                true => name,
                false => format!("{name} (not found)"),
            })
            .collect()
    };
    page.lines(0, "Image pull secrets", &names(&object["imagePullSecrets"]));
    page.lines(0, "Mountable secrets", &names(&object["secrets"]));
    let is_token = |secret: &&Value| {
        let marks = &secret["metadata"]["annotations"];
        secret["type"] == "kubernetes.io/service-account-token"
            && marks["kubernetes.io/service-account.name"] == metadata["name"]
            && marks["kubernetes.io/service-account.uid"] == metadata["uid"]
    };
    let tokens = secrets.iter().flatten().filter(is_token);
    let tokens: Vec<_> = tokens.map(|secret| text(&secret["metadata"]["name"])).collect();
    page.lines(0, "Tokens", &tokens);
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
