//! PriorityClass: names a scheduling priority.

use serde_json::{Value, json};

use crate::kind::{Hooks, Kind, PLAIN};
use crate::metadata;
use crate::rules::defaulting::fill;
use crate::rules::place::{Errors, Place};
use crate::table::Column;

/// The highest user-defined priority. Higher values are reserved for system classes.
const MAX_VALUE: i64 = 1_000_000_000;
const RESERVED_PREFIX: &str = "system-";
/// The system classes that every cluster starts with.
const SYSTEM: &[(&str, i64, &str)] = &[
    (
        "system-node-critical",
        2_000_001_000,
        "Pods without which their node cannot work.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Pods without which the cluster cannot work, on whichever node.",
    ),
];
const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];

/// The kind served as `priorityclasses`.
pub static KIND: Kind = Kind {
    group: "scheduling.k8s.io",
    name: "PriorityClass",
    plural: "priorityclasses",
    undeletable: |name| {
        is_system_class(name).then_some("this is a system priority class and cannot be deleted")
    },
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Value", |row| row.count("/value")),
    Column::boolean("Global-Default", |row| row.is("/globalDefault")),
    Column::AGE,
    Column::text("PreemptionPolicy", |row| {
        row.text_or("/preemptionPolicy", "PreemptLowerPriority")
    }),
];

const HOOKS: Hooks = Hooks {
    default: |class| fill(class, "preemptionPolicy", "PreemptLowerPriority"),
    prepare_for_create: |class, _| {
        // The value is immutable, so the generation never changes.
        metadata::of(class).insert("generation".to_owned(), json!(1));
    },
    check_new: check,
    check_change: |change, errors| {
        let value = change.new.field("value");
        if value.number() != change.live.field("value").number() {
            errors.push(value.forbidden("may not be changed in an update."));
        }
        let policy = change.new.field("preemptionPolicy");
        policy.must_stay(&change.live.field("preemptionPolicy"), errors);
    },
    ..PLAIN
};

/// True for the name of a system class.
fn is_system_class(name: &str) -> bool {
    SYSTEM.iter().any(|(known, ..)| *known == name)
}

/// The system classes as objects.
pub fn system_classes() -> impl Iterator<Item = Value> {
    SYSTEM.iter().map(|(name, value, description)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        })
    })
}

fn check(class: &Place<'_, '_>, errors: &mut Errors) {
    let metadata = class.field("metadata");
    let (name, value) = (metadata.field("name"), class.field("value"));
    if name.text().starts_with(RESERVED_PREFIX) {
        if let Some(why) = misused(class, name.text()) {
            errors.push(name.forbidden(format!(
                "priority class names with '{RESERVED_PREFIX}' prefix are reserved for system use only. error: {why}"
            )));
        }
    } else if value.number() > MAX_VALUE {
        errors.push(value.forbidden(format!(
            "maximum allowed value of a user defined priority is {MAX_VALUE}"
        )));
    }
    class
        .field("preemptionPolicy")
        .must_be_one_of(PREEMPTION_POLICIES, errors);
}

fn misused(class: &Place<'_, '_>, name: &str) -> Option<String> {
    let Some((_, wanted, _)) = SYSTEM.iter().find(|(known, ..)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if class.field("value").number() != *wanted {
        return Some(format!("value of {name} PriorityClass must be {wanted}"));
    }
    let is_default = class.field("globalDefault").is_true();
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}
