//! Matches writes against the rules and selectors of policies, bindings and webhooks.

use serde_json::Value;
use watchkeeper_meta::{LabelSelector, Resource};

use super::request::{Action, AdmissionRequest};

/// The match constraints of a policy, a binding or a webhook.
#[derive(Debug)]
pub(super) struct Matching {
    /// `None` matches every resource.
    rules: Option<Vec<ResourceRule>>,
    excluded: Vec<ResourceRule>,
    namespaces: LabelSelector,
    objects: LabelSelector,
    /// `matchPolicy: Equivalent`: a rule matches all versions of a resource.
    is_equivalent: bool,
}

#[derive(Debug)]
struct ResourceRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

impl Matching {
    /// Reads the validated constraints of a policy or a binding; an unreadable selector selects everything.
    pub(super) fn of_policy(matching: &Value) -> Self {
        let stated = rules(matching, "resourceRules");
        let stated = (!stated.is_empty()).then_some(stated);
        Self::read(matching, stated)
    }

    /// Reads the validated constraints of a webhook. Without rules it matches nothing.
    pub(super) fn of_webhook(webhook: &Value) -> Self {
        Self::read(webhook, Some(rules(webhook, "rules")))
    }

    fn read(matching: &Value, rules: Option<Vec<ResourceRule>>) -> Self {
        let selector = |name: &str| match &matching[name] {
            Value::Null => LabelSelector::default(),
            selector => LabelSelector::from_json(selector).unwrap_or_default(),
        };
        Self {
            rules,
            excluded: self::rules(matching, "excludeResourceRules"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            is_equivalent: matching["matchPolicy"] != "Exact",
        }
    }

    /// True for `matchPolicy: Equivalent`.
    pub(super) fn is_equivalent(&self) -> bool {
        self.is_equivalent
    }

    /// True if a rule matches the resource and the operation in any version; selectors are not checked.
    pub(super) fn may_match(&self, write: &AdmissionRequest<'_>) -> bool {
        let (action, name) = (&write.action, write.requested_name());
        let any = |rules: &[ResourceRule]| {
            let mut rules = rules.iter();
            rules.any(|rule| {
                rule.is_about(action, &action.definition.resource, self.is_equivalent) && rule.names(name)
            })
        };
        self.rules.as_ref().is_none_or(|rules| any(rules)) && !any(&self.excluded)
    }

    /// True if a rule names exactly this version of the resource for the operation.
    pub(super) fn names(&self, action: &Action<'_>, resource: &Resource) -> bool {
        let mut rules = self.rules.iter().flatten();
        rules.any(|rule| rule.is_about(action, resource, false))
    }

    /// True if the object and namespace selectors match. For cluster-scoped objects the namespace selector is
    /// ignored.
    pub(super) fn selects(&self, write: &AdmissionRequest<'_>, namespace: Option<&Value>) -> bool {
        let has_labels =
            |object: &Value, selector: &LabelSelector| selector.matches(&object["metadata"]["labels"]);
        let is_selected = self.objects.is_everything()
            || [write.object, write.old]
                .into_iter()
                .flatten()
                .any(|object| has_labels(object, &self.objects));
        is_selected && namespace.is_none_or(|namespace| has_labels(namespace, &self.namespaces))
    }

    /// True if a write to an object in this namespace matches.
    pub(super) fn matches(&self, write: &AdmissionRequest<'_>, namespace: Option<&Value>) -> bool {
        self.may_match(write) && self.selects(write, namespace)
    }
}

fn rules(matching: &Value, name: &str) -> Vec<ResourceRule> {
    let list = matching[name].as_array().into_iter().flatten();
    list.map(ResourceRule::read).collect()
}

impl ResourceRule {
    fn read(rule: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let list = rule[name].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }

    fn is_about(&self, action: &Action<'_>, resource: &Resource, is_equivalent: bool) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|it| it == "*" || it == wanted);
        let is_in_scope = match &*self.scope {
            "Cluster" => !action.definition.is_namespaced(),
            "Namespaced" => action.definition.is_namespaced(),
            _ => true,
        };
        let wanted = (&*resource.plural, action.subresource);
        has(&self.operations, action.operation.name())
            && has(&self.groups, &resource.group)
            && (is_equivalent || has(&self.versions, &resource.version))
            && self.resources.iter().any(|it| is_resource(it, wanted))
            && is_in_scope
    }

    fn names(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|it| it == name)
    }
}

/// `pods`, `pods/status`, `pods/*`, `*/status`; `*` for all resources without subresources, `*/*` for all.
fn is_resource(pattern: &str, (resource, part): (&str, &str)) -> bool {
    let (wanted, wanted_part) = pattern.split_once('/').unwrap_or((pattern, ""));
    let is_meant = |pattern: &str, name: &str| pattern == "*" || pattern == name;
    is_meant(wanted, resource) && is_meant(wanted_part, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_resources_and_subresources() {
        for (pattern, resource, part, is_meant) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/*", "pods", "status", true),
            ("pods/*", "pods", "", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/status", "nodes", "status", true),
            ("*/*", "nodes", "status", true),
            ("nodes", "pods", "", false),
        ] {
            assert_eq!(
                is_resource(pattern, (resource, part)),
                is_meant,
                "{pattern} {resource}/{part}"
            );
        }
    }
}
