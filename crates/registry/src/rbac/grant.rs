//! Privilege escalation prevention: nobody can grant more than they have.
//!
//! Otherwise permission to write roles would be permission to do everything. Two verbs lift the restriction:
//! `escalate` on the written role, and `bind` on the bound role.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use watchkeeper_kinds::{Kind, builtin};
use watchkeeper_meta::{Status, quote};

use super::rule::{PermissionTarget, quoted};
use super::{Attributes, Authorizer, GROUP, Rule};
use crate::context::WriteContext;
use crate::definition::Definition;
use crate::metadata;
use crate::user::MASTERS;

impl Authorizer<'_> {
    /// Rejects a role or binding that grants more than its writer has.
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
        if !is_grant(definition)
            || user.is_in(MASTERS)
            || live.is_some_and(|live| is_for_collection(live, object))
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
        let given = match grant.verb {
            BIND => {
                let role = self.rules_of_role(definition, grant.kind, namespace, grant.role);
                role.await?
            }
            _ => rules_of(object),
        };
        let who = || format!("user {} (groups={})", quote(&user.name), quoted(&user.groups));
        let is_held = |wanted: &Rule| held.iter().any(|rule| rule.covers_all_of(wanted));
        let aggregates = is_aggregated(object) || live.is_some_and(is_aggregated);
        match Missing::find(&held, &given) {
            Ok(missing) if missing.is_empty() && aggregates && !everything().iter().all(is_held) => {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                Err(refused(why.to_owned()))
            }
            Ok(missing) if missing.is_empty() => Ok(()),
            Ok(missing) => Err(refused(format!(
                "{} is attempting to grant RBAC permissions not currently held:\n{missing}",
                who()
            ))),
            Err(TooMany::Parts) => Err(refused(format!(
                "{} is attempting to grant more than {MAX_PARTS} RBAC permissions that are not covered by any one rule \
                 currently held; use several smaller roles",
                who()
            ))),
            Err(TooMany::Comparisons) => Err(refused(format!(
                "{} is attempting to grant more RBAC permissions than can be compared with the {} rules currently held; \
                 use several smaller roles",
                who(),
                held.len()
            ))),
        }
    }

    /// The rules of a binding's role. The error for a missing role names the binding's resource, as in Kubernetes.
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

/// The limit on rule parts that are compared one by one. Kubernetes has no such limit; its largest role, `admin`, has
/// about 2,000 parts.
const MAX_PARTS: usize = 10_000;

/// The limit on compared texts. One who may create roles and bindings in a namespace can hold any number of rules.
const MAX_COMPARISONS: usize = 100_000_000;

/// The limit on the rules listed in an error. Short lists of long texts have long products.
const MAX_MISSING_BYTES: usize = 1 << 20;

/// The verbs that lift the restriction for a binding and for a role.
const BIND: &str = "bind";
const ESCALATE: &str = "escalate";

/// A written role, or the role of a written binding.
struct Grant<'a> {
    /// The verb that allows the writer to grant more.
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

    /// The action that allows the writer to grant more.
    fn lifted(&self) -> Attributes<'a> {
        Attributes::Resource {
            verb: self.verb,
            group: GROUP,
            resource: role_kind(self.kind).plural,
            subresource: "",
            namespace: self.namespace,
            name: self.role,
        }
    }
}

/// The rules that allow everything.
fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    let resources = Rule {
        verbs: all(),
        api_groups: all(),
        resources: all(),
        ..Rule::default()
    };
    let paths = Rule {
        verbs: all(),
        non_resource_urls: all(),
        ..Rule::default()
    };
    [resources, paths]
}

/// True for roles and bindings.
pub(crate) fn is_grant(definition: &Definition) -> bool {
    definition.resource.group == GROUP
}

/// True if a role gets rules from others.
fn is_aggregated(role: &Value) -> bool {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

/// True if a change concerns only what the garbage collector writes. Any other writer confirms the whole grant.
fn is_for_collection(live: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut rest = object.clone();
        if let Some(metadata) = rest["metadata"].as_object_mut() {
            metadata
                .retain(|name, _| !matches!(&**name, "finalizers" | "ownerReferences" | "resourceVersion"));
        }
        rest
    };
    rest(live) == rest(new)
}

/// The missing permissions of a user: each object with its verbs.
struct Missing<'a>(BTreeMap<PermissionTarget<'a>, Vec<&'a str>>);

/// Why rules are not compared.
enum TooMany {
    /// They have more than [`MAX_PARTS`] parts.
    Parts,
    /// It would take more than [`MAX_COMPARISONS`].
    Comparisons,
}

fn text_count(rules: &[Rule]) -> usize {
    rules.iter().map(Rule::text_count).sum()
}

impl<'a> Missing<'a> {
    /// Compares rules with those a user holds: as a whole if one of them covers it, else part by part.
    fn find(held: &[Rule], given: &'a [Rule]) -> Result<Self, TooMany> {
        let held_texts = text_count(held);
        if text_count(given).saturating_mul(held_texts) > MAX_COMPARISONS {
            return Err(TooMany::Comparisons);
        }
        let is_covered = |given: &Rule| held.iter().any(|mine| mine.covers_all_of(given));
        let given: Vec<&Rule> = given.iter().filter(|given| !is_covered(given)).collect();
        let counts = given.iter().map(|rule| rule.part_count());
        let count = counts.fold(0, usize::saturating_add);
        if count > MAX_PARTS {
            return Err(TooMany::Parts);
        }
        if count.saturating_mul(held_texts) > MAX_COMPARISONS {
            return Err(TooMany::Comparisons);
        }
        let parts = given.iter().flat_map(|rule| rule.parts());
        let mut missing: BTreeMap<PermissionTarget<'a>, Vec<&str>> = BTreeMap::new();
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
    /// One rule per line, in order; those beyond the limit are counted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = 0;
        let fits = |(object, verbs): &(&PermissionTarget<'_>, &Vec<&str>)| {
            bytes += object.size() + verbs.iter().map(|verb| verb.len()).sum::<usize>();
            bytes <= MAX_MISSING_BYTES
        };
        let listed = self.0.iter().take_while(fits);
        let mut lines: Vec<String> = listed
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
            Err(TooMany::Parts) => "too many parts".to_owned(),
            Err(TooMany::Comparisons) => "too many comparisons".to_owned(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn missing_permissions_are_listed_by_object() {
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
    fn a_large_rule_is_covered_as_a_whole_or_rejected() {
        let large = || rule(texts(1_000, "v"), texts(1_000, "r"), texts(1_000, "n"));
        let all = rule(json!(["*"]), json!(["*"]), json!([]));
        check(&[all], large(), "");
        check(&[], large(), "too many parts");
    }

    #[test]
    fn many_rules_are_compared_with_few_and_few_with_many() {
        let held = |n: usize| -> Vec<Rule> {
            let held = |index| rule(json!(["get"]), json!([format!("r{index}")]), json!([]));
            (0..n).map(held).collect()
        };
        let check = |mine: usize, given: usize, expected: &str| {
            let (mine, given) = (held(mine), held(given));
            let found = match Missing::find(&mine, &given) {
                Ok(missing) => missing.0.len().to_string(),
                Err(TooMany::Parts) => "too many parts".to_owned(),
                Err(TooMany::Comparisons) => "too many comparisons".to_owned(),
            };
            assert_eq!(found, expected);
        };
        check(1_000, 1_000, "0");
        check(10, 9_000, "8990");
        check(100_000, 10, "0");
        check(10_000, 10_000, "too many comparisons");
    }

    #[test]
    fn the_listed_rules_are_limited() {
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
