//! Computes the number of replicas for one metric.

use serde_json::{Value, json};
use watchkeeper_wire::values::{Quantity, QuantityFormat};

use crate::item::Item;
use crate::pods::{is_active, is_ready};
use crate::usage;

/// A smaller difference causes no scaling, as in Kubernetes.
const TOLERANCE: f64 = 0.1;

/// The proposal of a metric.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) replicas: i64,
    /// The metric, in words.
    pub(super) metric: String,
    /// The current metric, as in the status.
    pub(super) current: Value,
}

/// The reason a metric has no proposal.
#[derive(Clone, Debug)]
pub(super) struct NoMetric {
    pub(super) reason: &'static str,
    pub(super) words: String,
}

impl Proposal {
    /// The number of replicas for a metric, given the pods.
    pub(super) fn of(metric: &Value, pods: &[Item], replicas: i64) -> Result<Self, NoMetric> {
        let no_metric = |reason, words| NoMetric { reason, words };
        match metric["type"].as_str().unwrap_or_default() {
            "Resource" => of_resource(&metric["resource"], None, pods, replicas)
                .map_err(|words| no_metric("FailedGetResourceMetric", words)),
            "ContainerResource" => {
                let source = &metric["containerResource"];
                of_resource(source, source["container"].as_str(), pods, replicas)
                    .map_err(|words| no_metric("FailedGetContainerResourceMetric", words))
            }
            "Object" => Err(no_metric(
                "FailedGetObjectMetric",
                not_simulated(&metric["object"]),
            )),
            "Pods" => Err(no_metric("FailedGetPodsMetric", not_simulated(&metric["pods"]))),
            _ => Err(no_metric(
                "FailedGetExternalMetric",
                not_simulated(&metric["external"]),
            )),
        }
    }

    /// The reason for the change.
    pub(super) fn why(&self, desired: i64, before: i64) -> String {
        match desired < before {
            true => "All metrics below target".to_owned(),
            false => format!("{} above target", self.metric),
        }
    }
}

/// A metric in the texts of errors: `cpu resource metric`.
pub(super) fn name_of(metric: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match metric["type"].as_str().unwrap_or_default() {
        "Resource" => text(&metric["resource"]["name"]) + " resource metric",
        "ContainerResource" => text(&metric["containerResource"]["name"]) + " container metric",
        "Object" => "object metric".to_owned(),
        "Pods" => "pods metric".to_owned(),
        _ => text(&metric["external"]["metric"]["name"]) + " external metric",
    }
}

fn not_simulated(source: &Value) -> String {
    let name = source["metric"]["name"].as_str().unwrap_or_default();
    format!("unable to get metric {name}: only the metrics of resources are simulated")
}

fn of_resource(
    source: &Value,
    container: Option<&str>,
    pods: &[Item],
    replicas: i64,
) -> Result<Proposal, String> {
    let name = source["name"].as_str().unwrap_or_default();
    let ready: Vec<&Item> = pods
        .iter()
        .filter(|pod| is_active(pod) && is_ready(pod))
        .collect();
    if ready.is_empty() {
        return Err(format!(
            "failed to get {name} utilization: did not receive metrics for any ready pods"
        ));
    }
    let counts = |one: &&Value| container.is_none_or(|name| one["name"] == name);
    let (mut used, mut requested) = (0, 0);
    for pod in &ready {
        for one in pod.list("/spec/containers").iter().filter(counts) {
            used += usage::of_container(pod, one, name).ok_or_else(|| {
                format!("failed to get {name} utilization: only cpu and memory are simulated")
            })?;
            requested += match (usage::request(one, name), &source["target"]["type"]) {
                (Some(request), _) => request,
                (None, kind) if kind != "Utilization" => 0,
                (None, _) => {
                    let container = one["name"].as_str().unwrap_or_default();
                    return Err(format!(
                        "failed to get {name} utilization: missing request for {name} in container {container} of Pod {}",
                        pod.name()
                    ));
                }
            };
        }
    }
    let count = ready.len() as i64;
    let average = used / count;
    let mut current = json!({"averageValue": amount(name, average)});
    let (ratio, metric) = match source["target"]["averageUtilization"].as_i64() {
        Some(target) => {
            let utilization = used * 100 / requested.max(1);
            current["averageUtilization"] = json!(utilization);
            let words = format!("{name} resource utilization (percentage of request)");
            (utilization as f64 / target as f64, words)
        }
        None => {
            let target = source["target"]["averageValue"].as_str().and_then(usage::milli);
            let target = target.filter(|target| *target > 0).ok_or("invalid target")?;
            (average as f64 / target as f64, format!("{name} resource"))
        }
    };
    let metric = match container {
        Some(_) => metric.replace("resource", "container resource"),
        None => metric,
    };
    let field = if container.is_some() {
        "containerResource"
    } else {
        "resource"
    };
    let kind = if container.is_some() {
        "ContainerResource"
    } else {
        "Resource"
    };
    let mut shown = json!({"name": name, "current": current});
    if let Some(container) = container {
        shown["container"] = json!(container);
    }
    Ok(Proposal {
        replicas: by_ratio(ratio, count, replicas),
        metric,
        current: json!({"type": kind, field: shown}),
    })
}

/// The number of replicas that brings the usage of ready pods to the target. Pods that are not ready yet count with
/// no usage.
fn by_ratio(ratio: f64, ready: i64, replicas: i64) -> i64 {
    if (1.0 - ratio).abs() <= TOLERANCE {
        return replicas;
    }
    let unready = (replicas - ready).max(0);
    if ratio > 1.0 && unready > 0 {
        let spread = ratio * ready as f64 / (ready + unready) as f64;
        return match spread - 1.0 <= TOLERANCE {
            true => replicas,
            false => ((spread * (ready + unready) as f64).ceil() as i64).max(replicas),
        };
    }
    (ratio * ready as f64).ceil() as i64
}

/// A number of thousandths as a quantity.
fn amount(name: &str, milli: i64) -> String {
    match name {
        "memory" => Quantity::new(milli / 1000, QuantityFormat::BinarySi).to_string(),
        _ => Quantity::from_milli(milli, QuantityFormat::DecimalSi).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;

    fn pods(count: usize, cpu: &str) -> Vec<Item> {
        let pod = |number: usize| {
            item(&json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": format!("web-{number}"), "annotations": {"simulator.watchkeeper/cpu-usage": cpu},
                },
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }))
        };
        (0..count).map(pod).collect()
    }

    #[track_caller]
    fn check(cpu: &str, ready: usize, replicas: i64, wanted: i64) {
        let target = json!({"type": "Utilization", "averageUtilization": 50});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        let proposal = Proposal::of(&metric, &pods(ready, cpu), replicas).unwrap();
        assert_eq!(proposal.replicas, wanted);
    }

    #[test]
    fn replicas_follow_what_pods_use() {
        check("50m", 2, 2, 2);
        check("54m", 2, 2, 2);
        check("100m", 2, 2, 4);
        check("25m", 4, 4, 2);
        check("10m", 4, 4, 1);
        // Two more pods are starting.
        check("100m", 2, 4, 4);
    }

    #[test]
    fn a_container_that_requests_nothing_has_no_utilization() {
        let target = json!({"type": "Utilization", "averageUtilization": 50});
        let metric = json!({"type": "Resource", "resource": {"name": "memory", "target": target}});
        let failure = Proposal::of(&metric, &pods(1, "1m"), 1).unwrap_err();
        assert_eq!(failure.reason, "FailedGetResourceMetric");
        assert_eq!(
            failure.words,
            "failed to get memory utilization: missing request for memory in container c of Pod web-0"
        );
    }
}
