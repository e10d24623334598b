//! The plural name of a resource, from its kind.

/// The plural of a kind in lower case: `networkpolicies`, `gateways`, `ingresses`.
///
/// English rules as in Kubernetes' code generators. A kind with another plural states it.
///
/// ```
/// assert_eq!(watchkeeper_custom::plural("NetworkPolicy"), "networkpolicies");
/// ```
pub fn plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    let is_hissing = ["s", "x", "z", "ch", "sh"]
        .iter()
        .any(|end| singular.ends_with(end));
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if is_hissing => singular + "es",
        _ => singular + "s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_usual_plurals() {
        for (kind, expected) in [
            ("Website", "websites"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("Box", "boxes"),
            ("Branch", "branches"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }
}
