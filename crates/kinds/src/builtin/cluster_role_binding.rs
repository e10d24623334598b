//! ClusterRoleBinding: grants a role in the whole cluster.

use watchkeeper_meta::validation::NameRule;

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::rbac::{BINDING_COLUMNS, check_binding, check_same_role, default_binding};

/// The kind served as `clusterrolebindings`.
pub static KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    name: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    names: NameRule::PathSegment,
    creates_on_update: true,
    columns: BINDING_COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const HOOKS: Hooks = Hooks {
    default: default_binding,
    check: |binding, errors| check_binding(binding, &["ClusterRole"], errors),
    check_change: check_same_role,
    ..PLAIN
};
