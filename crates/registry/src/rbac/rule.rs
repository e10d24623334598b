//! One rule of a role: what it allows, and whether it covers another.

use serde_json::Value;
use watchkeeper_meta::quote;

use super::Action;

/// One rule: every verb on every resource of every group it names, or every verb on every path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// `get`, `*`.
    pub verbs: Vec<String>,
    /// `apps`, `*`; the core group is empty.
    pub api_groups: Vec<String>,
    /// `pods`, `pods/log`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// The objects; all if there are none.
    pub resource_names: Vec<String>,
    /// `/healthz`, `/apis/*`.
    pub non_resource_urls: Vec<String>,
}

impl Rule {
    /// Reads a rule of a role.
    pub(crate) fn read(rule: &Value) -> Self {
        let texts = |field: &str| {
            let items = rule[field].as_array().into_iter().flatten();
            items
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect()
        };
        Self {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
        }
    }

    /// Whether the rule allows something.
    pub(crate) fn allows(&self, action: Action<'_>) -> bool {
        match action {
            Action::Resource {
                verb,
                group,
                resource,
                subresource,
                name,
                ..
            } => {
                names(&self.verbs, verb)
                    && names(&self.api_groups, group)
                    && self.names_resource(resource, subresource)
                    && (self.resource_names.is_empty() || self.resource_names.iter().any(|it| it == name))
            }
            Action::Path { verb, path } => names(&self.verbs, verb) && self.names_path(path),
        }
    }

    fn names_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|named| match named.split_once('/') {
            _ if named == "*" => true,
            None => subresource.is_empty() && named == resource,
            Some((of, part)) => {
                !subresource.is_empty() && part == subresource && (of == "*" || of == resource)
            }
        })
    }

    fn names_path(&self, path: &str) -> bool {
        self.non_resource_urls
            .iter()
            .any(|named| match named.strip_suffix('*') {
                Some(beginning) => path.starts_with(beginning),
                None => named == path,
            })
    }

    /// The rule in its smallest parts: one verb on one resource of one group, of one name if it names some.
    pub(crate) fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    let part = Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        ..Self::default()
                    };
                    match self.resource_names.is_empty() {
                        true => parts.push(part),
                        false => parts.extend(self.resource_names.iter().map(|name| Self {
                            resource_names: vec![name.clone()],
                            ..part.clone()
                        })),
                    }
                }
            }
            parts.extend(self.non_resource_urls.iter().map(|url| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            }));
        }
        parts
    }

    /// Whether whoever has this rule has all that one of [`Rule::parts`] gives. Unlike a request, a part may itself
    /// say `*`, and nothing but a `*` covers that.
    pub(crate) fn covers(&self, part: &Self) -> bool {
        let all = |mine: &[String], theirs: &[String]| theirs.iter().all(|it| names(mine, it));
        all(&self.verbs, &part.verbs)
            && all(&self.api_groups, &part.api_groups)
            && part.resources.iter().all(|it| self.covers_resource(it))
            && self.covers_names(&part.resource_names)
            && part.non_resource_urls.iter().all(|it| self.names_path(it))
    }

    /// A `*` is a name here like any other.
    fn covers_names(&self, names: &[String]) -> bool {
        let mine = &self.resource_names;
        mine.is_empty() || !names.is_empty() && names.iter().all(|name| mine.contains(name))
    }

    fn covers_resource(&self, named: &str) -> bool {
        self.resources.iter().any(|mine| {
            mine == "*"
                || mine == named
                || named
                    .split_once('/')
                    .is_some_and(|(_, part)| mine.strip_prefix("*/") == Some(part))
        })
    }

    /// As Kubernetes prints a rule: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}`.
    pub(crate) fn describe(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let fields: Vec<String> = fields
            .into_iter()
            .filter(|(_, texts)| !texts.is_empty())
            .map(|(name, texts)| format!("{name}:{}", quoted(texts)))
            .collect();
        format!("{{{}}}", fields.join(", "))
    }
}

/// Texts as Go's `%q` prints a slice of them.
pub(crate) fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

fn names(named: &[String], wanted: &str) -> bool {
    named.iter().any(|it| it == "*" || it == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(verbs: &str, resources: &str, resource_names: &[&str]) -> Rule {
        let (group, resource) = resources.split_once(':').unwrap_or(("", resources));
        Rule::read(&json!({
            "verbs": [verbs], "apiGroups": [group], "resources": [resource], "resourceNames": resource_names,
        }))
    }

    #[test]
    fn a_rule_allows_what_it_names() {
        let check = |rule: &Rule, verb, resource, subresource, name, expected| {
            let action = Action::Resource {
                verb,
                group: "",
                resource,
                subresource,
                namespace: "default",
                name,
            };
            assert_eq!(rule.allows(action), expected, "{rule:?} {action:?}");
        };
        check(&rule("get", "pods", &[]), "get", "pods", "", "a", true);
        check(&rule("get", "pods", &[]), "list", "pods", "", "", false);
        check(&rule("get", "pods", &[]), "get", "pods", "log", "a", false);
        check(&rule("get", "pods/log", &[]), "get", "pods", "log", "a", true);
        check(&rule("get", "pods/log", &[]), "get", "pods", "", "a", false);
        check(&rule("get", "*/log", &[]), "get", "pods", "log", "a", true);
        check(&rule("*", "*", &[]), "get", "pods", "log", "a", true);
        check(&rule("get", "*:pods", &[]), "get", "pods", "", "a", true);
        check(&rule("get", "apps:pods", &[]), "get", "pods", "", "a", false);
        check(&rule("get", "pods", &["a"]), "get", "pods", "", "a", true);
        check(&rule("get", "pods", &["a"]), "get", "pods", "", "b", false);
        check(&rule("list", "pods", &["a"]), "list", "pods", "", "", false);
    }

    #[test]
    fn a_path_is_named_whole_or_by_its_beginning() {
        let check = |url: &str, path: &str, expected: bool| {
            let rule = Rule::read(&json!({"verbs": ["get"], "nonResourceURLs": [url]}));
            assert_eq!(
                rule.allows(Action::Path { verb: "get", path }),
                expected,
                "{url} {path}"
            );
        };
        check("/apis", "/apis", true);
        check("/apis", "/apis/apps", false);
        check("/apis/*", "/apis/apps", true);
        check("*", "/metrics", true);
    }

    #[test]
    fn nothing_but_a_star_covers_a_star() {
        let check = |mine: &Rule, theirs: &Rule, expected: bool| {
            let covered = theirs.parts().iter().all(|part| mine.covers(part));
            assert_eq!(covered, expected, "{mine:?} {theirs:?}");
        };
        check(&rule("*", "*:*", &[]), &rule("*", "*:*", &[]), true);
        check(&rule("get", "pods", &[]), &rule("*", "pods", &[]), false);
        check(&rule("get", "pods", &[]), &rule("get", "pods", &["a"]), true);
        check(&rule("get", "pods", &["a"]), &rule("get", "pods", &[]), false);
        check(&rule("get", "pods", &["a"]), &rule("get", "pods", &["b"]), false);
        check(&rule("get", "pods", &["*"]), &rule("get", "pods", &["b"]), false);
        check(
            &rule("get", "*/scale", &[]),
            &rule("get", "pods/scale", &[]),
            true,
        );
        check(&rule("get", "pods", &[]), &rule("get", "pods/scale", &[]), false);
    }
}
