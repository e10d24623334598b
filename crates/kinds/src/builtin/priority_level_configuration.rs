//! Priority levels: how many requests of a kind run at once.

use serde_json::{Value, json};

use crate::kind::{BY_SCHEMA, Generation, Hooks, Kind};
use crate::rules::defaulting::{fill_empty, fill_zero};
use crate::table::Column;
use crate::table::cells::NONE;

/// What is particular to `prioritylevelconfigurations`.
pub static KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    name: "PriorityLevelConfiguration",
    plural: "prioritylevelconfigurations",
    status_keeps_metadata: true,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Type", |row| json!(row.text("/spec/type"))),
    Column::text("NominalConcurrencyShares", |row| number_or_none(row.at("/spec/limited/nominalConcurrencyShares"))),
    Column::text("Queues", |row| number_or_none(row.at("/spec/limited/limitResponse/queuing/queues"))),
    Column::text("HandSize", |row| number_or_none(row.at("/spec/limited/limitResponse/queuing/handSize"))),
    Column::text("QueueLengthLimit", |row| number_or_none(row.at("/spec/limited/limitResponse/queuing/queueLengthLimit"))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |level| fill_priority_level(&mut level["spec"]),
    ..BY_SCHEMA
};

fn fill_priority_level(spec: &mut Value) {
    if let Some(limited) = spec.get_mut("limited").filter(|limited| limited.is_object()) {
        fill_empty(limited, "nominalConcurrencyShares", 30);
        fill_empty(limited, "lendablePercent", 0);
        if let Some(queuing) = limited.pointer_mut("/limitResponse/queuing") {
            fill_zero(queuing, "handSize", 8);
            fill_zero(queuing, "queues", 64);
            fill_zero(queuing, "queueLengthLimit", 50);
        }
    }
    if let Some(exempt) = spec.get_mut("exempt").filter(|exempt| exempt.is_object()) {
        fill_empty(exempt, "nominalConcurrencyShares", 0);
        fill_empty(exempt, "lendablePercent", 0);
    }
}

fn number_or_none(number: &Value) -> Value {
    match number {
        Value::Number(number) => Value::Number(number.clone()),
        _ => json!(NONE),
    }
}
