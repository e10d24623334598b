//! The targets cell of an autoscaler's row.

use serde_json::Value;

use crate::table::cells::{NONE, or, plain, text_at};

/// Shown for a current value that is not known yet.
const UNKNOWN: &str = "<unknown>";
/// The largest number of metrics in a cell; the rest is a count.
const MAX_TARGETS: usize = 2;

/// Current values and targets: `cpu: 12%/80%, memory: <unknown>/500Mi + 1 more...`.
pub(crate) fn targets(scaler: &Value) -> String {
    let metrics = scaler["spec"]["metrics"].as_array().into_iter().flatten();
    let shown = metrics
        .clone()
        .take(MAX_TARGETS)
        .enumerate()
        .map(|(index, metric)| {
            let current = &scaler["status"]["currentMetrics"][index];
            target(metric, current)
        });
    let shown: Vec<String> = shown.collect();
    let more = metrics.count().saturating_sub(MAX_TARGETS);
    match (shown.is_empty(), more) {
        (true, _) => NONE.to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} + {more} more...", shown.join(", ")),
    }
}

/// One metric. Its field is the type in lower camel case.
fn target(metric: &Value, status: &Value) -> String {
    let kind = text_at(metric, "/type");
    let source = kind
        .chars()
        .take(1)
        .flat_map(char::to_lowercase)
        .chain(kind.chars().skip(1));
    let source: String = source.collect();
    let (target, current) = (&metric[&source]["target"], &status[&source]["current"]);
    let value = |name: &str| (or(plain(&current[name]), UNKNOWN), plain(&target[name]));
    let named = |text: String| format!("{}: {text}", plain(&metric[&source]["name"]));
    match (kind.as_str(), target.get("averageValue").is_some()) {
        ("Resource" | "ContainerResource", true) => {
            let (current, wanted) = value("averageValue");
            named(format!("{current}/{wanted}"))
        }
        ("Resource" | "ContainerResource", false) => {
            let wanted = &target["averageUtilization"];
            let wanted = wanted
                .as_i64()
                .map_or("<auto>".to_owned(), |percent| format!("{percent}%"));
            named(format!(
                "{}/{wanted}",
                percent_or_unknown(&current["averageUtilization"])
            ))
        }
        ("Pods", _) => {
            let (current, wanted) = value("averageValue");
            format!("{current}/{wanted}")
        }
        ("Object" | "External", true) => {
            let (current, wanted) = value("averageValue");
            format!("{current}/{wanted} (avg)")
        }
        ("Object" | "External", false) => {
            let (current, wanted) = value("value");
            format!("{current}/{wanted}")
        }
        _ => "<unknown type>".to_owned(),
    }
}

fn percent_or_unknown(percent: &Value) -> String {
    percent
        .as_i64()
        .map_or(UNKNOWN.to_owned(), |percent| format!("{percent}%"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(metrics: Value, current: Value, shown: &str) {
        let scaler = json!({"spec": {"metrics": metrics}, "status": {"currentMetrics": current}});
        assert_eq!(targets(&scaler), shown);
    }

    #[test]
    fn every_kind_of_metric_is_shown_beside_its_target() {
        let cpu =
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let memory =
            json!({"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "500Mi"}}});
        check(json!([]), json!([]), "<none>");
        check(
            json!([cpu, memory]),
            json!(null),
            "cpu: <unknown>/80%, memory: <unknown>/500Mi",
        );
        let now = json!([
            {"resource": {"current": {"averageUtilization": 7}}},
            {"resource": {"current": {"averageValue": "20Mi"}}},
        ]);
        check(
            json!([cpu, memory, cpu]),
            now,
            "cpu: 7%/80%, memory: 20Mi/500Mi + 1 more...",
        );
        let one =
            |kind: &str, source: &str, target: Value| json!([{"type": kind, source: {"target": target}}]);
        check(
            one("Pods", "pods", json!({"averageValue": "1k"})),
            json!([]),
            "<unknown>/1k",
        );
        check(
            one("Object", "object", json!({"value": "5"})),
            json!([]),
            "<unknown>/5",
        );
        check(
            one("External", "external", json!({"averageValue": "30"})),
            json!([{"external": {"current": {"averageValue": "12"}}}]),
            "12/30 (avg)",
        );
    }
}
