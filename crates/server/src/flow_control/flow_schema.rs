//! Compiled flow schemas: match requests and distinguish flows.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use http::HeaderValue;
use serde_json::Value;
use watchkeeper_registry::User;

use super::priority_level::uid;
use crate::request_info::RequestInfo;

/// The wildcard of rules.
const ANY: &str = "*";

/// A flow schema.
#[derive(Debug)]
pub(super) struct FlowSchema {
    pub name: String,
    pub uid: HeaderValue,
    pub level: String,
    precedence: i64,
    distinguisher: Distinguisher,
    rules: Vec<PolicyRules>,
}

/// The flow distinguisher of a schema.
#[derive(Clone, Copy, Debug)]
enum Distinguisher {
    Nothing,
    User,
    Namespace,
}

#[derive(Debug)]
struct PolicyRules {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Debug)]
enum Subject {
    Everybody,
    User(String),
    Group(String),
    /// `None` for every account of the namespace.
    ServiceAccount(String, Option<String>),
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Words,
    groups: Words,
    resources: Words,
    namespaces: Words,
    cluster_scope: bool,
}

#[derive(Debug)]
struct PathRule {
    verbs: Words,
    paths: Words,
}

/// A list of names, or the wildcard.
#[derive(Debug)]
enum Words {
    Any,
    OneOf(Vec<String>),
}

impl FlowSchema {
    pub(super) fn read(schema: &Value) -> Self {
        let spec = &schema["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            name: text(&schema["metadata"]["name"]),
            uid: uid(schema),
            level: text(&spec["priorityLevelConfiguration"]["name"]),
            precedence: spec["matchingPrecedence"].as_i64().unwrap_or(i64::MAX),
            distinguisher: match spec["distinguisherMethod"]["type"].as_str() {
                Some("ByUser") => Distinguisher::User,
                Some("ByNamespace") => Distinguisher::Namespace,
                _ => Distinguisher::Nothing,
            },
            rules: array(&spec["rules"]).map(PolicyRules::read).collect(),
        }
    }

    /// The order of matching: precedence, then name.
    pub(super) fn order(&self) -> (i64, &str) {
        (self.precedence, &self.name)
    }

    /// True if a request matches this schema.
    pub(super) fn matches(&self, user: &User, request: &RequestInfo) -> bool {
        self.rules.iter().any(|rule| rule.matches(user, request))
    }

    /// A hash of the flow of a request.
    pub(super) fn flow(&self, user: &User, request: &RequestInfo) -> u64 {
        // Without a random key, so that a repeated run makes equal choices.
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        match (self.distinguisher, &request.resource) {
            (Distinguisher::User, _) => user.name.hash(&mut hasher),
            (Distinguisher::Namespace, Some(resource)) => resource.namespace.hash(&mut hasher),
            (Distinguisher::Namespace, None) | (Distinguisher::Nothing, _) => {}
        }
        hasher.finish()
    }
}

impl PolicyRules {
    fn read(rule: &Value) -> Self {
        Self {
            subjects: array(&rule["subjects"]).filter_map(Subject::read).collect(),
            resources: array(&rule["resourceRules"]).map(ResourceRule::read).collect(),
            paths: array(&rule["nonResourceRules"]).map(PathRule::read).collect(),
        }
    }

    fn matches(&self, user: &User, request: &RequestInfo) -> bool {
        let is_about = || match &request.resource {
            Some(_) => self.resources.iter().any(|rule| rule.matches(request)),
            None => self.paths.iter().any(|rule| rule.matches(request)),
        };
        self.subjects.iter().any(|subject| subject.is(user)) && is_about()
    }
}

impl Subject {
    fn read(subject: &Value) -> Option<Self> {
        let text = |part: &str, field: &str| subject[part][field].as_str().unwrap_or_default().to_owned();
        let (user, group) = (text("user", "name"), text("group", "name"));
        Some(match subject["kind"].as_str()? {
            "User" if user == ANY => Self::Everybody,
            "User" => Self::User(user),
            "Group" if group == ANY => Self::Everybody,
            "Group" => Self::Group(group),
            "ServiceAccount" => {
                let name = text("serviceAccount", "name");
                Self::ServiceAccount(
                    text("serviceAccount", "namespace"),
                    Some(name).filter(|name| name != ANY),
                )
            }
            _ => return None,
        })
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Self::Everybody => true,
            Self::User(name) => *name == user.name,
            Self::Group(group) => user.is_in(group),
            Self::ServiceAccount(namespace, name) => user.service_account().is_some_and(|account| {
                account.0 == namespace && name.as_ref().is_none_or(|name| account.1 == name)
            }),
        }
    }
}

impl ResourceRule {
    fn read(rule: &Value) -> Self {
        Self {
            verbs: Words::read(&rule["verbs"]),
            groups: Words::read(&rule["apiGroups"]),
            resources: Words::read(&rule["resources"]),
            namespaces: Words::read(&rule["namespaces"]),
            cluster_scope: rule["clusterScope"] == true,
        }
    }

    fn matches(&self, request: &RequestInfo) -> bool {
        let Some(asked) = &request.resource else {
            return false;
        };
        let is_resource = |word: &str| match asked.subresource.as_str() {
            "" => word == asked.resource,
            subresource => word.split_once('/') == Some((&asked.resource, subresource)),
        };
        let is_namespace = || match asked.namespace.as_str() {
            "" => self.cluster_scope,
            namespace => self.namespaces.has(namespace),
        };
        self.verbs.has(&request.verb)
            && self.groups.has(&asked.group)
            && self.resources.has_any(is_resource)
            && is_namespace()
    }
}

impl PathRule {
    fn read(rule: &Value) -> Self {
        Self {
            verbs: Words::read(&rule["verbs"]),
            paths: Words::read(&rule["nonResourceURLs"]),
        }
    }

    fn matches(&self, request: &RequestInfo) -> bool {
        let is_path = |word: &str| match word.strip_suffix(ANY) {
            Some(prefix) if prefix.ends_with('/') => request.path.starts_with(prefix),
            _ => word == request.path,
        };
        self.verbs.has(&request.verb) && self.paths.has_any(is_path)
    }
}

impl Words {
    fn read(words: &Value) -> Self {
        let words: Vec<_> = array(words)
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        match words.iter().any(|word| word == ANY) {
            true => Self::Any,
            false => Self::OneOf(words),
        }
    }

    fn has(&self, wanted: &str) -> bool {
        self.has_any(|word| word == wanted)
    }

    fn has_any(&self, is_match: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(words) => words.iter().any(|word| is_match(word)),
        }
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use watchkeeper_kinds::suggested_flow_schemas;

    use super::*;

    fn check(user: &User, method: Method, uri: &str, expected: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let request = RequestInfo::read(&method, path, query);
        let mut schemas: Vec<_> = suggested_flow_schemas().iter().map(FlowSchema::read).collect();
        schemas.sort_by(|a, b| a.order().cmp(&b.order()));
        let found = schemas.iter().find(|schema| schema.matches(user, &request));
        assert_eq!(
            found.map(|schema| schema.name.as_str()),
            Some(expected),
            "{} {uri}",
            user.name
        );
    }

    fn account(namespace: &str, name: &str) -> User {
        let account = User::of_service_account(namespace, name);
        User::authenticated(account.name, "", account.groups)
    }

    #[test]
    fn requests_match_the_schemas_of_a_new_cluster() {
        let admin = User::authenticated("admin", "", vec!["system:masters".to_owned()]);
        let alice = User::authenticated("alice", "", Vec::new());
        let node = User::authenticated("system:node:n1", "", vec!["system:nodes".to_owned()]);
        let scheduler = User::authenticated("system:kube-scheduler", "", Vec::new());
        let get = || Method::GET;
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        check(&admin, get(), "/api/v1/pods", "exempt");
        check(&User::anonymous(), get(), "/readyz", "probes");
        check(&User::anonymous(), get(), "/api", "global-default");
        check(
            &scheduler,
            Method::PUT,
            &format!("{leases}/kube-scheduler"),
            "system-leader-election",
        );
        check(
            &scheduler,
            Method::DELETE,
            &format!("{leases}/kube-scheduler"),
            "kube-scheduler",
        );
        check(
            &account("kube-system", "x"),
            get(),
            "/api/v1/namespaces/a/configmaps/b",
            "workload-leader-election",
        );
        check(
            &account("kube-system", "x"),
            get(),
            "/api/v1/pods?watch=1",
            "kube-system-service-accounts",
        );
        check(
            &account("default", "x"),
            get(),
            "/api/v1/pods",
            "service-accounts",
        );
        check(
            &node,
            Method::PATCH,
            "/api/v1/nodes/n1/status",
            "system-node-high",
        );
        check(&node, get(), "/api/v1/pods", "system-nodes");
        check(&alice, get(), "/api/v1/namespaces/a/pods/b/log", "global-default");
    }
}
