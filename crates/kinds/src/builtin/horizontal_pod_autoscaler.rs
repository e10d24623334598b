//! HorizontalPodAutoscaler, in both versions.

mod conversion;
mod table;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_label, path_segment_name};
use watchkeeper_meta::{FieldError, FieldPath, GroupVersion};

use self::conversion::METRICS_ANNOTATION;
use crate::Part;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::fill;
use crate::rules::formats::quantity;
use crate::rules::place::{Errors, Place};
use crate::rules::resource_names::check_container_name;
use crate::table::Column;
use crate::table::cells::{or, plain};

/// The default target utilization of the CPU request, in percent.
const CPU_UTILIZATION: i64 = 80;
const MAX_PERIOD_SECONDS: i64 = 1800;
const MAX_WINDOW_SECONDS: i64 = 3600;

/// The types of metrics and their fields, in the order in which Kubernetes checks them.
const METRICS: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const METRIC_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The kind served as `horizontalpodautoscalers`.
pub static KIND: Kind = Kind {
    group: "autoscaling",
    name: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
    conversion: Some(&conversion::CONVERSION),
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Reference", |row| {
        json!(format!(
            "{}/{}",
            row.text("/spec/scaleTargetRef/kind"),
            row.text("/spec/scaleTargetRef/name")
        ))
    }),
    Column::text("Targets", |row| json!(table::targets(row.object))),
    Column::text("MinPods", |row| {
        json!(or(plain(row.at("/spec/minReplicas")), "<unset>"))
    }),
    Column::text("MaxPods", |row| row.count("/spec/maxReplicas")),
    Column::text("Replicas", |row| row.count("/status/currentReplicas")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default,
    check,
    check_change: |change, errors| {
        if change.part == Part::Status {
            let status = change.new.field("status");
            status.field("currentReplicas").must_not_be_negative(errors);
            status.field("desiredReplicas").must_not_be_negative(errors);
        }
    },
    ..PLAIN
};

fn knows_metrics(scaler: &Value) -> bool {
    scaler["apiVersion"] == "autoscaling/v2"
}

fn default(scaler: &mut Value) {
    let knows_metrics = knows_metrics(scaler);
    let spec = &mut scaler["spec"];
    if !spec.is_object() {
        return;
    }
    fill(spec, "minReplicas", 1);
    if !knows_metrics {
        return fill_target(scaler);
    }
    let metrics = spec.get("metrics").and_then(Value::as_array);
    if metrics.is_none_or(Vec::is_empty) {
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
        fill(rules, "selectPolicy", "Max");
        fill(rules, "policies", policies);
    }
    fill(&mut behavior["scaleUp"], "stabilizationWindowSeconds", 0);
}

/// Fills in the CPU target of `autoscaling/v1`, unless an annotation carries the metrics of another version.
fn fill_target(scaler: &mut Value) {
    let annotated = scaler["metadata"]["annotations"]
        .get(METRICS_ANNOTATION)
        .is_some();
    if !annotated {
        fill(
            &mut scaler["spec"],
            "targetCPUUtilizationPercentage",
            CPU_UTILIZATION,
        );
    }
}

fn check(scaler: &Place<'_, '_>, errors: &mut Errors) {
    let spec = scaler.field("spec");
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    min.must_not_be_negative(errors);
    if min.is_set() && max.number() < min.number() {
        errors.push(max.invalid_for(max.number(), "must be greater than or equal to `minReplicas`"));
    }
    let target = spec.field("scaleTargetRef");
    check_reference(&target, errors);
    check_scales(&target, errors);
    let cpu = spec.field("targetCPUUtilizationPercentage");
    if cpu.is_set() && cpu.number() < 1 {
        // The stored version is checked, where the target is that of a metric.
        let path = FieldPath::from("spec.metrics[0].resource.target.averageUtilization");
        errors.push(FieldError::invalid(&path, cpu.number(), "must be greater than 0"));
    }
    let metrics = spec.field("metrics");
    metrics.items().for_each(|metric| check_metric(&metric, errors));
    let counts_without_pods =
        |metric: Place<'_, '_>| matches!(metric.field("type").text(), "Object" | "External");
    if min.is_set() && min.number() == 0 && !metrics.items().any(counts_without_pods) {
        errors.push(metrics.forbidden(
            "must specify at least one Object or External metric to support scaling to zero replicas",
        ));
    }
    let behavior = spec.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        check_rules(&behavior.field(direction), errors);
    }
    // Kubernetes checks this one by schema, so its error comes last.
    match max.number() {
        0 => errors.push(max.required("")),
        number if number < 1 => errors.push(max.invalid("must be greater than or equal to 1")),
        _ => {}
    }
}

/// Checks a reference to an object of any kind.
fn check_reference(object: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["kind", "name"] {
        object.field(name).must_be_set_and_keep(path_segment_name, errors);
    }
    let version = object.field("apiVersion");
    let text = version.text();
    if text.matches('/').count() > 1 {
        errors.push(version.invalid(format!("unexpected GroupVersion string: {text}")));
    }
}

/// Checks the scale target: in the core group, only ReplicationController can be scaled.
fn check_scales(target: &Place<'_, '_>, errors: &mut Errors) {
    let version = target.field("apiVersion");
    let text = version.text();
    let is_controller = text == "v1" && target.field("kind").text() == "ReplicationController";
    let has_group = text
        .parse::<GroupVersion>()
        .is_ok_and(|parsed| !parsed.group.is_empty());
    if !has_group && !is_controller && text.matches('/').count() <= 1 {
        errors.push(version.invalid_for(text, "apiVersion must specify API group"));
    }
}

/// Checks that a metric sets the field of its type and no other.
fn check_metric(metric: &Place<'_, '_>, errors: &mut Errors) {
    let kind = metric.field("type");
    if kind.text().is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    }
    let expected = METRICS.iter().find(|(known, _)| *known == kind.text());
    if expected.is_none() {
        errors.push(kind.unsupported(METRIC_TYPES));
    }
    let present: Vec<&str> = METRICS
        .iter()
        .map(|(_, field)| *field)
        .filter(|field| metric.field(field).is_set())
        .collect();
    if let Some(first) = present.first() {
        check_source(first, &metric.field(first), errors);
    }
    let Some((_, expected)) = expected else {
        return;
    };
    if !present.contains(expected) {
        let why = "must populate information for the given metric source";
        errors.push(metric.field(expected).required(why));
    }
    if present.len() != 1 {
        for other in present.iter().filter(|field| *field != expected) {
            errors.push(
                metric
                    .field(other)
                    .forbidden("must populate the given metric source only"),
            );
        }
    }
}

fn check_source(name: &str, source: &Place<'_, '_>, errors: &mut Errors) {
    let target = source.field("target");
    match name {
        "resource" | "containerResource" => {
            check_resource(source, name == "containerResource", errors);
            check_metric_target(&target, errors);
        }
        _ => {
            if name == "object" {
                check_reference(&source.field("describedObject"), errors);
            }
            check_identifier(&source.field("metric"), errors);
            check_metric_target(&target, errors);
        }
    }
    check_amounts(name, &target, errors);
}

fn check_resource(source: &Place<'_, '_>, is_of_container: bool, errors: &mut Errors) {
    let (name, container) = (source.field("name"), source.field("container"));
    match name.text() {
        "" => errors.push(name.required("must specify a resource name")),
        text if is_of_container => check_container_name(text, &name, errors),
        _ => {}
    }
    match container.text() {
        _ if !is_of_container => {}
        "" => errors.push(container.required("must specify a container")),
        _ => container.must_keep(dns1123_label, errors),
    }
}

/// Checks the target of a metric: at least one amount, and only combinations that are allowed.
fn check_amounts(source: &str, target: &Place<'_, '_>, errors: &mut Errors) {
    let utilization = target.field("averageUtilization");
    let (value, average) = (target.field("value"), target.field("averageValue"));
    let is_resource = matches!(source, "resource" | "containerResource");
    let has_one = match source {
        "pods" => average.is_set(),
        _ if is_resource => utilization.is_set() || average.is_set(),
        _ => value.is_set() || average.is_set(),
    };
    if !has_one {
        errors.push(match source {
            "pods" => average.required("must specify a positive target averageValue"),
            "object" => average.required("must set either a target value or averageValue"),
            "external" => average.required("must set either a target value for metric or a per-pod target"),
            _ => utilization.required("must set either a target raw value or a target utilization"),
        });
    }
    if is_resource && utilization.is_set() && average.is_set() {
        errors.push(average.forbidden("may not set both a target raw value and a target utilization"));
    }
    if source == "external" && value.is_set() && average.is_set() {
        errors.push(value.forbidden("may not set both a target value for metric and a per-pod target"));
    }
}

fn check_identifier(metric: &Place<'_, '_>, errors: &mut Errors) {
    let name = metric.field("name");
    match name.text() {
        "" => errors.push(name.required("must specify a metric name")),
        _ => name.must_keep(path_segment_name, errors),
    }
}

fn check_metric_target(target: &Place<'_, '_>, errors: &mut Errors) {
    let kind = target.field("type");
    if kind.text().is_empty() {
        errors.push(kind.required("must specify a metric target type"));
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        errors.push(kind.invalid_for(kind.text(), "must be either Utilization, Value, or AverageValue"));
    }
    for name in ["value", "averageValue"] {
        let amount = target.field(name);
        let value = quantity(amount.value());
        if amount.is_set() && (value.is_zero() || value.is_negative()) {
            errors.push(amount.invalid_for(value.to_string(), "must be positive"));
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.is_set() && utilization.number() < 1 {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}

/// Checks the scaling rules of one direction.
fn check_rules(rules: &Place<'_, '_>, errors: &mut Errors) {
    if !rules.is_set() {
        return;
    }
    let window = rules.field("stabilizationWindowSeconds");
    if window.number() < 0 {
        errors.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.number() > MAX_WINDOW_SECONDS {
        errors.push(window.invalid(format!("must be less than or equal to {MAX_WINDOW_SECONDS}")));
    }
    rules
        .field("selectPolicy")
        .may_be_one_of(&["Disabled", "Max", "Min"], errors);
    let policies = rules.field("policies");
    if policies.len() == 0 {
        errors.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        policy.field("type").is_one_of(&["Percent", "Pods"], errors);
        let (value, period) = (policy.field("value"), policy.field("periodSeconds"));
        for number in [value, period] {
            if number.number() <= 0 {
                errors.push(number.invalid_for(number.number(), "must be greater than zero"));
            }
        }
        if period.number() > MAX_PERIOD_SECONDS {
            errors.push(period.invalid(format!("must be less than or equal to {MAX_PERIOD_SECONDS}")));
        }
    }
    let tolerance = rules.field("tolerance");
    if quantity(tolerance.value()).is_negative() {
        errors.push(tolerance.invalid("must be greater or equal to 0"));
    }
}
