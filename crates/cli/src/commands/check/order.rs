//! The order in which objects are created, whatever their files are called.

use std::collections::BTreeSet;

use watchkeeper_meta::GroupVersionKind;

use super::case::Case;

/// The rank of an object. A policy applies to everything after its binding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Policy,
    /// Without parameters, a binding depends on nothing and applies to everything.
    Binding,
    CustomKind,
    Namespace,
    /// Objects that policies use as parameters.
    Parameter,
    ParameterBinding,
    /// Objects that others need to be admitted or defaulted.
    Furniture,
    Object,
    Test,
}

/// Sorts objects by their dependencies; independent ones keep their order.
pub(super) fn sort(cases: &mut [Case<'_>]) {
    let parameters: BTreeSet<(String, String)> = cases.iter().filter_map(parameter_kind).collect();
    cases.sort_by_key(|case| rank(case, &parameters));
}

fn rank(case: &Case<'_>, parameters: &BTreeSet<(String, String)>) -> Rank {
    let GroupVersionKind { group, kind, .. } = &case.manifest.kind;
    if case.is_test() {
        return Rank::Test;
    }
    match &**kind {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => Rank::Policy,
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            match case.object["spec"]["paramRef"].is_object() {
                true => Rank::ParameterBinding,
                false => Rank::Binding,
            }
        }
        "CustomResourceDefinition" => Rank::CustomKind,
        "Namespace" => Rank::Namespace,
        _ if parameters.contains(&(group.to_string(), kind.to_string())) => Rank::Parameter,
        "PriorityClass" | "RuntimeClass" | "StorageClass" | "IngressClass" | "LimitRange"
        | "ServiceAccount" => Rank::Furniture,
        _ => Rank::Object,
    }
}

/// The parameter kind of a policy.
fn parameter_kind(case: &Case<'_>) -> Option<(String, String)> {
    let kind = &case.object["spec"]["paramKind"];
    let api_version = kind["apiVersion"].as_str()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some((group.to_owned(), kind["kind"].as_str()?.to_owned()))
}
