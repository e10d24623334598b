//! The LimitRanger plugin: default requests and limits of containers in a namespace, with minimum and maximum; minimum and
//! maximum size of claims.
//!
//! Defaults are set before validation; the limits are checked afterwards. Existing pods are limited when they are
//! resized, claims also when they are changed. Each LimitRange is applied on its own: the first that refuses is named.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use watchkeeper_kinds::{builtin, metadata, pod_total};
use watchkeeper_meta::{ListOptions, Status};
use watchkeeper_wire::values::Quantity;

use crate::Registry;

/// The annotation that lists the defaults set by the plugin.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The container lists and their names in texts.
const CONTAINERS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

/// The type of the limits of claims.
const CLAIM: &str = builtin::PERSISTENT_VOLUME_CLAIM.name;

impl Registry {
    /// The LimitRanges of a namespace, each as its list of limits.
    pub(super) fn limits<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async move {
            let definition = self.builtin(&builtin::LIMIT_RANGE)?;
            let ranges = self.list(&definition, namespace, &ListOptions::default()).await?;
            let limits = ranges.objects().map(|range| {
                let mut range = range.to_value(&definition)?;
                Ok::<_, Status>(range["spec"]["limits"].take())
            });
            limits.collect()
        })
    }
}

/// The limits of a range that have this type.
fn of_type<'v>(range: &'v Value, kind: &'v str) -> impl Iterator<Item = &'v Value> {
    let limits = range.as_array().into_iter().flatten();
    limits.filter(move |limit| limit["type"] == kind)
}

/// Sets the default requests and limits of containers.
pub(super) fn complete(ranges: &[Value], pod: &mut Value) {
    for range in ranges {
        complete_by(range, pod);
    }
}

fn complete_by(range: &Value, pod: &mut Value) {
    let defaults = of_type(range, "Container");
    let (mut requests, mut maxima) = (Map::new(), Map::new());
    for limit in defaults {
        requests.extend(limit["defaultRequest"].as_object().cloned().unwrap_or_default());
        maxima.extend(limit["default"].as_object().cloned().unwrap_or_default());
    }
    let mut done = Vec::new();
    for (list, word) in CONTAINERS {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (what, kind, given) in [("requests", "request", &requests), ("limits", "limit", &maxima)] {
                let set = fill_in(container, what, given);
                if !set.is_empty() {
                    done.push(format!("{} {kind} for {word} {name}", set.join(", ")));
                }
            }
        }
    }
    if !done.is_empty() {
        let note = format!("LimitRanger plugin set: {}", done.join("; "));
        let annotations = metadata::of(pod)
            .entry("annotations")
            .or_insert_with(|| json!({}));
        annotations[ANNOTATION] = json!(note);
    }
}

/// Sets missing amounts and returns their names.
fn fill_in(container: &mut Value, what: &str, given: &Map<String, Value>) -> Vec<String> {
    let amounts = container["resources"][what]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let missing = given.iter().filter(|(name, _)| !amounts.contains_key(*name));
    let missing: Vec<(String, Value)> = missing
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    for (name, amount) in &missing {
        container["resources"][what][name] = amount.clone();
    }
    missing.into_iter().map(|(name, _)| name).collect()
}

/// The limits that a pod violates, as one text.
pub(super) fn refusal(ranges: &[Value], pod: &Value) -> Option<String> {
    ranges.iter().find_map(|range| refusal_by(range, pod))
}

fn refusal_by(range: &Value, pod: &Value) -> Option<String> {
    let mut reasons = Vec::new();
    for limit in range.as_array().into_iter().flatten() {
        match limit["type"].as_str().unwrap_or_default() {
            "Container" => {
                let containers = CONTAINERS
                    .iter()
                    .filter_map(|(list, _)| pod["spec"][list].as_array());
                for container in containers.flatten() {
                    check("Container", limit, &container["resources"], &mut reasons);
                }
            }
            "Pod" => check("Pod", limit, &pod_total(pod), &mut reasons),
            _ => {}
        }
    }
    one_text(&reasons)
}

/// The limits that a claim violates, as one text. Only what it requests is limited.
pub(super) fn claim_refusal(ranges: &[Value], claim: &Value) -> Option<String> {
    ranges.iter().find_map(|range| claim_refusal_by(range, claim))
}

fn claim_refusal_by(range: &Value, claim: &Value) -> Option<String> {
    let requests = &claim["spec"]["resources"]["requests"];
    let mut reasons = Vec::new();
    for limit in of_type(range, CLAIM) {
        for (list, word) in [("min", "minimum"), ("max", "maximum")] {
            for (name, bound) in limit[list].as_object().into_iter().flatten() {
                let rule = format!(
                    "{word} {name} usage per {CLAIM} is {}",
                    bound.as_str().unwrap_or_default()
                );
                let Some(request) = quantity(&requests[name]) else {
                    reasons.push(format!("{rule}.  No request is specified"));
                    continue;
                };
                let is_beyond = |bound| {
                    if list == "min" {
                        request < bound
                    } else {
                        request > bound
                    }
                };
                if quantity(bound).is_some_and(is_beyond) {
                    let shown = requests[name].as_str().unwrap_or_default();
                    reasons.push(format!("{rule}, but request is {shown}"));
                }
            }
        }
    }
    one_text(&reasons)
}

/// Several reasons as Kubernetes joins them, each once; `None` if there is none.
fn one_text(reasons: &[String]) -> Option<String> {
    let mut seen = HashSet::new();
    let once: Vec<&str> = reasons
        .iter()
        .map(String::as_str)
        .filter(|reason| seen.insert(*reason))
        .collect();
    match once[..] {
        [] => None,
        [only] => Some(only.to_owned()),
        _ => Some(format!("[{}]", once.join(", "))),
    }
}

fn check(what: &str, limit: &Value, resources: &Value, reasons: &mut Vec<String>) {
    let entries = |name: &str| limit[name].as_object().into_iter().flatten();
    let asked = |list: &str, name: &str| {
        Some((
            resources[list].get(name)?.as_str()?,
            quantity(&resources[list][name])?,
        ))
    };
    for (name, bound) in entries("min") {
        let Some(least) = quantity(bound) else { continue };
        let rule = format!(
            "minimum {name} usage per {what} is {}",
            bound.as_str().unwrap_or_default()
        );
        match (asked("requests", name), asked("limits", name)) {
            (None, _) => reasons.push(format!("{rule}.  No request is specified")),
            (Some((shown, request)), _) if request < least => {
                reasons.push(format!("{rule}, but request is {shown}"));
            }
            (_, Some((shown, limit))) if limit < least => {
                reasons.push(format!("{rule}, but limit is {shown}"));
            }
            _ => {}
        }
    }
    for (name, bound) in entries("max") {
        let Some(most) = quantity(bound) else { continue };
        let rule = format!(
            "maximum {name} usage per {what} is {}",
            bound.as_str().unwrap_or_default()
        );
        match (asked("limits", name), asked("requests", name)) {
            (None, _) => reasons.push(format!("{rule}.  No limit is specified")),
            (Some((shown, limit)), _) if limit > most => {
                reasons.push(format!("{rule}, but limit is {shown}"))
            }
            (_, Some((shown, request))) if request > most => {
                reasons.push(format!("{rule}, but request is {shown}"));
            }
            _ => {}
        }
    }
    for (name, bound) in entries("maxLimitRequestRatio") {
        let Some(ratio) = quantity(bound) else { continue };
        let rule = format!(
            "{name} max limit to request ratio per {what} is {}",
            bound.as_str().unwrap_or_default()
        );
        let amount = |list: &str| {
            asked(list, name)
                .map(|(_, amount)| amount)
                .filter(|amount| !amount.is_zero())
        };
        match (amount("requests"), amount("limits")) {
            (None, _) => reasons.push(format!("{rule}, but no request is specified or request is 0")),
            (_, None) => reasons.push(format!("{rule}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let found = limit.to_f64() / request.to_f64();
                if found > ratio.to_f64() {
                    reasons.push(format!("{rule}, but provided ratio is {found:.6}"));
                }
            }
        }
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn limits_of_claims_apply_to_what_they_request() {
        let limits = [json!([
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}},
            {"type": "Pod", "max": {"storage": "1Mi"}},
        ])];
        for (size, refusal) in [
            ("1Gi", ""),
            ("5Gi", ""),
            (
                "512Mi",
                "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi",
            ),
            (
                "9Gi",
                "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 9Gi",
            ),
        ] {
            let claim = json!({"spec": {"resources": {"requests": {"storage": size}}}});
            assert_eq!(
                super::claim_refusal(&limits, &claim).unwrap_or_default(),
                refusal,
                "{size}"
            );
        }
    }

    #[test]
    fn limits_apply_to_each_container_and_to_the_pod() {
        let pod = json!({"spec": {"containers": [
            {"name": "a", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "50m"}}},
            {"name": "b", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}},
        ]}});
        for (limit, refusal) in [
            (json!({"type": "Container", "max": {"cpu": "2"}}), ""),
            (
                json!({"type": "Container", "max": {"cpu": "1"}}),
                "maximum cpu usage per Container is 1, but limit is 2",
            ),
            (
                json!({"type": "Container", "min": {"cpu": "100m", "memory": "1Mi"}}),
                "[minimum cpu usage per Container is 100m, but request is 50m, minimum memory usage per Container is \
                 1Mi.  No request is specified]",
            ),
            (
                json!({"type": "Pod", "max": {"cpu": "2500m"}}),
                "maximum cpu usage per Pod is 2500m, but limit is 3",
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}}),
                "cpu max limit to request ratio per Container is 4, but provided ratio is 40.000000",
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"memory": "4"}}),
                "memory max limit to request ratio per Container is 4, but no request is specified or request is 0",
            ),
        ] {
            let found = super::refusal(&[json!([limit])], &pod);
            assert_eq!(found.unwrap_or_default(), refusal, "{limit}");
        }
    }
    #[test]
    fn a_ratio_needs_a_limit() {
        let pod = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}});
        let range = json!([{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]);
        assert_eq!(
            super::refusal(&[range], &pod).unwrap(),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"
        );
    }

    #[test]
    fn ranges_apply_one_after_the_other() {
        let range = |cpu: &str| json!([{"type": "Container", "max": {"cpu": cpu}, "default": {"cpu": cpu}}]);
        let ranges = [range("3"), range("1"), range("2")];
        let mut pod = json!({"spec": {"containers": [{"name": "a"}]}});
        super::complete(&ranges, &mut pod);
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "3");
        let refused = "maximum cpu usage per Container is 1, but limit is 3";
        assert_eq!(super::refusal(&ranges, &pod).unwrap(), refused);
    }
}
