//! Flow schemas: which requests belong to which priority level.

use serde_json::json;

use crate::kind::{BY_SCHEMA, Generation, Hooks, Kind};
use crate::rules::defaulting::fill_zero;
use crate::table::Column;
use crate::table::cells::{condition, or};

/// What is particular to `flowschemas`.
pub static KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    name: "FlowSchema",
    plural: "flowschemas",
    status_keeps_metadata: true,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("PriorityLevel", |row| row.text_or_none("/spec/priorityLevelConfiguration/name")),
    Column::text("MatchingPrecedence", |row| row.count("/spec/matchingPrecedence")),
    Column::text("DistinguisherMethod", |row| row.text_or_none("/spec/distinguisherMethod/type")),
    Column::AGE,
    Column::text("MissingPL", |row| json!(or(condition(row.object, "Dangling"), "?"))),
];

const HOOKS: Hooks = Hooks {
    default: |schema| fill_zero(&mut schema["spec"], "matchingPrecedence", 1000),
    ..BY_SCHEMA
};

