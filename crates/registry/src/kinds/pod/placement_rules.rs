//! What is wrong with where a pod wants to run: near or far from nodes and other pods, and how evenly spread.

use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::{dns1123_label, label_selector, qualified_name};

use super::super::place::{Faults, Place};

const UNSATISFIABLE: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
const HONORED: &[&str] = &["Honor", "Ignore"];

/// Checks what a pod is drawn to and driven from.
pub(super) fn check_affinity(affinity: &Place<'_, '_>, faults: &mut Faults) {
    check_node_affinity(&affinity.field("nodeAffinity"), faults);
    for name in ["podAffinity", "podAntiAffinity"] {
        let affinity = affinity.field(name);
        for term in affinity
            .field("requiredDuringSchedulingIgnoredDuringExecution")
            .items()
        {
            check_pod_term(&term, faults);
        }
        for preferred in affinity
            .field("preferredDuringSchedulingIgnoredDuringExecution")
            .items()
        {
            check_weight(&preferred, faults);
            check_pod_term(&preferred.field("podAffinityTerm"), faults);
        }
    }
}

fn check_node_affinity(affinity: &Place<'_, '_>, faults: &mut Faults) {
    let required = affinity.field("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_set() {
        let terms = required.field("nodeSelectorTerms");
        if terms.len() == 0 {
            faults.push(terms.required("must have at least one node selector term"));
        }
        terms.items().for_each(|term| check_node_term(&term, faults));
    }
    for preferred in affinity
        .field("preferredDuringSchedulingIgnoredDuringExecution")
        .items()
    {
        check_weight(&preferred, faults);
        check_node_term(&preferred.field("preference"), faults);
    }
}

fn check_weight(preferred: &Place<'_, '_>, faults: &mut Faults) {
    let weight = preferred.field("weight");
    if !(1..=100).contains(&weight.number()) {
        faults.push(weight.invalid("must be in the range 1-100"));
    }
}

fn check_node_term(term: &Place<'_, '_>, faults: &mut Faults) {
    for requirement in term.field("matchExpressions").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match (operator.text(), values.len()) {
            ("In" | "NotIn", 0) => {
                faults.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            ("Exists" | "DoesNotExist", 1..) => faults
                .push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")),
            ("Gt" | "Lt", count) if count != 1 => {
                faults
                    .push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
            _ => faults.push(operator.invalid("not a valid selector operator")),
        }
        requirement.field("key").must_keep(qualified_name, faults);
    }
}

fn check_pod_term(term: &Place<'_, '_>, faults: &mut Faults) {
    for name in ["labelSelector", "namespaceSelector"] {
        let selector = term.field(name);
        faults.extend(label_selector(selector.value(), &selector.path()));
    }
    for namespace in term.field("namespaces").items() {
        namespace.must_keep(dns1123_label, faults);
    }
    check_topology_key(&term.field("topologyKey"), faults);
}

fn check_topology_key(key: &Place<'_, '_>, faults: &mut Faults) {
    match key.text() {
        "" => faults.push(key.required("can not be empty")),
        _ => key.must_keep(qualified_name, faults),
    }
}

/// Checks how evenly pods are to be spread.
pub(super) fn check_spread(constraints: &Place<'_, '_>, faults: &mut Faults) {
    let mut seen = Vec::new();
    for constraint in constraints.items() {
        let skew = constraint.field("maxSkew");
        if skew.number() <= 0 {
            faults.push(skew.invalid("must be greater than zero"));
        }
        let (key, otherwise) = (
            constraint.field("topologyKey"),
            constraint.field("whenUnsatisfiable"),
        );
        check_topology_key(&key, faults);
        if !UNSATISFIABLE.contains(&otherwise.text()) {
            faults.push(otherwise.unsupported(UNSATISFIABLE));
        }
        let pair = (key.text(), otherwise.text());
        if seen.contains(&pair) {
            let shown = format!("{{{}, {}}}", pair.0, pair.1);
            faults.push(FieldError::duplicate(&constraint.path(), shown));
        }
        seen.push(pair);
        check_domains(&constraint, faults);
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.field(name);
            if policy.is_set() && !HONORED.contains(&policy.text()) {
                faults.push(policy.unsupported(HONORED));
            }
        }
        let selector = constraint.field("labelSelector");
        faults.extend(label_selector(selector.value(), &selector.path()));
    }
}

fn check_domains(constraint: &Place<'_, '_>, faults: &mut Faults) {
    let domains = constraint.field("minDomains");
    if !domains.is_set() {
        return;
    }
    if domains.number() <= 0 {
        faults.push(domains.invalid("must be greater than 0"));
    }
    let otherwise = constraint.field("whenUnsatisfiable").text();
    if otherwise != "DoNotSchedule" {
        let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {otherwise}");
        faults.push(domains.invalid(why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, wanted: &[&str]) {
        let mut faults = Vec::new();
        let place = Place::object(&spec);
        check_affinity(&place.field("affinity"), &mut faults);
        check_spread(&place.field("topologySpreadConstraints"), &mut faults);
        let found: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted, "{spec}");
    }

    #[test]
    fn requirements_of_nodes_have_the_values_that_their_operator_takes() {
        let affinity = |operator: &str, values: Value| {
            let terms = json!([{"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}]);
            let required = json!({"nodeSelectorTerms": terms});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        };
        let at = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].\
                  matchExpressions[0]";
        check(affinity("In", json!(["a"])), &[]);
        check(affinity("Gt", json!(["1"])), &[]);
        let fault =
            format!("{at}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'");
        check(affinity("In", json!([])), &[&fault]);
        let fault = format!(r#"{at}.operator: Invalid value: "Like": not a valid selector operator"#);
        check(affinity("Like", json!(["a"])), &[&fault]);
    }

    #[test]
    fn pods_are_drawn_to_a_topology_with_a_weight() {
        let preferred = json!([{"weight": 0, "podAffinityTerm": {"topologyKey": ""}}]);
        check(
            json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}),
            &[
                "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must \
                 be in the range 1-100",
                "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: \
                 Required value: can not be empty",
            ],
        );
    }

    #[test]
    fn pods_are_spread_by_a_positive_skew() {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"});
        check(json!({"topologySpreadConstraints": [constraint]}), &[]);
        check(
            json!({"topologySpreadConstraints": [constraint, constraint]}),
            &[r#"topologySpreadConstraints[1]: Duplicate value: "{zone, ScheduleAnyway}""#],
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
