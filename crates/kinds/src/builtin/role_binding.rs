//! RoleBinding: grants a role in a namespace.

use watchkeeper_meta::validation::NameRule;

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::rbac::{BINDING_COLUMNS, check_binding, check_same_role, default_binding};

/// The kind served as `rolebindings`.
pub static KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    name: "RoleBinding",
    plural: "rolebindings",
    names: NameRule::PathSegment,
    creates_on_update: true,
    columns: BINDING_COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const HOOKS: Hooks = Hooks {
    default: default_binding,
    check: |binding, errors| check_binding(binding, &["Role", "ClusterRole"], errors),
    check_change: check_same_role,
    ..PLAIN
};
