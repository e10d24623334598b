//! Which writes a policy or a binding is about.

use serde_json::Value;
use watchkeeper_meta::LabelSelector;

use super::Write;

/// What a policy or a binding says about the writes it means.
#[derive(Debug)]
pub(super) struct Matching {
    /// `None` means every resource.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    namespaces: LabelSelector,
    objects: LabelSelector,
    /// Versions of a resource are as good as each other.
    is_equivalent: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

/// What is asked of a write to find out whether it is meant.
pub(super) struct Request<'w> {
    write: &'w Write<'w>,
    /// `pods` or `pods/status`.
    resource: (&'w str, &'w str),
    name: &'w str,
}

impl<'w> Request<'w> {
    pub(super) fn of(write: &'w Write<'w>) -> Self {
        let shown = write.object.or(write.old).unwrap_or(&Value::Null);
        Self {
            write,
            resource: (&write.definition.resource.plural, write.part.subresource()),
            name: shown["metadata"]["name"].as_str().unwrap_or_default(),
        }
    }
}

impl Matching {
    /// Reads what was accepted; a selector that cannot be read selects everything.
    pub(super) fn read(matching: &Value) -> Self {
        let rules = |name: &str| -> Vec<Rule> {
            let list = matching[name].as_array().into_iter().flatten();
            list.map(Rule::read).collect()
        };
        let selector = |name: &str| match &matching[name] {
            Value::Null => LabelSelector::default(),
            selector => LabelSelector::from_json(selector).unwrap_or_default(),
        };
        let stated = rules("resourceRules");
        Self {
            rules: (!stated.is_empty()).then_some(stated),
            excluded: rules("excludeResourceRules"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            is_equivalent: matching["matchPolicy"] != "Exact",
        }
    }

    /// Whether the resource and the operation are meant, before anybody looks at labels.
    pub(super) fn may_match(&self, request: &Request<'_>) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(request, self.is_equivalent));
        self.rules.as_ref().is_none_or(|rules| any(rules)) && !any(&self.excluded)
    }

    /// Whether a write to an object in this namespace is meant; outside of namespaces their labels do not matter.
    pub(super) fn matches(&self, request: &Request<'_>, namespace: Option<&Value>) -> bool {
        let write = request.write;
        let has_labels =
            |object: &Value, selector: &LabelSelector| selector.matches(&object["metadata"]["labels"]);
        let is_selected = self.objects.is_everything()
            || [write.object, write.old]
                .into_iter()
                .flatten()
                .any(|object| has_labels(object, &self.objects));
        let is_home = namespace.is_none_or(|namespace| has_labels(namespace, &self.namespaces));
        self.may_match(request) && is_selected && is_home
    }
}

impl Rule {
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

    fn matches(&self, request: &Request<'_>, is_equivalent: bool) -> bool {
        let resource = &request.write.definition.resource;
        let has = |list: &[String], wanted: &str| list.iter().any(|it| it == "*" || it == wanted);
        let is_in_scope = match &*self.scope {
            "Cluster" => !request.write.definition.is_namespaced(),
            "Namespaced" => request.write.definition.is_namespaced(),
            _ => true,
        };
        has(&self.operations, request.write.operation.name())
            && has(&self.groups, &resource.group)
            && (is_equivalent || has(&self.versions, &resource.version))
            && self.resources.iter().any(|it| is_resource(it, request.resource))
            && (self.names.is_empty() || self.names.iter().any(|it| it == request.name))
            && is_in_scope
    }
}

/// `pods`, `pods/status`, `pods/*`, `*/status`, `*` for all but parts, `*/*` for all.
fn is_resource(pattern: &str, (resource, part): (&str, &str)) -> bool {
    let (wanted, wanted_part) = pattern.split_once('/').unwrap_or((pattern, ""));
    let is_meant = |pattern: &str, name: &str| pattern == "*" || pattern == name;
    is_meant(wanted, resource) && is_meant(wanted_part, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_named_with_their_parts() {
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
