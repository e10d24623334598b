//! Role: RBAC rules for a namespace.

use watchkeeper_meta::validation::NameRule;

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::rbac::check_rules;
use crate::table::Column;

/// The kind served as `roles`.
pub static KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    name: "Role",
    plural: "roles",
    names: NameRule::PathSegment,
    creates_on_update: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[Column::NAME, Column::CREATED_AT];

const HOOKS: Hooks = Hooks {
    check: |role, errors| check_rules(&role.field("rules"), true, errors),
    ..PLAIN
};
