//! Cluster role bindings: who has a role everywhere.

use serde_json::json;
use watchkeeper_meta::validation::NameRule;

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::rbac::{check_binding, check_same_role, default_binding};
use crate::table::Column;
use crate::table::cells::subjects;

/// What is particular to `clusterrolebindings`.
pub static KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    name: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    names: NameRule::PathSegment,
    creates_on_update: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role", |row| json!(format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name")))),
    Column::AGE,
    Column::text("Users", |row| json!(subjects(row.object, "User"))).wide(),
    Column::text("Groups", |row| json!(subjects(row.object, "Group"))).wide(),
    Column::text("ServiceAccounts", |row| json!(subjects(row.object, "ServiceAccount"))).wide(),
];

const HOOKS: Hooks = Hooks {
    default: default_binding,
    check: |binding, faults| check_binding(binding, &["ClusterRole"], faults),
    check_change: check_same_role,
    ..PLAIN
};

