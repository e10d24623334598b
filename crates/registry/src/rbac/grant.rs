//! Giving rights away: nobody can give more than they have.
//!
//! Otherwise whoever may write roles may do everything. Two verbs lift the rule: `escalate` on the role that is
//! written, and `bind` on the role that is bound.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use watchkeeper_kinds::{Kind, builtin};
use watchkeeper_meta::{Status, quote};

use super::rule::{Object, quoted};
use super::{Action, Authorizer, GROUP, Rule};
use crate::context::WriteContext;
use crate::definition::Definition;
use crate::metadata;
use crate::user::MASTERS;

impl Authorizer<'_> {
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
        let held = self.rules_of(user, namespace).await?.rules;
        if object["aggregationRule"].is_object() && !held.iter().any(|rule| rule.covers_all_of(&everything()))
        {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(refused(why.to_owned()));
        }
        let given = match grant.verb {
            BIND => {
                let role = self.rules_of_role(definition, grant.kind, namespace, grant.role);
                role.await?
            }
            _ => rules_of(object),
        };
        let who = || format!("user {} (groups={})", quote(&user.name), quoted(&user.groups));
        match Missing::find(&held, &given) {
            Ok(missing) if missing.is_empty() => Ok(()),
            Ok(missing) => Err(refused(format!(
                "{} is attempting to grant RBAC permissions not currently held:\n{missing}",
                who()
            ))),
            Err(TooManyParts) => Err(refused(format!(
                "{} is attempting to grant more than {MAX_PARTS} RBAC permissions that are not covered by any one rule \
                 currently held; use several smaller roles",
                who()
            ))),
        }
    }

    /// The rules of the role that a binding is to. One that is not there is called by the resource of the binding, as in
    /// Kubernetes.
    async fn rules_of_role(
        &self,
        binding: &Definition,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<Rule>, Status> {
        let definition = self.reader.builtin(role_kind(kind))?;
        let missing = || Status::not_found(&binding.group_resource(), name);
        let namespace = if definition.is_namespaced() { namespace } else { "" };
        let role = self
            .reader
            .find(&definition, namespace, name)
            .await?
            .ok_or_else(missing)?;
        Ok(rules_of(&role.to_value(&definition)?))
    }
}

/// The most parts of rules that are compared one by one: 10,000. Kubernetes knows no such limit; its largest role,
/// `admin`, has some 2,000.
const MAX_PARTS: usize = 10_000;

/// The most text of rules that a refusal shows: 1 MiB. Short lists with long texts have long products.
const MAX_MISSING_BYTES: usize = 1 << 20;

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
            resource: role_kind(self.kind).plural,
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

/// What a user does not have of some rules: each object, with the verbs.
struct Missing<'a>(BTreeMap<Object<'a>, Vec<&'a str>>);

/// The rules have more than [`MAX_PARTS`].
struct TooManyParts;

impl<'a> Missing<'a> {
    /// Compares rules with those that are held: as a whole where one of these covers all of it, else part by part.
    fn find(held: &[Rule], given: &'a [Rule]) -> Result<Self, TooManyParts> {
        let is_covered = |given: &Rule| held.iter().any(|mine| mine.covers_all_of(given));
        let given: Vec<&Rule> = given.iter().filter(|given| !is_covered(given)).collect();
        let counts = given.iter().map(|rule| rule.part_count());
        if counts.fold(0, usize::saturating_add) > MAX_PARTS {
            return Err(TooManyParts);
        }
        let parts = given.iter().flat_map(|rule| rule.parts());
        let mut missing: BTreeMap<Object<'a>, Vec<&str>> = BTreeMap::new();
        for part in parts.filter(|part| !held.iter().any(|mine| mine.covers(*part))) {
            missing.entry(part.object).or_default().push(part.verb);
        }
        Ok(Self(missing))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Missing<'_> {
    /// A rule on each line, in order; those that would be too much text are counted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = 0;
        let fits = |(object, verbs): &(&Object<'_>, &Vec<&str>)| {
            bytes += object.size() + verbs.iter().map(|verb| verb.len()).sum::<usize>();
            bytes <= MAX_MISSING_BYTES
        };
        let told = self.0.iter().take_while(fits);
        let mut lines: Vec<String> = told
            .map(|(object, verbs)| object.to_rule(verbs).describe())
            .collect();
        lines.sort();
        let left_out = self.0.len() - lines.len();
        f.write_str(&lines.join("\n"))?;
        match left_out {
            0 => Ok(()),
            _ => write!(f, "\nand {left_out} more rules"),
        }
    }
}

fn rules_of(role: &Value) -> Vec<Rule> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.map(Rule::read).collect()
}

fn role_kind(name: &str) -> &'static Kind {
    match name == builtin::CLUSTER_ROLE.name {
        true => &builtin::CLUSTER_ROLE,
        false => &builtin::ROLE,
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(n: usize, prefix: &str) -> Value {
        (0..n).map(|index| json!(format!("{prefix}{index}"))).collect()
    }

    fn rule(verbs: Value, resources: Value, names: Value) -> Rule {
        Rule::read(
            &json!({"verbs": verbs, "apiGroups": [""], "resources": resources, "resourceNames": names}),
        )
    }

    fn check(held: &[Rule], given: Rule, expected: &str) {
        let found = match Missing::find(held, &[given]) {
            Ok(missing) => missing.to_string(),
            Err(TooManyParts) => "too many parts".to_owned(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn missing_permissions_are_told_by_object() {
        let held = [
            rule(json!(["get"]), json!(["pods"]), json!([])),
            rule(json!(["list"]), json!(["pods"]), json!(["a"])),
        ];
        check(
            &held,
            rule(json!(["get", "list"]), json!(["pods"]), json!(["a"])),
            "",
        );
        check(
            &held,
            rule(json!(["list", "watch"]), json!(["pods", "nodes"]), json!(["b"])),
            "{APIGroups:[\"\"], Resources:[\"nodes\"], ResourceNames:[\"b\"], Verbs:[\"list\" \"watch\"]}\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"b\"], Verbs:[\"list\" \"watch\"]}",
        );
    }

    #[test]
    fn a_rule_that_multiplies_is_covered_as_a_whole_or_refused() {
        let large = || rule(texts(1_000, "v"), texts(1_000, "r"), texts(1_000, "n"));
        let all = rule(json!(["*"]), json!(["*"]), json!([]));
        check(&[all], large(), "");
        check(&[], large(), "too many parts");
    }

    #[test]
    fn long_texts_are_not_repeated_without_end() {
        let verb = "v".repeat(MAX_MISSING_BYTES / 10);
        let given = [rule(json!([verb]), texts(1_000, "r"), json!([]))];
        let Ok(missing) = Missing::find(&[], &given) else {
            panic!("few parts");
        };
        let text = missing.to_string();
        assert!(text.len() < 2 * MAX_MISSING_BYTES, "{} bytes", text.len());
        assert!(text.ends_with("\nand 991 more rules"));
    }
}
