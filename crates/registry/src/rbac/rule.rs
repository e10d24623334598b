//! A policy rule of a role: the actions it allows, and the rules it covers.
//!
//! A rule stands for a product: every verb on every resource of every group. It is not expanded; callers that iterate
//! over its parts check their number first.

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_meta::quote;

use super::Attributes;

/// So many pairs of texts are compared one by one.
const FEW: usize = 64;

/// A rule: every verb on every resource of every group, or every verb on every path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// `get`, `*`.
    pub verbs: Vec<String>,
    /// `apps`, `*`; the core group is empty.
    pub api_groups: Vec<String>,
    /// `pods`, `pods/log`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// The object names; all if empty.
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

    /// True if the rule allows an action.
    pub(crate) fn allows(&self, action: Attributes<'_>) -> bool {
        match action {
            Attributes::Resource {
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
            Attributes::Path { verb, path } => names(&self.verbs, verb) && self.names_path(path),
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

    /// The parts of the rule: one verb on one object each. Their number is the product of its lists.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Permission<'_>> {
        self.verbs.iter().flat_map(|verb| {
            let objects = self.objects().map(move |object| Permission { verb, object });
            let paths = self.non_resource_urls.iter().map(move |path| Permission {
                verb,
                object: PermissionTarget::Path(path),
            });
            objects.chain(paths)
        })
    }

    fn objects(&self) -> impl Iterator<Item = PermissionTarget<'_>> {
        let resources = self.api_groups.iter().flat_map(|group| {
            let resources = self.resources.iter();
            resources.map(move |resource| (group.as_str(), resource.as_str()))
        });
        resources.flat_map(|(group, resource)| {
            let names = self.resource_names.iter().map(|name| Some(name.as_str()));
            let all = self.resource_names.is_empty().then_some(None);
            names.chain(all).map(move |name| PermissionTarget::Resource {
                group,
                resource,
                name,
            })
        })
    }

    /// The number of [`Rule::parts`].
    pub(crate) fn part_count(&self) -> usize {
        let names = self.resource_names.len().max(1);
        let objects = [self.api_groups.len(), self.resources.len(), names];
        let objects = objects.into_iter().fold(1, usize::saturating_mul);
        let objects = objects.saturating_add(self.non_resource_urls.len());
        self.verbs.len().saturating_mul(objects)
    }

    /// The number of its texts.
    pub(crate) fn text_count(&self) -> usize {
        let lists = [
            &self.verbs,
            &self.api_groups,
            &self.resources,
            &self.resource_names,
            &self.non_resource_urls,
        ];
        lists.into_iter().map(Vec::len).sum()
    }

    /// True if this rule covers a part of another. Unlike a request, a part may contain `*`, which only `*` covers.
    pub(crate) fn covers(&self, part: Permission<'_>) -> bool {
        names(&self.verbs, part.verb)
            && match part.object {
                PermissionTarget::Path(path) => self.names_path(path),
                PermissionTarget::Resource {
                    group,
                    resource,
                    name,
                } => {
                    names(&self.api_groups, group) && self.covers_resource(resource) && self.covers_name(name)
                }
            }
    }

    /// True if this rule alone covers another, compared list by list. Several rules may cover it together even if
    /// none does alone.
    pub(crate) fn covers_all_of(&self, other: &Self) -> bool {
        covers_texts(&self.verbs, &other.verbs)
            && covers_texts(&self.api_groups, &other.api_groups)
            && other.resources.iter().all(|it| self.covers_resource(it))
            && self.covers_names(&other.resource_names)
            && other.non_resource_urls.iter().all(|it| self.names_path(it))
    }

    /// Here `*` is an ordinary name.
    fn covers_name(&self, name: Option<&str>) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|mine| Some(mine.as_str()) == name)
    }

    fn covers_names(&self, names: &[String]) -> bool {
        if self.resource_names.is_empty() {
            return true;
        }
        let mine: HashSet<&String> = self.resource_names.iter().collect();
        !names.is_empty() && names.iter().all(|name| mine.contains(name))
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

/// A part of a rule: one verb on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permission<'a> {
    pub(crate) verb: &'a str,
    pub(crate) object: PermissionTarget<'a>,
}

/// The object of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PermissionTarget<'a> {
    /// One resource of one group, with a name if the rule has names.
    Resource {
        group: &'a str,
        resource: &'a str,
        name: Option<&'a str>,
    },
    /// A path outside the resource API.
    Path(&'a str),
}

impl PermissionTarget<'_> {
    /// A rule for only this object.
    pub(crate) fn to_rule(self, verbs: &[&str]) -> Rule {
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        match self {
            Self::Path(path) => Rule {
                verbs,
                non_resource_urls: vec![path.to_owned()],
                ..Rule::default()
            },
            Self::Resource {
                group,
                resource,
                name,
            } => Rule {
                verbs,
                api_groups: vec![group.to_owned()],
                resources: vec![resource.to_owned()],
                resource_names: name.into_iter().map(str::to_owned).collect(),
                non_resource_urls: Vec::new(),
            },
        }
    }

    /// The total length of its texts.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Path(path) => path.len(),
            Self::Resource {
                group,
                resource,
                name,
            } => group.len() + resource.len() + name.map_or(0, str::len),
        }
    }
}

/// Texts as Go's `%q` prints a slice.
pub(crate) fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

fn names(named: &[String], wanted: &str) -> bool {
    named.iter().any(|it| it == "*" || it == wanted)
}

fn covers_texts(mine: &[String], theirs: &[String]) -> bool {
    // Nearly always: they are fewer than a set would cost.
    if mine.len().saturating_mul(theirs.len()) <= FEW {
        return theirs.iter().all(|it| names(mine, it));
    }
    let mine: HashSet<&str> = mine.iter().map(String::as_str).collect();
    mine.contains("*") || theirs.iter().all(|it| mine.contains(it.as_str()))
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
    fn a_rule_allows_the_actions_it_lists() {
        let check = |rule: &Rule, verb, resource, subresource, name, expected| {
            let action = Attributes::Resource {
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
    fn a_path_matches_exactly_or_by_prefix() {
        let check = |url: &str, path: &str, expected: bool| {
            let rule = Rule::read(&json!({"verbs": ["get"], "nonResourceURLs": [url]}));
            assert_eq!(
                rule.allows(Attributes::Path { verb: "get", path }),
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
    fn only_a_star_covers_a_star() {
        let check = |mine: &Rule, theirs: &Rule, expected: bool| {
            let covered = theirs.parts().all(|part| mine.covers(part));
            assert_eq!(covered, expected, "{mine:?} {theirs:?}");
            assert_eq!(mine.covers_all_of(theirs), expected, "{mine:?} {theirs:?}");
            assert_eq!(theirs.part_count(), theirs.parts().count());
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
