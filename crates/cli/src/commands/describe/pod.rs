//! Pods and templates of pods.

use serde_json::Value;

use super::page::{Page, capital, fields, items, moment, text, text_or};
use crate::json_path::{Path, plain};

/// A pod.
pub(super) fn describe(pod: &Value, page: &mut Page) {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.field_if(0, "Priority", &spec["priority"]);
    page.field_if(0, "Priority Class Name", &spec["priorityClassName"]);
    page.field_if(0, "Runtime Class Name", &spec["runtimeClassName"]);
    page.field_if(0, "Service Account", &spec["serviceAccountName"]);
    match text(&spec["nodeName"]) {
        node if node.is_empty() => page.field(0, "Node", "<none>"),
        node => page.field(0, "Node", format!("{node}/{}", text(&status["hostIP"]))),
    }
    if !status["startTime"].is_null() {
        page.field(0, "Start Time", moment(&status["startTime"]));
    }
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    phase(pod, page);
    page.field(0, "IP", text(&status["podIP"]));
    match items(&status["podIPs"]) {
        [] => page.field(0, "IPs", "<none>"),
        addresses => {
            page.line(0, "IPs:");
            addresses
                .iter()
                .for_each(|address| page.field(1, "IP", text(&address["ip"])));
        }
    }
    super::controlled_by(metadata, page);
    page.field_if(0, "NominatedNodeName", &status["nominatedNodeName"]);
    if !items(&spec["initContainers"]).is_empty() {
        containers("Init Containers", &spec["initContainers"], pod, page);
    }
    containers("Containers", &spec["containers"], pod, page);
    if !items(&status["conditions"]).is_empty() {
        page.line(0, "Conditions:");
        page.line(1, "Type\tStatus");
        for condition in items(&status["conditions"]) {
            page.line(
                1,
                format!("{} \t{} ", text(&condition["type"]), text(&condition["status"])),
            );
        }
    }
    volumes(&spec["volumes"], "", page);
    page.field_if(0, "QoS Class", &status["qosClass"]);
    placement(spec, 0, page);
}

fn phase(pod: &Value, page: &mut Page) {
    let status = &pod["status"];
    let leaving = &pod["metadata"]["deletionTimestamp"];
    match leaving.is_null() {
        true => page.field(0, "Status", text(&status["phase"])),
        false => {
            page.field(
                0,
                "Status",
                format!("Terminating (lasts {})", super::page::ago(leaving)),
            );
            let grace = text(&pod["metadata"]["deletionGracePeriodSeconds"]);
            page.field(0, "Termination Grace Period", format!("{grace}s"));
        }
    }
    page.field_if(0, "Reason", &status["reason"]);
    page.field_if(0, "Message", &status["message"]);
}

/// The template of a workload's pods.
pub(super) fn template(template: &Value, page: &mut Page) {
    page.line(0, "Pod Template:");
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    page.labels(1, "Labels", &metadata["labels"]);
    if fields(&metadata["annotations"]).next().is_some() {
        page.annotations(1, &metadata["annotations"]);
    }
    page.field_if(1, "Service Account", &spec["serviceAccountName"]);
    if !items(&spec["initContainers"]).is_empty() {
        containers("Init Containers", &spec["initContainers"], &Value::Null, page);
    }
    containers("Containers", &spec["containers"], &Value::Null, page);
    volumes(&spec["volumes"], "  ", page);
    page.field_if(1, "Priority Class Name", &spec["priorityClassName"]);
    placement(spec, 1, page);
}

fn placement(spec: &Value, level: usize, page: &mut Page) {
    page.labels(level, "Node-Selectors", &spec["nodeSelector"]);
    let tolerations: Vec<_> = items(&spec["tolerations"]).iter().map(toleration).collect();
    page.lines(level, "Tolerations", &tolerations);
}

fn toleration(toleration: &Value) -> String {
    let mut line = text(&toleration["key"]);
    for (sign, field) in [("=", "value"), (":", "effect")] {
        if !toleration[field].is_null() {
            line.push_str(&format!("{sign}{}", text(&toleration[field])));
        }
    }
    if toleration["operator"] == "Exists" {
        line.push_str(if line.is_empty() {
            "op=Exists"
        } else {
            " op=Exists"
        });
    }
    if !toleration["tolerationSeconds"].is_null() {
        line.push_str(&format!(" for {}s", toleration["tolerationSeconds"]));
    }
    line
}

/// The containers of a pod, or of a template: then there is no pod.
fn containers(title: &str, containers: &Value, pod: &Value, page: &mut Page) {
    let (space, indent) = if pod.is_null() { ("  ", " ") } else { ("", "") };
    page.line(0, format!("{space}{title}:"));
    let statuses = ["containerStatuses", "initContainerStatuses"];
    let statuses: Vec<_> = statuses
        .iter()
        .flat_map(|field| items(&pod["status"][field]))
        .collect();
    for container in items(containers) {
        let status = statuses
            .iter()
            .find(|status| status["name"] == container["name"])
            .copied();
        page.line(1, format!("{indent}{}:", text(&container["name"])));
        image(container, status, page);
        for (title, field) in [("Command", "command"), ("Args", "args")] {
            if !items(&container[field]).is_empty() {
                page.line(2, format!("{title}:"));
                for word in items(&container[field]).iter().map(plain) {
                    word.lines().for_each(|line| page.line(3, line));
                }
            }
        }
        if let Some(status) = status {
            states(status, page);
        }
        for (title, field) in [("Limits", "limits"), ("Requests", "requests")] {
            let amounts = &container["resources"][field];
            if fields(amounts).next().is_some() {
                page.line(2, format!("{title}:"));
                fields(amounts).for_each(|(name, amount)| page.field(3, name, plain(amount)));
            }
        }
        for (title, field) in [
            ("Liveness", "livenessProbe"),
            ("Readiness", "readinessProbe"),
            ("Startup", "startupProbe"),
        ] {
            if !container[field].is_null() {
                page.field(2, title, probe(&container[field]));
            }
        }
        environment(container, pod, page);
        mounts(container, page);
    }
}

fn image(container: &Value, status: Option<&Value>, page: &mut Page) {
    if let Some(status) = status {
        page.field(2, "Container ID", text(&status["containerID"]));
    }
    page.field(2, "Image", text(&container["image"]));
    if let Some(status) = status {
        page.field(2, "Image ID", text(&status["imageID"]));
    }
    for (title, field) in [("Port", "containerPort"), ("Host Port", "hostPort")] {
        let ports = items(&container["ports"]).iter();
        let ports: Vec<_> = ports
            .map(|port| {
                format!(
                    "{}/{}",
                    text_or(&port[field], "0"),
                    text_or(&port["protocol"], "TCP")
                )
            })
            .collect();
        let plural = if ports.len() > 1 { "s" } else { "" };
        let ports = if ports.is_empty() {
            "<none>".to_owned()
        } else {
            ports.join(", ")
        };
        page.field(2, &format!("{title}{plural}"), ports);
    }
}

fn states(status: &Value, page: &mut Page) {
    state("State", &status["state"], page);
    if !status["lastState"]["terminated"].is_null() {
        state("Last State", &status["lastState"], page);
    }
    page.field(2, "Ready", capital(&status["ready"]));
    page.field(2, "Restart Count", text_or(&status["restartCount"], "0"));
}

fn state(title: &str, state: &Value, page: &mut Page) {
    let (running, ended) = (&state["running"], &state["terminated"]);
    if !running.is_null() {
        page.field(2, title, "Running");
        page.field(3, "Started", moment(&running["startedAt"]));
    } else if !ended.is_null() {
        page.field(2, title, "Terminated");
        page.field_if(3, "Reason", &ended["reason"]);
        page.field_if(3, "Message", &ended["message"]);
        page.field(3, "Exit Code", text_or(&ended["exitCode"], "0"));
        page.field_if(3, "Signal", &ended["signal"]);
        page.field(3, "Started", moment(&ended["startedAt"]));
        page.field(3, "Finished", moment(&ended["finishedAt"]));
    } else {
        page.field(2, title, "Waiting");
        page.field_if(3, "Reason", &state["waiting"]["reason"]);
    }
}

fn probe(probe: &Value) -> String {
    let number = |field: &str, absent| text_or(&probe[field], absent);
    let times = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number("initialDelaySeconds", "0"),
        number("timeoutSeconds", "1"),
        number("periodSeconds", "10"),
        number("successThreshold", "1"),
        number("failureThreshold", "3"),
    );
    let (http, tcp, grpc, exec) = (
        &probe["httpGet"],
        &probe["tcpSocket"],
        &probe["grpc"],
        &probe["exec"],
    );
    if !http.is_null() {
        let scheme = text_or(&http["scheme"], "HTTP").to_lowercase();
        let (host, port, path) = (text(&http["host"]), text(&http["port"]), text(&http["path"]));
        return format!("http-get {scheme}://{host}:{port}{path} {times}");
    }
    if !tcp.is_null() {
        return format!("tcp-socket {}:{} {times}", text(&tcp["host"]), text(&tcp["port"]));
    }
    if !grpc.is_null() {
        return format!(
            "grpc <pod>:{} {} {times}",
            text(&grpc["port"]),
            text(&grpc["service"])
        );
    }
    let words: Vec<_> = items(&exec["command"]).iter().map(plain).collect();
    format!("exec [{}] {times}", words.join(" "))
}

fn environment(container: &Value, pod: &Value, page: &mut Page) {
    if !items(&container["envFrom"]).is_empty() {
        page.line(2, "Environment Variables from:");
    }
    for source in items(&container["envFrom"]) {
        for (kind, field) in [("ConfigMap", "configMapRef"), ("Secret", "secretRef")] {
            let from = &source[field];
            if !from.is_null() {
                let optional = from["optional"].as_bool().unwrap_or_default();
                page.line(
                    3,
                    format!("{}\t{kind}\tOptional: {optional}", text(&from["name"])),
                );
            }
        }
    }
    match items(&container["env"]) {
        [] => page.field(2, "Environment", "<none>"),
        variables => {
            page.line(2, "Environment:");
            variables
                .iter()
                .for_each(|variable| page.line(3, self::variable(variable, pod)));
        }
    }
}

fn variable(variable: &Value, pod: &Value) -> String {
    let (name, from) = (text(&variable["name"]), &variable["valueFrom"]);
    let key = |from: &Value, what: &str| {
        let optional = from["optional"].as_bool().unwrap_or_default();
        let (key, owner) = (text(&from["key"]), text(&from["name"]));
        format!("{name}:\t<set to the key '{key}' {what} '{owner}'>\tOptional: {optional}")
    };
    let (field, resource) = (&from["fieldRef"], &from["resourceFieldRef"]);
    if !from["secretKeyRef"].is_null() {
        key(&from["secretKeyRef"], "in secret")
    } else if !from["configMapKeyRef"].is_null() {
        key(&from["configMapKeyRef"], "of config map")
    } else if !field.is_null() {
        let path = text(&field["fieldPath"]);
        let version = text_or(&field["apiVersion"], "v1");
        format!("{name}:\t{} ({version}:{path})", value_at(pod, &path))
    } else if !resource.is_null() {
        format!("{name}:\t ({})", text(&resource["resource"]))
    } else {
        format!("{name}:\t{}", text(&variable["value"]))
    }
}

/// The field of a pod that a variable names; nothing in a template.
fn value_at(pod: &Value, path: &str) -> String {
    let path = Path::parse(path).unwrap_or_default();
    let found = path.find(pod).first().map(|value| text(value));
    found.unwrap_or_default()
}

fn mounts(container: &Value, page: &mut Page) {
    let mut mounts: Vec<_> = items(&container["volumeMounts"]).iter().collect();
    if mounts.is_empty() {
        return page.field(2, "Mounts", "<none>");
    }
    mounts.sort_by_key(|mount| text(&mount["mountPath"]));
    page.line(2, "Mounts:");
    for mount in mounts {
        let access = if mount["readOnly"] == true { "ro" } else { "rw" };
        let path = match text(&mount["subPath"]) {
            path if path.is_empty() => path,
            path => format!(",path={path:?}"),
        };
        page.line(
            3,
            format!(
                "{} from {} ({access}{path})",
                text(&mount["mountPath"]),
                text(&mount["name"])
            ),
        );
    }
}

fn volumes(volumes: &Value, space: &str, page: &mut Page) {
    if items(volumes).is_empty() {
        return page.line(0, format!("{space}Volumes:\t<none>"));
    }
    page.line(0, format!("{space}Volumes:"));
    let indent = if space.is_empty() { "" } else { " " };
    for volume in items(volumes) {
        page.line(1, format!("{indent}{}:", text(&volume["name"])));
        let source = fields(volume).find(|(key, _)| *key != "name");
        if let Some((kind, source)) = source {
            self::volume(kind, source, page);
        }
    }
}

fn volume(kind: &str, source: &Value, page: &mut Page) {
    let optional = || text_or(&source["optional"], "false");
    match kind {
        "emptyDir" => {
            page.field(
                2,
                "Type",
                "EmptyDir (a temporary directory that shares a pod's lifetime)",
            );
            page.field(2, "Medium", text(&source["medium"]));
            page.field(2, "SizeLimit", text_or(&source["sizeLimit"], "<unset>"));
        }
        "hostPath" => {
            page.field(2, "Type", "HostPath (bare host directory volume)");
            page.field(2, "Path", text(&source["path"]));
            page.field(2, "HostPathType", text(&source["type"]));
        }
        "secret" => {
            page.field(2, "Type", "Secret (a volume populated by a Secret)");
            page.field(2, "SecretName", text(&source["secretName"]));
            page.field(2, "Optional", optional());
        }
        "configMap" => {
            page.field(2, "Type", "ConfigMap (a volume populated by a ConfigMap)");
            page.field(2, "Name", text(&source["name"]));
            page.field(2, "Optional", optional());
        }
        "persistentVolumeClaim" => {
            let what = "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)";
            page.field(2, "Type", what);
            page.field(2, "ClaimName", text(&source["claimName"]));
            page.field(2, "ReadOnly", text_or(&source["readOnly"], "false"));
        }
        "projected" => projected(source, page),
        "downwardAPI" => page.field(
            2,
            "Type",
            "DownwardAPI (a volume populated by information about the pod)",
        ),
        kind => page.field(2, "Type", kind),
    }
}

fn projected(source: &Value, page: &mut Page) {
    page.field(
        2,
        "Type",
        "Projected (a volume that contains injected data from multiple sources)",
    );
    for source in items(&source["sources"]) {
        let (token, map, secret) = (
            &source["serviceAccountToken"],
            &source["configMap"],
            &source["secret"],
        );
        if !secret.is_null() {
            page.field(2, "SecretName", text(&secret["name"]));
            page.field(2, "SecretOptionalName", text_or(&secret["optional"], "<nil>"));
        } else if !map.is_null() {
            page.field(2, "ConfigMapName", text(&map["name"]));
            page.field(2, "ConfigMapOptional", text_or(&map["optional"], "<nil>"));
        } else if !token.is_null() {
            page.field(2, "TokenExpirationSeconds", text(&token["expirationSeconds"]));
        } else if !source["downwardAPI"].is_null() {
            page.field(2, "DownwardAPI", "true");
        }
    }
}
