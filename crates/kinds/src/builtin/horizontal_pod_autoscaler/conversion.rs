//! Conversion between `autoscaling/v1` and the stored version. `v1` has a field for one metric, CPU utilization. It
//! shows everything else in annotations: other metrics and the behavior (converted with the spec), and current metrics
//! and conditions (converted with the status).
//!
//! The annotations have forms of their own. Metrics are flat, as they were before `autoscaling/v2`:
//!
//! ```text
//! v2            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}}
//! annotation    {"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 60}}
//! ```
//!
//! Behavior is encoded as Go encodes a struct without JSON tags: `ScaleUp` instead of `scaleUp`, and null for unset
//! fields.

use serde_json::{Map, Value, json};

use crate::conversion::Conversion;
use crate::metadata;
use crate::rules::go_structs;

/// The metrics other than CPU utilization.
pub(crate) const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// The current values of all metrics.
const CURRENT_METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The scaling behavior.
const BEHAVIOR_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// The conditions.
const CONDITIONS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/conditions";

pub(crate) static CONVERSION: Conversion = Conversion {
    kind: "HorizontalPodAutoscaler",
    served_api_version: "autoscaling/v1",
    stored_api_version: "autoscaling/v2",
    to_stored: |scaler| converted(scaler, spec_to_stored, status_to_stored),
    to_served: |scaler| converted(scaler, spec_to_served, status_to_served),
    spec_annotations: &[METRICS_ANNOTATION, BEHAVIOR_ANNOTATION],
    status_annotations: &[CURRENT_METRICS_ANNOTATION, CONDITIONS_ANNOTATION],
};

type Fields = Map<String, Value>;
/// Converts the spec or status; the second argument is the object's annotations.
type Convert = fn(&mut Fields, &mut Fields);

fn converted(mut scaler: Value, spec: Convert, status: Convert) -> Value {
    let mut annotations = match metadata::of(&mut scaler).remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    };
    for (name, convert) in [("spec", spec), ("status", status)] {
        if let Some(fields) = scaler.get_mut(name).and_then(Value::as_object_mut) {
            convert(fields, &mut annotations);
        }
    }
    if !annotations.is_empty() {
        metadata::of(&mut scaler).insert("annotations".to_owned(), Value::Object(annotations));
    }
    scaler
}

fn spec_to_stored(spec: &mut Fields, annotations: &mut Fields) {
    let cpu = spec.remove("targetCPUUtilizationPercentage").map(|percent| {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    });
    let others = take_list(annotations, METRICS_ANNOTATION);
    let others = others
        .into_iter()
        .map(|metric| nested(&metric, "target", SOURCES));
    set_list(spec, "metrics", cpu.into_iter().chain(others).collect());
    if let Some(behavior) = take(annotations, BEHAVIOR_ANNOTATION).filter(Value::is_object) {
        spec.insert("behavior".to_owned(), from_go(behavior));
    }
}

fn spec_to_served(spec: &mut Fields, annotations: &mut Fields) {
    let metrics = taken_list(spec, "metrics");
    let is_cpu = |metric: &&Value| cpu_utilization(metric, "target").is_some();
    if let Some(percent) = metrics
        .iter()
        .find_map(|metric| cpu_utilization(metric, "target"))
    {
        spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
    }
    let others = metrics.iter().filter(|metric| !is_cpu(metric));
    put_list(
        annotations,
        METRICS_ANNOTATION,
        "MetricSpec",
        others.map(|metric| flat(metric, SOURCES)).collect(),
    );
    if let Some(behavior) = spec.remove("behavior") {
        let behavior = go_structs::structure("HorizontalPodAutoscalerBehavior", &behavior);
        annotations.insert(BEHAVIOR_ANNOTATION.to_owned(), json!(behavior));
    }
}

fn status_to_stored(status: &mut Fields, annotations: &mut Fields) {
    let cpu = status.remove("currentCPUUtilizationPercentage").map(|percent| {
        let current = json!({"averageValue": "0", "averageUtilization": percent});
        json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})
    });
    // The annotation contains CPU utilization too, with more detail.
    let mut metrics: Vec<Value> = take_list(annotations, CURRENT_METRICS_ANNOTATION);
    metrics = metrics
        .iter()
        .map(|metric| nested(metric, "current", STATUSES))
        .collect();
    if metrics.is_empty() {
        metrics.extend(cpu);
    }
    set_list(status, "currentMetrics", metrics);
    set_list(
        status,
        "conditions",
        take_list(annotations, CONDITIONS_ANNOTATION),
    );
}

fn status_to_served(status: &mut Fields, annotations: &mut Fields) {
    let metrics = taken_list(status, "currentMetrics");
    if let Some(percent) = metrics
        .iter()
        .find_map(|metric| cpu_utilization(metric, "current"))
    {
        status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
    }
    let metrics = metrics.iter().map(|metric| flat(metric, STATUSES));
    put_list(
        annotations,
        CURRENT_METRICS_ANNOTATION,
        "MetricStatus",
        metrics.collect(),
    );
    put_list(
        annotations,
        CONDITIONS_ANNOTATION,
        "HorizontalPodAutoscalerCondition",
        taken_list(status, "conditions"),
    );
    // v1 always encodes this field; v2 omits it when it is zero.
    status.entry("currentReplicas").or_insert(json!(0));
}

/// The CPU utilization of a metric; `None` for other metrics.
fn cpu_utilization<'m>(metric: &'m Value, values: &str) -> Option<&'m Value> {
    let resource = metric
        .get("resource")
        .filter(|resource| resource["name"] == "cpu")?;
    resource[values].get("averageUtilization")
}

/// The fields of a metric source: the path in v2, and the name in the annotation.
type Names = &'static [(&'static str, &'static str)];

/// The metric sources.
const SOURCES: &[(&str, Names)] = &[
    (
        "resource",
        &[
            ("/name", "name"),
            ("/target/averageUtilization", "targetAverageUtilization"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("/name", "name"),
            ("/container", "container"),
            ("/target/averageUtilization", "targetAverageUtilization"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "object",
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/target/value", "targetValue"),
            ("/target/averageValue", "averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/target/value", "targetValue"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
];

/// The current metrics.
const STATUSES: &[(&str, Names)] = &[
    (
        "resource",
        &[
            ("/name", "name"),
            ("/current/averageUtilization", "currentAverageUtilization"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("/name", "name"),
            ("/container", "container"),
            ("/current/averageUtilization", "currentAverageUtilization"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "object",
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/current/value", "currentValue"),
            ("/current/averageValue", "averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/current/value", "currentValue"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
];

/// A metric in the form of the annotation.
fn flat(metric: &Value, kinds: &[(&str, Names)]) -> Value {
    let mut flat = json!({"type": metric["type"]});
    for (kind, names) in kinds {
        let Some(source) = metric.get(kind) else { continue };
        let fields = names.iter().filter_map(|(place, name)| {
            let value = source.pointer(place)?.clone();
            Some(((*name).to_owned(), value))
        });
        flat[kind] = Value::Object(fields.collect());
    }
    flat
}

/// A metric in the form of v2.
fn nested(metric: &Value, values: &str, kinds: &[(&str, Names)]) -> Value {
    let mut nested = json!({"type": metric["type"]});
    for (kind, names) in kinds {
        let Some(source) = metric.get(kind) else { continue };
        let mut fields = json!({values: {}});
        for (place, name) in *names {
            if let Some(value) = source.get(name) {
                set(&mut fields, place, value.clone());
            }
        }
        if values == "target" {
            fields["target"]["type"] = json!(target_type(&fields["target"]));
        }
        nested[kind] = fields;
    }
    nested
}

/// Infers the type of a target from the field that is set.
fn target_type(target: &Value) -> &'static str {
    match (target.get("averageUtilization"), target.get("averageValue")) {
        (Some(_), _) => "Utilization",
        (None, Some(_)) => "AverageValue",
        (None, None) => "Value",
    }
}

fn set(object: &mut Value, place: &str, value: Value) {
    let mut at = object;
    for step in place.split('/').skip(1) {
        at = &mut at[step];
    }
    *at = value;
}

/// Renames Go field names to JSON names and removes nulls.
fn from_go(value: Value) -> Value {
    let renamed = |name: String| -> String {
        let mut letters = name.chars();
        let first = letters.next().map(|first| first.to_ascii_lowercase());
        first.into_iter().chain(letters).collect()
    };
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (renamed(name), from_go(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(from_go).collect(),
        value => value,
    }
}

/// Removes and parses an annotation. `None` if it is missing or cannot be parsed.
fn take(annotations: &mut Fields, name: &str) -> Option<Value> {
    let text = annotations.remove(name)?;
    serde_json::from_str(text.as_str()?).ok()
}

fn take_list(annotations: &mut Fields, name: &str) -> Vec<Value> {
    match take(annotations, name) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn put_list(annotations: &mut Fields, name: &str, go_type: &str, list: Vec<Value>) {
    if !list.is_empty() {
        let text = go_structs::list(go_type, &Value::Array(list));
        annotations.insert(name.to_owned(), json!(text));
    }
}

fn taken_list(fields: &mut Fields, name: &str) -> Vec<Value> {
    match fields.remove(name) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn set_list(fields: &mut Fields, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        fields.insert(name.to_owned(), Value::Array(list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(served: &Value, name: &str) -> Value {
        let text = served["metadata"]["annotations"][name].as_str();
        serde_json::from_str(text.unwrap_or("null")).unwrap()
    }

    #[test]
    fn cpu_utilization_has_a_field_in_v1() {
        let served = json!({
            "metadata": {"name": "h", "annotations": {"a": "b"}},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 80},
        });
        let stored = (CONVERSION.to_stored)(served.clone());
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        assert_eq!(
            stored["spec"]["metrics"],
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
        );
        assert_eq!((CONVERSION.to_served)(stored), served);
    }

    #[test]
    fn other_metrics_are_flattened_in_an_annotation() {
        let check = |kind: &str, source: &str, v2: Value, v1: Value| {
            let stored = json!({
                "metadata": {},
                "spec": {"metrics": [{"type": kind, source: v2}]},
            });
            let served = (CONVERSION.to_served)(stored.clone());
            assert_eq!(
                annotation(&served, METRICS_ANNOTATION),
                json!([{"type": kind, source: v1}])
            );
            assert_eq!((CONVERSION.to_stored)(served), stored);
        };
        check(
            "Resource",
            "resource",
            json!({"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}),
            json!({"name": "memory", "targetAverageUtilization": 60}),
        );
        check(
            "ContainerResource",
            "containerResource",
            json!({"name": "cpu", "container": "c", "target": {"type": "AverageValue", "averageValue": "1"}}),
            json!({"name": "cpu", "container": "c", "targetAverageValue": "1"}),
        );
        check(
            "Pods",
            "pods",
            json!({"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1k"}}),
            json!({"metricName": "hits", "targetAverageValue": "1k"}),
        );
        check(
            "Object",
            "object",
            json!({
                "describedObject": {"kind": "Ingress", "name": "main"},
                "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
                "target": {"type": "Value", "value": "10k"},
            }),
            json!({
                "target": {"kind": "Ingress", "name": "main"},
                "metricName": "hits",
                "selector": {"matchLabels": {"a": "b"}},
                "targetValue": "10k",
            }),
        );
        check(
            "External",
            "external",
            json!({"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}}),
            json!({"metricName": "queue", "targetAverageValue": "30"}),
        );
    }

    #[test]
    fn behavior_and_status_are_kept_in_annotations() {
        let cpu = json!({"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "12m"}});
        let stored = json!({
            "metadata": {},
            "spec": {"behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 9}]}}},
            "status": {
                "currentReplicas": 1,
                "currentMetrics": [{"type": "Resource", "resource": cpu}],
                "conditions": [{"type": "AbleToScale", "status": "True"}],
            },
        });
        let served = (CONVERSION.to_served)(stored.clone());
        assert_eq!(
            annotation(&served, BEHAVIOR_ANNOTATION),
            json!({
                "ScaleUp": null,
                "ScaleDown": {
                    "StabilizationWindowSeconds": null,
                    "SelectPolicy": null,
                    "Policies": [{"Type": "Pods", "Value": 4, "PeriodSeconds": 9}],
                    "Tolerance": null,
                },
            })
        );
        assert_eq!(
            served["status"],
            json!({"currentReplicas": 1, "currentCPUUtilizationPercentage": 7})
        );
        assert_eq!((CONVERSION.to_stored)(served), stored);
    }

    #[test]
    fn unparsable_annotations_are_ignored() {
        let served = json!({
            "metadata": {"annotations": {METRICS_ANNOTATION: "[{", BEHAVIOR_ANNOTATION: "7"}},
            "spec": {"maxReplicas": 3},
        });
        let stored = (CONVERSION.to_stored)(served);
        assert_eq!(stored, json!({"metadata": {}, "spec": {"maxReplicas": 3}}));
    }
}
