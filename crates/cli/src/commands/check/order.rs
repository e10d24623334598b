//! The order in which objects come into being, whatever their files are called.

use std::collections::BTreeSet;

use watchkeeper_meta::GroupVersionKind;

use super::case::Case;

/// Before what, in this order. A policy judges whatever comes after its binding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Policy,
    /// Without parameters, a binding waits for nothing and judges everything.
    Binding,
    CustomKind,
    Namespace,
    /// What policies take for parameters.
    Parameter,
    ParameterBinding,
    /// Other objects are refused without them, or completed by them.
    Furniture,
    Object,
    Test,
}

/// Sorts objects so that each finds what it needs; those that need nothing of each other keep their order.
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

/// The kind that a policy takes for its parameters.
fn parameter_kind(case: &Case<'_>) -> Option<(String, String)> {
    let kind = &case.object["spec"]["paramKind"];
    let api_version = kind["apiVersion"].as_str()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some((group.to_owned(), kind["kind"].as_str()?.to_owned()))
}
