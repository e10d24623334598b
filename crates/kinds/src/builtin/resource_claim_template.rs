//! Templates of resource claims.

use crate::kind::{BY_SCHEMA, Hooks, Kind};
use crate::rules::device_claims::fill_claim;
use crate::table::Column;

/// What is particular to `resourceclaimtemplates`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "ResourceClaimTemplate",
    plural: "resourceclaimtemplates",
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |template| fill_claim(&mut template["spec"]["spec"]),
    ..BY_SCHEMA
};

