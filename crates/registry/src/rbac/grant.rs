//! Giving rights away: nobody can give more than they have.
//!
//! Otherwise whoever may write roles may do everything. Two verbs lift the rule: `escalate` on the role that is
//! written, and `bind` on the role that is bound.

use serde_json::Value;
use watchkeeper_meta::{GroupResource, Status, quote};

use super::rule::quoted;
use super::{Action, GROUP, Rule};
use crate::user::MASTERS;
use crate::{Definition, Registry, User, WriteContext, metadata};

impl Registry {
    /// Refuses a role or a binding that gives its writer's friends more than the writer has.
    pub(crate) async fn check_grant(
        &self,
        definition: &Definition,
        live: Option<&Value>,
        object: &Value,
        context: &WriteContext,
    ) -> Result<(), Status> {
        let Some(user) = &context.requester else {
            return Ok(());
        };
        if definition.resource.group != GROUP
            || user.is_in(MASTERS)
            || live.is_some_and(|live| gives_the_same(live, object))
        {
            return Ok(());
        }
        let grant = Grant::read(definition, object);
        if self.may(user, grant.lifted()).await?.is_allowed() {
            return Ok(());
        }
        let refused = |why: String| {
            Status::forbidden(&definition.group_resource(), metadata::text(object, "name"), why)
        };
        let namespace = grant.namespace;
        if object["aggregationRule"].is_object()
            && !self.missing(user, namespace, &[everything()]).await?.is_empty()
        {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(refused(why.to_owned()));
        }
        let given = match grant.verb {
            BIND => self.rules_of_role(grant.kind, namespace, grant.role).await?,
            _ => rules_of(object),
        };
        match self.missing(user, namespace, &given).await?.as_slice() {
            [] => Ok(()),
            missing => Err(refused(format!(
                "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
                quote(&user.name),
                quoted(&user.groups),
                missing.join("\n")
            ))),
        }
    }

    /// What a user does not have of some rules, as texts.
    async fn missing(&self, user: &User, namespace: &str, rules: &[Rule]) -> Result<Vec<String>, Status> {
        let held = self.rules_of(user, namespace).await?.rules;
        let parts = rules.iter().flat_map(Rule::parts);
        let missing = parts.filter(|part| !held.iter().any(|rule| rule.covers(part)));
        let mut texts: Vec<String> = together(missing).iter().map(Rule::describe).collect();
        texts.sort();
        Ok(texts)
    }

    async fn rules_of_role(&self, kind: &str, namespace: &str, name: &str) -> Result<Vec<Rule>, Status> {
        let resource = GroupResource::new(GROUP, plural(kind));
        let known = self.definition(&watchkeeper_meta::GroupVersionResource::new(
            GROUP,
            "v1",
            plural(kind),
        ));
        let missing = || Status::not_found(&resource, name);
        let definition = known.ok_or_else(missing)?;
        let namespace = if definition.is_namespaced() { namespace } else { "" };
        let role = self
            .find(&definition, namespace, name)
            .await?
            .ok_or_else(missing)?;
        Ok(rules_of(&role.to_value(&definition)?))
    }
}

/// What lifts the rule for a binding, and for a role.
const BIND: &str = "bind";
const ESCALATE: &str = "escalate";

/// A role that is written, or one that is bound.
struct Grant<'a> {
    /// What its writer needs for more than they have.
    verb: &'static str,
    namespace: &'a str,
    /// The role's kind and name.
    kind: &'a str,
    role: &'a str,
}

impl<'a> Grant<'a> {
    fn read(definition: &'a Definition, object: &'a Value) -> Self {
        let reference = &object["roleRef"];
        let (verb, kind, role) = match reference.is_object() {
            true => (BIND, text(reference, "kind"), text(reference, "name")),
            false => (
                ESCALATE,
                &*definition.resource.kind,
                metadata::text(object, "name"),
            ),
        };
        Self {
            verb,
            namespace: metadata::text(object, "namespace"),
            kind,
            role,
        }
    }

    /// What one must be allowed to do to give more than one has.
    fn lifted(&self) -> Action<'a> {
        Action::Resource {
            verb: self.verb,
            group: GROUP,
            resource: plural(self.kind),
            subresource: "",
            namespace: self.namespace,
            name: self.role,
        }
    }
}

/// All that can be done to resources.
fn everything() -> Rule {
    let all = || vec!["*".to_owned()];
    Rule {
        verbs: all(),
        api_groups: all(),
        resources: all(),
        ..Rule::default()
    }
}

/// Whether a change leaves rights as they are.
fn gives_the_same(live: &Value, new: &Value) -> bool {
    ["rules", "aggregationRule", "roleRef", "subjects"]
        .iter()
        .all(|field| live[field] == new[field])
}

/// Parts that differ only in their verbs, as one rule each.
fn together(parts: impl Iterator<Item = Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for part in parts {
        let same = |rule: &&mut Rule| {
            rule.api_groups == part.api_groups
                && rule.resources == part.resources
                && rule.resource_names == part.resource_names
                && rule.non_resource_urls == part.non_resource_urls
        };
        match rules.iter_mut().find(same) {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => rules.push(part),
        }
    }
    rules
}

fn rules_of(role: &Value) -> Vec<Rule> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.map(Rule::read).collect()
}

fn plural(kind: &str) -> &'static str {
    if kind == "ClusterRole" {
        "clusterroles"
    } else {
        "roles"
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
