//! ClusterRole: RBAC rules for the whole cluster, possibly aggregated from other roles.

use watchkeeper_meta::validation::NameRule;

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::place::{Errors, Place};
use crate::rules::rbac::check_rules;
use crate::table::Column;

/// The kind served as `clusterroles`.
pub static KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    name: "ClusterRole",
    plural: "clusterroles",
    names: NameRule::PathSegment,
    creates_on_update: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[Column::NAME, Column::CREATED_AT];

const HOOKS: Hooks = Hooks {
    check: |role, errors| {
        check_rules(&role.field("rules"), false, errors);
        check_aggregation(&role.field("aggregationRule"), errors);
    },
    ..PLAIN
};

fn check_aggregation(rule: &Place<'_, '_>, errors: &mut Errors) {
    if !rule.is_set() {
        return;
    }
    let selectors = rule.field("clusterRoleSelectors");
    if selectors.len() == 0 {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(selectors.required(why));
    }
    for selector in selectors.items() {
        selector.must_select(errors);
    }
}
