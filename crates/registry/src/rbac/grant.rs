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
        let namespace = metadata::text(object, "namespace");
        let name = metadata::text(object, "name");
        let refused = |why: String| Status::forbidden(&definition.group_resource(), name, why);
        let is_binding = object["roleRef"].is_object();
        let (right, role) = match is_binding {
            true => ("bind", &object["roleRef"]),
            false => ("escalate", object),
        };
        let (kind, role_name) = match is_binding {
            true => (text(role, "kind"), text(role, "name")),
            false => (&*definition.resource.kind, name),
        };
        let lifted = Action::Resource {
            verb: right,
            group: GROUP,
            resource: plural(kind),
            subresource: "",
            namespace,
            name: role_name,
        };
        if self.may(user, lifted).await?.is_allowed() {
            return Ok(());
        }
        if object["aggregationRule"].is_object() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            let everything = Rule {
                verbs: vec!["*".to_owned()],
                api_groups: vec!["*".to_owned()],
                resources: vec!["*".to_owned()],
                ..Rule::default()
            };
            if !self.missing(user, namespace, &[everything]).await?.is_empty() {
                return Err(refused(why.to_owned()));
            }
        }
        let given = match is_binding {
            true => self.rules_of_role(kind, namespace, role_name).await?,
            false => rules_of(object),
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
