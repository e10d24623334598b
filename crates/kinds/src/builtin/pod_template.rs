//! PodTemplate: a template as an object of its own.

use serde_json::json;

use crate::builtin::pod;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::place::Place;
use crate::rules::workloads::default_template;
use crate::rules::workloads::template_rules::check_template;
use crate::table::Column;
use crate::table::cells::{containers, label_pairs};

/// The kind served as `podtemplates`.
pub static KIND: Kind = Kind {
    group: "",
    name: "PodTemplate",
    plural: "podtemplates",
    generation: Generation::Spec,
    delete_returns_object: true,
    columns: COLUMNS,
    pod_spec: Some("/template/spec"),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Containers", |row| {
        json!(containers(row.object, "/template/spec", "name"))
    }),
    Column::text("Images", |row| {
        json!(containers(row.object, "/template/spec", "image"))
    }),
    Column::text("Pod Labels", |row| {
        json!(label_pairs(row.at("/template/metadata/labels")))
    }),
];

const HOOKS: Hooks = Hooks {
    default: default_template,
    check: |template, errors| check_template(&template.field("template"), errors),
    warn: |template, live, warnings| {
        if live.is_none_or(|live| live["template"] != template["template"]) {
            pod::warn_template(&Place::object(template).field("template"), warnings);
        }
    },
    ..PLAIN
};
