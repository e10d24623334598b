//! The PodSecurity plugin. The labels of a namespace select a policy to enforce, one to audit and one to warn of: a level
//! and the version of Kubernetes that defines it.
//!
//! Pods are refused; workloads only cause warnings and audit annotations. A namespace whose new policy its pods violate
//! is told so.

mod checks;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use watchkeeper_kinds::{Part, builtin};
use watchkeeper_meta::{ListOptions, Status, quote};

use self::checks::{Subject, Violation, violations};
use crate::context::WriteContext;
use crate::definition::Definition;
use crate::{Registry, metadata};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The pods of a namespace that a new policy is checked against.
const MAX_PODS: usize = 3000;

/// A level of the pod security standards. Each includes the restrictions of the one below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// No restrictions.
    Privileged,
    /// Prevents known privilege escalations.
    Baseline,
    /// Follows hardening best practices.
    Restricted,
}

impl Level {
    fn read(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }
}

/// The version of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    /// `v1.N`
    Minor(u32),
    Latest,
}

impl Version {
    /// The version of a label; the latest, which is the strictest, if it cannot be read.
    fn read(text: &str) -> Self {
        let minor = text.strip_prefix("v1.").and_then(|minor| minor.parse().ok());
        minor.map_or(Self::Latest, Self::Minor)
    }
}

/// A level in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy {
    level: Level,
    version: Version,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
            Version::Latest => write!(f, "{level}:latest"),
        }
    }
}

/// The policies of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policies {
    enforce: Policy,
    audit: Policy,
    warn: Policy,
}

impl Policies {
    /// Reads the labels of a namespace. An unknown level is enforced as the strictest, and neither audited nor warned of.
    fn of(namespace: &Value) -> Self {
        let label = |key: &str| namespace["metadata"]["labels"][format!("{PREFIX}{key}")].as_str();
        let policy = |level: &str, version: &str, unknown| Policy {
            level: label(level).map_or(Level::Privileged, |text| Level::read(text).unwrap_or(unknown)),
            version: label(version).map_or(Version::Latest, Version::read),
        };
        let enforce = policy("enforce", "enforce-version", Level::Restricted);
        let audit = policy("audit", "audit-version", Level::Privileged);
        let mut warn = policy("warn", "warn-version", Level::Privileged);
        if label("warn").is_none() {
            warn.level = enforce.level;
            if label("warn-version").is_none() {
                warn.version = enforce.version;
            }
        }
        Self { enforce, audit, warn }
    }
}

impl Registry {
    /// Checks a pod: the reason to refuse it, if any. Adds warnings and audit annotations.
    pub(super) async fn check_pod_security(
        &self,
        namespace: &str,
        pod: &Value,
        context: &WriteContext,
    ) -> Result<Option<String>, Status> {
        let Some(found) = self.find_namespace(namespace).await? else {
            return Ok(None);
        };
        let policies = Policies::of(&found);
        annotate(context, "enforce-policy", || policies.enforce.to_string());
        let subject = Subject::new(&pod["metadata"], &pod["spec"]);
        let refused = violated(policies.enforce, &subject).map(|what| format!("violates {what}"));
        tell(policies, &subject, refused.is_none(), context);
        Ok(refused)
    }

    /// Checks an update of a pod, unless it changes nothing that a policy could refuse.
    pub(super) async fn check_pod_security_of_update(
        &self,
        definition: &Definition,
        live: &Value,
        pod: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        if !is_significant(live, pod) {
            return Ok(());
        }
        let namespace = metadata::text(pod, "namespace");
        match self.check_pod_security(namespace, pod, context).await? {
            Some(why) => {
                let name = metadata::text(pod, "name");
                Err(Status::forbidden(&definition.group_resource(), name, why))
            }
            None => Ok(()),
        }
    }

    /// Adds the warnings and audit annotations of a workload. It is never refused for them; its pods are.
    pub(super) async fn check_template_security(
        &self,
        definition: &Definition,
        namespace: &str,
        object: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        if let Some(template) = definition.template(object)
            && let Some(found) = self.find_namespace(namespace).await?
        {
            let subject = Subject::new(&template["metadata"], &template["spec"]);
            tell(Policies::of(&found), &subject, true, context);
        }
        Ok(())
    }

    /// Warns of pods that violate the new policy of their namespace. They keep running.
    pub(super) async fn warn_of_violating_pods(
        &self,
        live: &Value,
        namespace: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let (old, new) = (Policies::of(live).enforce, Policies::of(namespace).enforce);
        let is_relaxed = new.version == old.version && new.level <= old.level;
        if is_relaxed || new.level == Level::Privileged {
            return Ok(());
        }
        let pods = self.builtin(&builtin::POD)?;
        let name = metadata::text(namespace, "name");
        let list = self.list(&pods, name, &ListOptions::default()).await?;
        let total = list.objects().count();
        // The pods of each list of violations: the first by name, and their number.
        let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for pod in list.objects().take(MAX_PODS) {
            let pod = pod.to_value(&pods)?;
            let subject = Subject::new(&pod["metadata"], &pod["spec"]);
            let reasons: Vec<&str> = violations(new, &subject).iter().map(|it| it.reason).collect();
            if !reasons.is_empty() {
                let name = metadata::text(&pod, "name");
                let known = found.entry(reasons.join(", "));
                let (first, count) = known.or_insert_with(|| (name.to_owned(), 0));
                if name < &**first {
                    name.clone_into(first);
                }
                *count += 1;
            }
        }
        if total > MAX_PODS {
            context.warnings.add(format!(
                "new PodSecurity enforce level only checked against the first {MAX_PODS} of {total} existing pods"
            ));
        }
        if !found.is_empty() {
            let (name, policy) = (quote(name), quote(&new.to_string()));
            context.warnings.add(format!(
                "existing pods in namespace {name} violate the new PodSecurity enforce level {policy}"
            ));
        }
        let mut lines: Vec<String> = found.into_iter().map(violating).collect();
        lines.sort();
        lines.into_iter().for_each(|line| context.warnings.add(line));
        Ok(())
    }
}

/// `web-1 (and 2 other pods): host namespaces`
fn violating((reasons, (first, count)): (String, (String, usize))) -> String {
    match count {
        1 => format!("{first}: {reasons}"),
        2 => format!("{first} (and 1 other pod): {reasons}"),
        count => format!("{first} (and {} other pods): {reasons}", count - 1),
    }
}

/// Adds the audit annotation and, if the request is not refused anyway, the warning.
fn tell(policies: Policies, subject: &Subject<'_>, may_warn: bool, context: &WriteContext) {
    if context.audit.is_some()
        && let Some(what) = violated(policies.audit, subject)
    {
        annotate(context, "audit-violations", || format!("would violate {what}"));
    }
    if may_warn && let Some(what) = violated(policies.warn, subject) {
        context.warnings.add(format!("would violate {what}"));
    }
}

fn annotate(context: &WriteContext, key: &str, value: impl FnOnce() -> String) {
    context.annotate(|| format!("{PREFIX}{key}"), value);
}

/// The violations of a policy, with their details.
fn violated(policy: Policy, subject: &Subject<'_>) -> Option<String> {
    let found = violations(policy, subject);
    let texts: Vec<String> = found.iter().map(Violation::to_string).collect();
    let policy = quote(&policy.to_string());
    (!texts.is_empty()).then(|| format!("PodSecurity {policy}: {}", texts.join(", ")))
}

/// True if an update changes images, the containers, or seccomp annotations: the only such fields of a pod that can
/// change.
fn is_significant(live: &Value, pod: &Value) -> bool {
    let annotations = |pod: &Value| {
        let all = pod["metadata"]["annotations"].as_object().into_iter().flatten();
        let seccomp = all.filter(|(key, _)| checks::is_seccomp_annotation(key));
        seccomp
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    let images = |pod: &Value, list: &str| {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        let images = containers.map(|container| [container["name"].clone(), container["image"].clone()]);
        images.collect::<Vec<_>>()
    };
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    annotations(live) != annotations(pod) || lists.iter().any(|list| images(live, list) != images(pod, list))
}

/// True for the parts of a pod that a policy checks.
pub(super) fn concerns(part: Part) -> bool {
    matches!(part, Part::Object | Part::EphemeralContainers | Part::Resize)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policies(labels: &[(&str, &str)]) -> [String; 3] {
        let labels: BTreeMap<String, &str> = labels
            .iter()
            .map(|(key, value)| (format!("{PREFIX}{key}"), *value))
            .collect();
        let found = Policies::of(&json!({"metadata": {"labels": labels}}));
        [found.enforce, found.audit, found.warn].map(|policy| policy.to_string())
    }

    #[test]
    fn what_is_enforced_is_warned_of_unless_a_label_says_otherwise() {
        let none = "privileged:latest";
        assert_eq!(policies(&[]), [none; 3]);
        let enforce = [("enforce", "baseline"), ("enforce-version", "v1.20")];
        assert_eq!(policies(&enforce), ["baseline:v1.20", none, "baseline:v1.20"]);
        let version = [
            ("enforce", "baseline"),
            ("warn-version", "v1.9"),
            ("audit", "restricted"),
        ];
        assert_eq!(
            policies(&version),
            ["baseline:latest", "restricted:latest", "baseline:v1.9"]
        );
        let own = [("enforce", "restricted"), ("warn", "privileged")];
        assert_eq!(policies(&own), ["restricted:latest", none, none]);
    }

    #[test]
    fn an_unknown_level_is_enforced_as_the_strictest() {
        let unknown = [
            ("enforce", "x"),
            ("audit", "x"),
            ("warn", "x"),
            ("enforce-version", "x"),
        ];
        assert_eq!(
            policies(&unknown),
            ["restricted:latest", "privileged:latest", "privileged:latest"]
        );
    }
}
