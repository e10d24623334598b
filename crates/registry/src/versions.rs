//! Resources that are served in two versions and stored in one.
//!
//! Events are stored as core events, autoscalers as `autoscaling/v2`. The other version is worked out on the way in
//! and out, on values; the stored version pays nothing.

use serde_json::{Map, Value, json};

use crate::definition::Definition;

/// How a served version relates to the stored one.
#[derive(Debug)]
pub(crate) struct Conversion {
    /// The stored version.
    pub(crate) stored_api_version: &'static str,
    to_stored: fn(Value) -> Value,
    to_served: fn(Value) -> Value,
}

/// The conversion of a resource whose served version is not the stored one.
pub(crate) fn conversion(group: &str, version: &str, plural: &str) -> Option<&'static Conversion> {
    match (group, version, plural) {
        ("events.k8s.io", "v1", "events") => Some(&EVENTS),
        ("autoscaling", "v1", "horizontalpodautoscalers") => Some(&AUTOSCALERS),
        _ => None,
    }
}

impl Conversion {
    /// The object as it is stored.
    pub(crate) fn to_stored(&self, object: Value) -> Value {
        let mut stored = (self.to_stored)(object);
        stored["apiVersion"] = json!(self.stored_api_version);
        stored
    }

    /// The object as it is served.
    pub(crate) fn to_served(&self, definition: &Definition, object: Value) -> Value {
        let mut served = (self.to_served)(object);
        served["apiVersion"] = json!(definition.api_version);
        served
    }
}

/// The names that differ between `events.k8s.io` and core events.
const EVENT_NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

static EVENTS: Conversion = Conversion {
    stored_api_version: "v1",
    to_stored: |event| {
        renamed(event, |name| {
            EVENT_NAMES.iter().find(|pair| pair.0 == name).map(|pair| pair.1)
        })
    },
    to_served: |event| {
        renamed(event, |name| {
            EVENT_NAMES.iter().find(|pair| pair.1 == name).map(|pair| pair.0)
        })
    },
};

fn renamed(object: Value, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = object else {
        return object;
    };
    let fields = fields
        .into_iter()
        .map(|(name, value)| (new_name(&name).map_or(name, str::to_owned), value));
    Value::Object(fields.collect())
}

static AUTOSCALERS: Conversion = Conversion {
    stored_api_version: "autoscaling/v2",
    to_stored: |scaler| autoscaler(scaler, &V1_TO_V2),
    to_served: |scaler| autoscaler(scaler, &V2_TO_V1),
};

/// Where `autoscaling/v1` keeps the metrics it has no fields for.
pub(crate) const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// Likewise the metrics' current values.
const CURRENT_METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// Likewise how fast to scale.
const BEHAVIOR_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// Likewise what the controller says of itself.
const CONDITIONS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/conditions";

struct Direction {
    spec: fn(&mut Map<String, Value>, &mut Map<String, Value>),
    status: fn(&mut Map<String, Value>, &mut Map<String, Value>),
}

const V1_TO_V2: Direction = Direction {
    spec: |spec, annotations| {
        let cpu = spec.remove("targetCPUUtilizationPercentage").map(|percent| {
            let target = json!({"type": "Utilization", "averageUtilization": percent});
            json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
        });
        let others = take_annotation(annotations, METRICS_ANNOTATION);
        set_list(spec, "metrics", others.into_iter().chain(cpu).collect());
        let behavior = annotations.remove(BEHAVIOR_ANNOTATION);
        let behavior = behavior.as_ref().and_then(Value::as_str);
        if let Some(behavior) = behavior.and_then(|text| serde_json::from_str(text).ok()) {
            spec.insert("behavior".to_owned(), behavior);
        }
    },
    status: |status, annotations| {
        let cpu = status.remove("currentCPUUtilizationPercentage").map(|percent| {
            let current = json!({"averageValue": "0", "averageUtilization": percent});
            json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})
        });
        let others = take_annotation(annotations, CURRENT_METRICS_ANNOTATION);
        set_list(status, "currentMetrics", others.into_iter().chain(cpu).collect());
        let conditions = take_annotation(annotations, CONDITIONS_ANNOTATION);
        set_list(status, "conditions", conditions);
    },
};

const V2_TO_V1: Direction = Direction {
    spec: |spec, annotations| {
        let (cpu, others) = split_cpu(spec.remove("metrics"), "/resource/target/averageUtilization");
        if let Some(percent) = cpu {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
        }
        put_annotation(annotations, METRICS_ANNOTATION, others);
        if let Some(behavior) = spec.remove("behavior") {
            annotations.insert(BEHAVIOR_ANNOTATION.to_owned(), json!(behavior.to_string()));
        }
    },
    status: |status, annotations| {
        let (cpu, others) = split_cpu(
            status.remove("currentMetrics"),
            "/resource/current/averageUtilization",
        );
        if let Some(percent) = cpu {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percent);
        }
        if let Some(Value::Array(conditions)) = status.remove("conditions") {
            put_annotation(annotations, CONDITIONS_ANNOTATION, conditions);
        }
        // What v2 leaves out when it is zero, v1 prints.
        status.entry("currentReplicas").or_insert(json!(0));
        put_annotation(annotations, CURRENT_METRICS_ANNOTATION, others);
    },
};

fn autoscaler(mut scaler: Value, direction: &Direction) -> Value {
    let mut annotations = match crate::metadata::of(&mut scaler).remove("annotations") {
        Some(Value::Object(annotations)) => annotations,
        _ => Map::new(),
    };
    for (name, convert) in [("spec", direction.spec), ("status", direction.status)] {
        if let Some(fields) = scaler.get_mut(name).and_then(Value::as_object_mut) {
            convert(fields, &mut annotations);
        }
    }
    if !annotations.is_empty() {
        let metadata = crate::metadata::of(&mut scaler);
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    scaler
}

/// The first CPU utilisation among metrics, and all other metrics.
fn split_cpu(metrics: Option<Value>, utilization: &str) -> (Option<Value>, Vec<Value>) {
    let Some(Value::Array(metrics)) = metrics else {
        return (None, Vec::new());
    };
    let mut cpu = None;
    let mut others = Vec::new();
    for metric in metrics {
        match metric.pointer(utilization) {
            Some(percent) if cpu.is_none() && metric["resource"]["name"] == "cpu" => {
                cpu = Some(percent.clone())
            }
            _ => others.push(metric),
        }
    }
    (cpu, others)
}

fn take_annotation(annotations: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    let text = annotations.remove(name);
    let text = text.as_ref().and_then(Value::as_str).unwrap_or("[]");
    serde_json::from_str(text).unwrap_or_default()
}

fn put_annotation(annotations: &mut Map<String, Value>, name: &str, metrics: Vec<Value>) {
    if !metrics.is_empty() {
        annotations.insert(name.to_owned(), json!(Value::Array(metrics).to_string()));
    }
}

fn set_list(fields: &mut Map<String, Value>, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        fields.insert(name.to_owned(), Value::Array(list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(group: &str, plural: &str, served: Value) {
        let conversion = conversion(group, "v1", plural).unwrap();
        let stored = (conversion.to_stored)(served.clone());
        assert_eq!((conversion.to_served)(stored), served);
    }

    #[test]
    fn nothing_is_lost_on_the_way_to_the_store_and_back() {
        round_trip(
            "events.k8s.io",
            "events",
            json!({"regarding": {"name": "p"}, "note": "hello", "type": "Normal"}),
        );
        round_trip(
            "autoscaling",
            "horizontalpodautoscalers",
            json!({
                "metadata": {"name": "h", "annotations": {"a": "b"}},
                "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 80},
                "status": {"currentReplicas": 1, "currentCPUUtilizationPercentage": 7},
            }),
        );
    }

    #[test]
    fn what_v1_cannot_show_is_kept_in_annotations() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory"}});
        let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
        let able = json!({"type": "AbleToScale", "status": "True"});
        let stored = json!({
            "metadata": {},
            "spec": {"metrics": [memory], "behavior": behavior},
            "status": {"currentReplicas": 1, "conditions": [able]},
        });
        let served = (AUTOSCALERS.to_served)(stored.clone());
        for annotation in [METRICS_ANNOTATION, BEHAVIOR_ANNOTATION, CONDITIONS_ANNOTATION] {
            assert!(
                served["metadata"]["annotations"][annotation].is_string(),
                "{annotation}"
            );
        }
        assert_eq!((AUTOSCALERS.to_stored)(served), stored);
    }
}
