//! The compiled roles and bindings.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::quote;

use super::{Attributes, Decision, Rule};
use crate::{User, metadata};

/// The stored roles and bindings.
pub(super) struct Stored<'a> {
    pub(super) roles: &'a [Value],
    pub(super) cluster_roles: &'a [Value],
    pub(super) role_bindings: &'a [Value],
    pub(super) cluster_role_bindings: &'a [Value],
}

/// The rules of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules, those of cluster bindings first.
    pub rules: Vec<Rule>,
    /// Bound roles that do not exist.
    pub missing: Vec<String>,
}

/// All grants.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    cluster: Vec<Grant>,
    namespaces: HashMap<String, Vec<Grant>>,
}

/// A binding and the rules of its role.
#[derive(Debug)]
struct Grant {
    /// `RoleBinding "readers/default" of Role "reader"`.
    binding: String,
    subjects: Vec<Subject>,
    /// The rules, or the error of a missing role.
    rules: Result<Arc<[Rule]>, String>,
}

#[derive(Debug)]
enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

/// Roles by namespace, which is empty for cluster roles, and name.
type Roles<'a> = HashMap<(&'a str, &'a str), Arc<[Rule]>>;

impl Bindings {
    pub(super) fn read(stored: &Stored<'_>) -> Self {
        let roles: Roles<'_> = stored
            .roles
            .iter()
            .chain(stored.cluster_roles)
            .map(read_role)
            .collect();
        let mut bindings = Self::default();
        for binding in stored.cluster_role_bindings {
            bindings.cluster.push(Grant::read(binding, &roles));
        }
        for binding in stored.role_bindings {
            let namespace = metadata::text(binding, "namespace").to_owned();
            let grants = bindings.namespaces.entry(namespace).or_default();
            grants.push(Grant::read(binding, &roles));
        }
        bindings
    }

    /// Decides whether a user may perform an action: the first matching rule allows it.
    pub(super) fn decide(&self, user: &User, action: Attributes<'_>) -> Decision {
        let namespace = match action {
            Attributes::Resource { namespace, .. } => namespace,
            Attributes::Path { .. } => "",
        };
        let mut missing = Vec::new();
        for (grant, subject) in self.grants(user, namespace) {
            match &grant.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(action)) => {
                    let binding = &grant.binding;
                    return Decision::Allowed(format!(
                        "RBAC: allowed by {binding} to {}",
                        subject.describe()
                    ));
                }
                Ok(_) => {}
                Err(role) => missing.push(role.as_str()),
            }
        }
        Decision::Refused(match missing.as_slice() {
            [] => String::new(),
            [role] => format!("RBAC: {role}"),
            roles => format!("RBAC: [{}]", roles.join(", ")),
        })
    }

    /// All rules of a user in a namespace.
    pub(super) fn rules_of(&self, user: &User, namespace: &str) -> Rules {
        let mut found = Rules::default();
        for (grant, _) in self.grants(user, namespace) {
            match &grant.rules {
                Ok(rules) => found.rules.extend_from_slice(rules),
                Err(role) => found.missing.push(role.clone()),
            }
        }
        found
    }

    /// The bindings of a user, with the matching subject.
    fn grants<'a>(&'a self, user: &User, namespace: &str) -> impl Iterator<Item = (&'a Grant, &'a Subject)> {
        let here = self.namespaces.get(namespace).into_iter().flatten();
        self.cluster.iter().chain(here).filter_map(|grant| {
            let subject = grant.subjects.iter().find(|subject| subject.is(user))?;
            Some((grant, subject))
        })
    }
}

fn read_role(role: &Value) -> ((&str, &str), Arc<[Rule]>) {
    let rules = role["rules"].as_array().into_iter().flatten().map(Rule::read);
    let key = (metadata::text(role, "namespace"), metadata::text(role, "name"));
    (key, rules.collect())
}

impl Grant {
    fn read(binding: &Value, roles: &Roles<'_>) -> Self {
        let namespace = metadata::text(binding, "namespace");
        let name = metadata::text(binding, "name");
        let reference = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
        let (kind, role) = (reference("kind"), reference("name"));
        let role_namespace = if kind == builtin::ROLE.name { namespace } else { "" };
        let rules = roles.get(&(role_namespace, role)).cloned();
        let bound = match namespace {
            "" => format!("ClusterRoleBinding {}", quote(name)),
            namespace => format!("RoleBinding {}", quote(&format!("{name}/{namespace}"))),
        };
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        Self {
            binding: format!("{bound} of {kind} {}", quote(role)),
            subjects: subjects
                .filter_map(|subject| Subject::read(subject, namespace))
                .collect(),
            rules: rules.ok_or_else(|| missing_role(kind, role)),
        }
    }
}

/// Kubernetes' text for a missing role.
pub(super) fn missing_role(kind: &str, name: &str) -> String {
    format!(
        "{}.{} {} not found",
        kind.to_lowercase(),
        super::GROUP,
        quote(name)
    )
}

impl Subject {
    /// Reads a subject of a binding. A service account without a namespace is in the binding's.
    fn read(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let text = |field: &str| subject[field].as_str().unwrap_or_default();
        let name = text("name").to_owned();
        Some(match text("kind") {
            "User" => Self::User(name),
            "Group" => Self::Group(name),
            "ServiceAccount" => Self::ServiceAccount {
                namespace: match text("namespace") {
                    "" => binding_namespace.to_owned(),
                    namespace => namespace.to_owned(),
                },
                name,
            },
            _ => return None,
        })
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Self::User(name) => *name == user.name,
            Self::Group(name) => user.is_in(name),
            Self::ServiceAccount { namespace, name } => {
                user.service_account() == Some((namespace.as_str(), name.as_str()))
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::User(name) => format!("User {}", quote(name)),
            Self::Group(name) => format!("Group {}", quote(name)),
            Self::ServiceAccount { namespace, name } => {
                format!("ServiceAccount {}", quote(&format!("{name}/{namespace}")))
            }
        }
    }
}
