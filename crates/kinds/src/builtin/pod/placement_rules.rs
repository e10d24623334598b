//! Validation of a pod's affinity and topology spread constraints.

use std::collections::{HashMap, HashSet};

use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};

use crate::rules::place::{Errors, Place};

const UNSATISFIABLE: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
const HONORED: &[&str] = &["Honor", "Ignore"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks node and pod affinity and anti-affinity.
pub(crate) fn check_affinity(affinity: &Place<'_, '_>, errors: &mut Errors) {
    check_node_affinity(&affinity.field("nodeAffinity"), errors);
    for name in ["podAffinity", "podAntiAffinity"] {
        let affinity = affinity.field(name);
        for term in affinity.field(REQUIRED).items() {
            check_pod_term(&term, errors);
        }
        for preferred in affinity.field(PREFERRED).items() {
            check_weight(&preferred, errors);
            check_pod_term(&preferred.field("podAffinityTerm"), errors);
        }
    }
}

fn check_node_affinity(affinity: &Place<'_, '_>, errors: &mut Errors) {
    let required = affinity.field(REQUIRED);
    if required.is_set() {
        check_node_selector(&required, errors);
    }
    for preferred in affinity.field(PREFERRED).items() {
        check_weight(&preferred, errors);
        check_node_term(&preferred.field("preference"), Values::Any, errors);
    }
}

/// Checks a node selector. Volumes use it too.
pub(crate) fn check_node_selector(selector: &Place<'_, '_>, errors: &mut Errors) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.len() == 0 {
        errors.push(terms.required("must have at least one node selector term"));
    }
    for term in terms.items() {
        check_node_term(&term, Values::OfLabels, errors);
    }
}

fn check_weight(preferred: &Place<'_, '_>, errors: &mut Errors) {
    let weight = preferred.field("weight");
    if !(1..=100).contains(&weight.number()) {
        errors.push(weight.invalid_for(weight.number(), "must be in the range 1-100"));
    }
}

/// The validation of requirement values. It is lenient for preferences, which may match no node.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    Any,
    OfLabels,
}

fn check_node_term(term: &Place<'_, '_>, allowed: Values, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match (operator.text(), values.len()) {
            ("In" | "NotIn", 0) => {
                errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            ("Exists" | "DoesNotExist", 1..) => errors
                .push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")),
            ("Gt" | "Lt", count) if count != 1 => {
                errors
                    .push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
            _ => errors.push(operator.invalid("not a valid selector operator")),
        }
        requirement.field("key").must_keep(qualified_name, errors);
        if allowed == Values::OfLabels {
            values
                .items()
                .for_each(|value| value.must_keep(label_value, errors));
        }
    }
    for requirement in term.field("matchFields").items() {
        check_field_requirement(&requirement, errors);
    }
}

/// Checks a requirement on node fields. The only one is the name.
fn check_field_requirement(requirement: &Place<'_, '_>, errors: &mut Errors) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    let key = requirement.field("key");
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => {
            errors.push(values.required(
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ))
        }
        "In" | "NotIn" => {}
        _ => errors.push(operator.invalid("not a valid selector operator")),
    }
    match key.text() {
        "metadata.name" => {
            let values = values.items();
            values.for_each(|value| value.must_keep(dns1123_subdomain, errors));
        }
        _ => errors.push(key.invalid("not a valid field selector key")),
    }
}

fn check_pod_term(term: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["labelSelector", "namespaceSelector"] {
        term.field(name).must_select(errors);
    }
    for namespace in term.field("namespaces").texts() {
        let place = term.field("namespace");
        let reasons = dns1123_label(namespace).into_iter();
        errors.extend(reasons.map(|why| place.invalid_for(namespace, why)));
    }
    check_label_keys(term, errors);
    let key = term.field("topologyKey");
    if key.text().is_empty() {
        errors.push(key.required("can not be empty"));
    }
    let reasons = qualified_name(key.text()).into_iter();
    errors.extend(reasons.map(|why| key.invalid_for(key.text(), why)));
}

/// Checks label keys whose values come from the pod itself.
fn check_label_keys(term: &Place<'_, '_>, errors: &mut Errors) {
    let has_selector = term.field("labelSelector").is_set();
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.field(name);
        if keys.len() > 0 && !has_selector {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
            continue;
        }
        keys.items().for_each(|key| key.must_keep(qualified_name, errors));
    }
    let mismatched: HashSet<&str> = term.field("mismatchLabelKeys").texts().collect();
    for key in term.field("matchLabelKeys").items() {
        if mismatched.contains(key.text()) {
            errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
        }
    }
}

/// Checks the topology spread constraints.
pub(crate) fn check_spread(constraints: &Place<'_, '_>, errors: &mut Errors) {
    let pair = |constraint: &Place<'_, '_>| {
        let text = |name: &str| constraint.field(name).text().to_owned();
        (text("topologyKey"), text("whenUnsatisfiable"))
    };
    let pairs: Vec<(String, String)> = constraints.items().map(|constraint| pair(&constraint)).collect();
    // The last place of each.
    let last: HashMap<_, usize> = pairs
        .iter()
        .enumerate()
        .map(|(index, pair)| (pair, index))
        .collect();
    for (index, constraint) in constraints.items().enumerate() {
        let skew = constraint.field("maxSkew");
        if skew.number() <= 0 {
            errors.push(skew.invalid_for(skew.number(), "must be greater than zero"));
        }
        let key = constraint.field("topologyKey");
        if key.text().is_empty() {
            errors.push(key.required("can not be empty"));
        }
        constraint
            .field("whenUnsatisfiable")
            .is_one_of(UNSATISFIABLE, errors);
        let (topology, otherwise) = &pairs[index];
        if last.get(&pairs[index]).is_some_and(|last| *last > index) {
            let path = constraint.path().child("{topologyKey, whenUnsatisfiable}");
            let shown = format!("{{{topology}, {otherwise}}}");
            errors.push(FieldError::duplicate(&path, shown));
        }
        check_domains(&constraint, errors);
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.field(name).may_be_one_of(HONORED, errors);
        }
        check_spread_keys(&constraint, errors);
        constraint.field("labelSelector").must_select(errors);
    }
}

fn check_spread_keys(constraint: &Place<'_, '_>, errors: &mut Errors) {
    let (keys, selector) = (
        constraint.field("matchLabelKeys"),
        constraint.field("labelSelector"),
    );
    if keys.len() == 0 {
        return;
    }
    if !selector.is_set() {
        errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
    }
    let expressions = selector.field("matchExpressions");
    for key in keys.items() {
        key.must_keep(qualified_name, errors);
        let selects = |expression: Place<'_, '_>| expression.field("key").text() == key.text();
        if selector.value()["matchLabels"].get(key.text()).is_some() || expressions.items().any(selects) {
            errors.push(key.invalid("exists in both matchLabelKeys and labelSelector"));
        }
    }
}

fn check_domains(constraint: &Place<'_, '_>, errors: &mut Errors) {
    let domains = constraint.field("minDomains");
    if !domains.is_set() {
        return;
    }
    if domains.number() <= 0 {
        errors.push(domains.invalid("must be greater than zero"));
    }
    let otherwise = constraint.field("whenUnsatisfiable").text();
    if otherwise != "DoNotSchedule" {
        let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {otherwise}");
        errors.push(domains.invalid(why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, wanted: &[&str]) {
        let mut errors = Errors::new();
        let place = Place::object(&spec);
        check_affinity(&place.field("affinity"), &mut errors);
        check_spread(&place.field("topologySpreadConstraints"), &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted, "{spec}");
    }

    #[test]
    fn node_requirements_have_the_values_that_their_operator_takes() {
        let affinity = |operator: &str, values: Value| {
            let terms = json!([{"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}]);
            let required = json!({"nodeSelectorTerms": terms});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        };
        let at = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].\
                  matchExpressions[0]";
        check(affinity("In", json!(["a"])), &[]);
        check(affinity("Gt", json!(["1"])), &[]);
        let error =
            format!("{at}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'");
        check(affinity("In", json!([])), &[&error]);
        let error = format!(r#"{at}.operator: Invalid value: "Like": not a valid selector operator"#);
        check(affinity("Like", json!(["a"])), &[&error]);
    }

    #[test]
    fn pod_affinity_needs_a_topology_key_and_a_weight() {
        let preferred = json!([{"weight": 0, "podAffinityTerm": {"topologyKey": ""}}]);
        check(
            json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}),
            &[
                "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must \
                 be in the range 1-100",
                "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: \
                 Required value: can not be empty",
                "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: \
                 Invalid value: \"\": name part must be non-empty",
                "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: \
                 Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must \
                 start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
                 used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ],
        );
    }

    #[test]
    fn topology_spread_needs_a_positive_skew() {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"});
        check(json!({"topologySpreadConstraints": [constraint]}), &[]);
        check(
            json!({"topologySpreadConstraints": [constraint, constraint]}),
            &[
                r#"topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, ScheduleAnyway}""#,
            ],
        );
        check(
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "Wait"}]}),
            &[
                "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                r#"topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Wait": supported values: "DoNotSchedule", "ScheduleAnyway""#,
            ],
        );
    }
}
