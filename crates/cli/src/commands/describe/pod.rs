//! Pods and templates of pods.

mod variables;
mod volumes;

use serde_json::Value;

use super::page::{Page, capital, fields, items, moment, selector, text, text_or};
use crate::json_path::plain;
use variables::environment;
use volumes::volumes;

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
    seccomp(&spec["securityContext"], 0, page);
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
    readiness_gates(pod, page);
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
    spread(spec, 0, page);
}

fn readiness_gates(pod: &Value, page: &mut Page) {
    let gates = items(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return;
    }
    page.line(0, "Readiness Gates:");
    page.line(1, "Type\tStatus");
    for gate in gates {
        let mut conditions = items(&pod["status"]["conditions"]).iter();
        let reported = conditions.find(|condition| condition["type"] == gate["conditionType"]);
        let status = reported.map_or("<none>".to_owned(), |condition| text(&condition["status"]));
        page.line(1, format!("{} \t{status} ", text(&gate["conditionType"])));
    }
}

/// The seccomp profile of a security context, if it names one.
fn seccomp(context: &Value, level: usize, page: &mut Page) {
    let profile = &context["seccompProfile"];
    page.field_if(level, "SeccompProfile", &profile["type"]);
    page.field_if(level, "LocalhostProfile", &profile["localhostProfile"]);
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
    spread(spec, 1, page);
    page.field_if(1, "Priority Class Name", &spec["priorityClassName"]);
    placement(spec, 1, page);
}

fn placement(spec: &Value, level: usize, page: &mut Page) {
    page.labels(level, "Node-Selectors", &spec["nodeSelector"]);
    let mut tolerations: Vec<_> = items(&spec["tolerations"]).iter().collect();
    tolerations.sort_by_key(|toleration| text(&toleration["key"]));
    let tolerations: Vec<_> = tolerations.into_iter().map(toleration).collect();
    page.lines(level, "Tolerations", &tolerations);
}

fn spread(spec: &Value, level: usize, page: &mut Page) {
    let mut constraints: Vec<_> = items(&spec["topologySpreadConstraints"]).iter().collect();
    if constraints.is_empty() {
        return;
    }
    constraints.sort_by_key(|constraint| text(&constraint["topologyKey"]));
    let line = |constraint: &&Value| {
        let of = match &constraint["labelSelector"] {
            Value::Null => String::new(),
            labels => format!(" for selector {}", selector(labels)),
        };
        format!(
            "{}:{} when max skew {} is exceeded{of}",
            text(&constraint["topologyKey"]),
            text(&constraint["whenUnsatisfiable"]),
            text(&constraint["maxSkew"])
        )
    };
    let constraints: Vec<_> = constraints.iter().map(line).collect();
    page.lines(level, "Topology Spread Constraints", &constraints);
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
        seccomp(&container["securityContext"], 2, page);
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
        let device =
            |device: &Value| format!("{} from {}", text(&device["devicePath"]), text(&device["name"]));
        let devices = items(&container["volumeDevices"]);
        if !devices.is_empty() {
            page.line(2, "Devices:");
            devices.iter().for_each(|one| page.line(3, device(one)));
        }
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
        let slash = if path.starts_with('/') { "" } else { "/" };
        return format!("http-get {scheme}://{host}:{port}{slash}{path} {times}");
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
