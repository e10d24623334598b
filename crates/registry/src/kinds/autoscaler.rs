//! Horizontal pod autoscalers, in both versions.

use serde_json::{Value, json};
use watchkeeper_meta::validation::path_segment_name;
use watchkeeper_meta::{FieldError, FieldPath, GroupVersion};

use super::check::{items, one_of, required, set_default, text};
use super::formats::{each, not_negative};
use super::{Hooks, PLAIN};

/// What a pod may use of its CPU request before more pods are made, in percent.
const CPU_UTILIZATION: i64 = 80;

pub(super) const HOOKS: Hooks = Hooks {
    default,
    faults,
    ..PLAIN
};

fn default(scaler: &mut Value) {
    let knows_metrics = text(scaler, "/apiVersion") == "autoscaling/v2";
    let spec = &mut scaler["spec"];
    if !spec.is_object() {
        return;
    }
    set_default(spec, "minReplicas", 1);
    if !knows_metrics {
        return;
    }
    if spec
        .get("metrics")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        let target = json!({"type": "Utilization", "averageUtilization": CPU_UTILIZATION});
        spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    }
    if spec.get("behavior").is_some_and(Value::is_object) {
        default_behavior(&mut spec["behavior"]);
    }
}

fn default_behavior(behavior: &mut Value) {
    let everything = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let four_pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in [
        ("scaleUp", json!([four_pods, everything])),
        ("scaleDown", json!([everything])),
    ] {
        if !behavior[direction].is_object() {
            behavior[direction] = json!({});
        }
        let rules = &mut behavior[direction];
        set_default(rules, "selectPolicy", "Max");
        set_default(rules, "policies", policies);
    }
    set_default(&mut behavior["scaleUp"], "stabilizationWindowSeconds", 0);
}

fn faults(scaler: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    let count = |name: &str| scaler["spec"][name].as_i64();
    let (min, max) = (count("minReplicas"), count("maxReplicas").unwrap_or_default());
    if let Some(min) = min
        && min < 1
    {
        let why = "must be greater than or equal to 1";
        faults.push(FieldError::invalid(&spec.child("minReplicas"), min, why));
    }
    let path = spec.child("maxReplicas");
    if max < 1 {
        faults.push(FieldError::invalid(&path, max, "must be greater than 0"));
    }
    if min.is_some_and(|min| max < min) {
        let why = "must be greater than or equal to `minReplicas`";
        faults.push(FieldError::invalid(&path, max, why));
    }
    target_faults(
        &scaler["spec"]["scaleTargetRef"],
        &spec.child("scaleTargetRef"),
        &mut faults,
    );
    not_negative(
        &mut faults,
        &spec.child("targetCPUUtilizationPercentage"),
        &scaler["spec"]["targetCPUUtilizationPercentage"],
    );
    for (index, metric) in items(scaler, "/spec/metrics").enumerate() {
        metric_faults(metric, &spec.child("metrics").index(index), &mut faults);
    }
    faults
}

fn target_faults(target: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    for name in ["kind", "name"] {
        let value = text(target, &format!("/{name}"));
        required(faults, &path.child(name), value);
        each(faults, &path.child(name), value, path_segment_name(value));
    }
    let version = text(target, "/apiVersion");
    let path = path.child("apiVersion");
    match version.parse::<GroupVersion>() {
        _ if version.matches('/').count() > 1 => {
            each(
                faults,
                &path,
                version,
                [format!("unexpected GroupVersion string: {version}")],
            );
        }
        Ok(parsed) if !parsed.group.is_empty() => {}
        // The one core kind that scales.
        _ if version == "v1" && text(target, "/kind") == "ReplicationController" => {}
        _ => each(faults, &path, version, ["apiVersion must specify API group"]),
    }
}

/// Each type of metric has a field of its own, which must be there.
fn metric_faults(metric: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let kinds = [
        ("ContainerResource", "containerResource"),
        ("External", "external"),
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
    ];
    let kind = text(metric, "/type");
    if kind.is_empty() {
        faults.push(FieldError::required(
            &path.child("type"),
            "must specify a metric source type",
        ));
        return;
    }
    let Some((_, field)) = kinds.iter().find(|(name, _)| *name == kind) else {
        one_of(faults, &path.child("type"), kind, &kinds.map(|(name, _)| name));
        return;
    };
    let Some(source) = metric.get(field).filter(|source| source.is_object()) else {
        let why = "must populate information for the given metric source";
        faults.push(FieldError::required(&path.child(field), why));
        return;
    };
    if *field == "resource" {
        let path = path.child(field);
        if text(source, "/name").is_empty() {
            faults.push(FieldError::required(
                &path.child("name"),
                "must specify a resource name",
            ));
        }
        let target = &source["target"];
        if target.get("averageUtilization").is_none() && target.get("averageValue").is_none() {
            let why = "must set either a target raw value or a target utilization";
            faults.push(FieldError::required(
                &path.child("target").child("averageUtilization"),
                why,
            ));
        }
    }
}
