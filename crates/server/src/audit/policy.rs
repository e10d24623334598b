//! The audit policy: the first rule that matches a request determines its level.
//!
//! Supported fields of the `audit.k8s.io/v1` Policy: `omitStages` and rules with `level`, `verbs`, `users`,
//! `userGroups`, `resources` (groups, resources with subresources and `*`, resourceNames), `namespaces`,
//! `nonResourceURLs` and `omitStages`. Other fields are rejected.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use watchkeeper_registry::User;
use watchkeeper_wire::yaml;

use crate::request_info::RequestInfo;

/// The level of detail of an event.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    None,
    Metadata,
    Request,
    RequestResponse,
}

impl Level {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// The stage of an event.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// The reason a policy is rejected.
#[derive(Debug, thiserror::Error)]
pub enum AuditPolicyError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The file is not a valid policy.
    #[error("{path} is not an audit.k8s.io/v1 Policy: {why}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AuditPolicy {
    api_version: String,
    kind: String,
    #[serde(default)]
    #[allow(dead_code, reason = "the metadata is accepted and ignored")]
    metadata: serde_json::Value,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    rules: Vec<PolicyRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct PolicyRule {
    level: Option<Level>,
    verbs: Vec<String>,
    users: Vec<String>,
    user_groups: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<Stage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// The level and omitted stages of one request.
#[derive(Clone, Debug)]
pub(super) struct RequestAuditConfig {
    pub level: Level,
    omitted: [bool; 4],
}

impl RequestAuditConfig {
    pub(super) fn omits(&self, stage: Stage) -> bool {
        self.omitted[stage as usize]
    }
}

impl AuditPolicy {
    pub(super) fn read(path: &Path) -> Result<Self, AuditPolicyError> {
        let bytes = std::fs::read(path).map_err(|source| AuditPolicyError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&bytes).map_err(|why| AuditPolicyError::Malformed {
            path: path.to_owned(),
            why,
        })
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let policy: Self = yaml::from_slice(bytes, yaml::Mode::Strict).map_err(|error| error.to_string())?;
        if (policy.api_version.as_str(), policy.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            return Err(format!("it says {} {}", policy.api_version, policy.kind));
        }
        match policy.rules.iter().position(|rule| rule.level.is_none()) {
            _ if policy.rules.is_empty() => Err("it has no rules".to_owned()),
            Some(index) => Err(format!("rules[{index}] has no level")),
            None => Ok(policy),
        }
    }

    /// The rule of a request; `None` if nothing is logged.
    pub(super) fn rule_for(&self, user: &User, request: &RequestInfo) -> Option<RequestAuditConfig> {
        let rule = self.rules.iter().find(|rule| rule.matches(user, request))?;
        let level = rule.level.filter(|level| *level > Level::None)?;
        let mut omitted = [false; 4];
        for stage in self.omit_stages.iter().chain(&rule.omit_stages) {
            omitted[*stage as usize] = true;
        }
        Some(RequestAuditConfig { level, omitted })
    }
}

impl PolicyRule {
    fn matches(&self, user: &User, request: &RequestInfo) -> bool {
        let has = |words: &[String], word: &str| words.is_empty() || words.iter().any(|it| it == word);
        let groups = &self.user_groups;
        has(&self.users, &user.name)
            && (groups.is_empty() || groups.iter().any(|group| user.is_in(group)))
            && has(&self.verbs, &request.verb)
            && self.is_about(request)
    }

    fn is_about(&self, request: &RequestInfo) -> bool {
        let Some(asked) = &request.resource else {
            let is_path = |url: &String| match url.strip_suffix('*') {
                Some(prefix) => request.path.starts_with(prefix),
                None => *url == request.path,
            };
            let urls = &self.non_resource_urls;
            let about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
            return match urls.is_empty() {
                true => !about_resources,
                false => urls.iter().any(is_path),
            };
        };
        let is_namespace = self.namespaces.is_empty() || self.namespaces.contains(&asked.namespace);
        let is_resource = |rule: &GroupResources| {
            let names = &rule.resource_names;
            rule.group == asked.group
                && (rule.resources.is_empty()
                    || rule.resources.iter().any(|word| matches_resource(word, asked)))
                && (names.is_empty() || names.contains(&asked.name))
        };
        match self.resources.is_empty() {
            true => self.non_resource_urls.is_empty() && is_namespace,
            false => is_namespace && self.resources.iter().any(is_resource),
        }
    }
}

/// Matches `pods`, `pods/status`, `pods/*`, `*/scale` and `*`.
fn matches_resource(word: &str, asked: &crate::request_info::ResourceInfo) -> bool {
    match word.split_once('/') {
        None if word == "*" => true,
        None => asked.subresource.is_empty() && word == asked.resource,
        Some((resource, subresource)) => {
            !asked.subresource.is_empty()
                && (resource == "*" || resource == asked.resource)
                && (subresource == "*" || subresource == asked.subresource)
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: [watch]
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: Metadata
  omitStages: [ResponseStarted]
  resources:
  - group: ""
    resources: [secrets, "pods/*"]
- level: RequestResponse
  namespaces: [payments]
- level: Request
  userGroups: [dev]
  resources:
  - group: apps
"#;

    fn check(name: &str, groups: &[&str], method: Method, uri: &str, expected: &str) {
        let policy = AuditPolicy::parse(POLICY.as_bytes()).unwrap();
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let user = User::authenticated(name, "", groups.iter().map(|it| (*it).to_owned()).collect());
        let rule = policy.rule_for(&user, &RequestInfo::read(&method, path, query));
        let printed = rule.map_or("None".to_owned(), |rule| {
            let omitted = [Stage::RequestReceived, Stage::ResponseStarted].map(|stage| rule.omits(stage));
            format!("{} {omitted:?}", rule.level.as_str())
        });
        assert_eq!(printed, expected, "{name} {uri}");
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let get = || Method::GET;
        check(
            "system:kube-proxy",
            &[],
            get(),
            "/api/v1/namespaces/payments/pods?watch=1",
            "None",
        );
        check("a", &[], get(), "/healthz/ping", "None");
        check(
            "a",
            &[],
            get(),
            "/api/v1/namespaces/payments/secrets/s",
            "Metadata [true, true]",
        );
        check(
            "a",
            &[],
            get(),
            "/api/v1/namespaces/b/pods/p/log",
            "Metadata [true, true]",
        );
        check(
            "a",
            &[],
            get(),
            "/api/v1/namespaces/payments/pods/p",
            "RequestResponse [true, false]",
        );
        check(
            "a",
            &["dev"],
            get(),
            "/apis/apps/v1/deployments",
            "Request [true, false]",
        );
        check("a", &[], get(), "/apis/apps/v1/deployments", "None");
        check("a", &["dev"], get(), "/api/v1/pods", "None");
    }

    #[test]
    fn invalid_policies_are_rejected() {
        let refused = |text: &str| AuditPolicy::parse(text.as_bytes()).unwrap_err();
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        assert_eq!(refused(&format!("{head}rules: []")), "it has no rules");
        assert_eq!(
            refused(&format!("{head}rules: [{{verbs: [get]}}]")),
            "rules[0] has no level"
        );
        assert!(refused(&format!("{head}rules: [{{level: Everything}}]")).contains("Everything"));
        assert!(
            refused(&format!(
                "{head}rules: [{{level: None, omitManagedFields: true}}]"
            ))
            .contains("omitManagedFields")
        );
    }
}
