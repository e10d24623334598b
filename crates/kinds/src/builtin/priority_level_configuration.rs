//! PriorityLevelConfiguration: the concurrency limit and queues of a priority level.

use serde_json::{Value, json};

use crate::Part;
use crate::builtin::flow_schema::suggested::AUTO_UPDATE;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill_empty, fill_zero};
use crate::rules::flow_control::check_status;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::NONE;

/// The priority level without limits.
const EXEMPT: &str = "exempt";
const TYPES: &[&str] = &["Exempt", "Limited"];
const RESPONSES: &[&str] = &["Queue", "Reject"];
const MAX_QUEUES: i64 = 10_000_000;
/// The upper bound on the entropy that shuffle sharding needs, in bits of a hash.
const MAX_HASH_BITS: f64 = 60.0;

/// The kind served as `prioritylevelconfigurations`.
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
    Column::text("NominalConcurrencyShares", |row| {
        number_or_none(row.at("/spec/limited/nominalConcurrencyShares"))
    }),
    Column::text("Queues", |row| {
        number_or_none(row.at("/spec/limited/limitResponse/queuing/queues"))
    }),
    Column::text("HandSize", |row| {
        number_or_none(row.at("/spec/limited/limitResponse/queuing/handSize"))
    }),
    Column::text("QueueLengthLimit", |row| {
        number_or_none(row.at("/spec/limited/limitResponse/queuing/queueLengthLimit"))
    }),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |level| fill_priority_level(&mut level["spec"]),
    check: |level, errors| {
        let metadata = level.field("metadata");
        check(&level.field("spec"), metadata.field("name").text(), errors);
    },
    check_change: |change, errors| {
        if change.part == Part::Status {
            check_status(&change.new.field("status"), errors);
        }
    },
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    let [kind, limited, exempt] = ["type", "limited", "exempt"].map(|name| spec.field(name));
    if (name == EXEMPT) != (kind.text() == "Exempt") {
        let why = "type must be 'Exempt' if and only if name is 'exempt'";
        errors.push(kind.invalid_for(kind.text(), why));
    }
    if !kind.text().is_empty() {
        kind.is_one_of(TYPES, errors);
    }
    match kind.text() {
        "Exempt" => check_shares(&exempt, errors),
        "Limited" if limited.is_set() => check_limited(&limited, errors),
        _ => {}
    }
    check_union(&kind, &[("Limited", &limited), ("Exempt", &exempt)], errors);
    if kind.text() == "Limited" && !limited.is_set() {
        errors.push(limited.required(""));
    }
    kind.must_be_set(errors);
}

/// Rejects fields that belong to another type.
fn check_union(kind: &Place<'_, '_>, members: &[(&str, &Place<'_, '_>)], errors: &mut Errors) {
    let others = members.iter().filter(|(name, _)| *name != kind.text());
    let unwanted = others.filter(|(_, member)| member.is_set());
    errors.extend(unwanted.map(|(_, member)| member.forbidden("")));
}

fn check_shares(level: &Place<'_, '_>, errors: &mut Errors) {
    let (shares, lendable) = (
        level.field("nominalConcurrencyShares"),
        level.field("lendablePercent"),
    );
    if shares.number() < 0 {
        errors.push(shares.invalid("must be a non-negative integer"));
    }
    if !(0..=100).contains(&lendable.number()) {
        errors.push(lendable.invalid("must be between 0 and 100, inclusive"));
    }
}

fn check_limited(limited: &Place<'_, '_>, errors: &mut Errors) {
    check_shares(limited, errors);
    let borrowed = limited.field("borrowingLimitPercent");
    if borrowed.number() < 0 {
        errors.push(borrowed.invalid("if specified, must be a non-negative integer"));
    }
    let response = limited.field("limitResponse");
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    if !kind.text().is_empty() {
        kind.is_one_of(RESPONSES, errors);
    }
    check_union(&kind, &[("Queue", &queuing)], errors);
    match (kind.text(), queuing.is_set()) {
        ("Queue", true) => check_queuing(&queuing, errors),
        ("Queue", false) => errors.push(queuing.required("")),
        _ => kind.must_be_set(errors),
    }
}

fn check_queuing(queuing: &Place<'_, '_>, errors: &mut Errors) {
    let [limit, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|name| queuing.field(name));
    if limit.number() <= 0 {
        errors.push(limit.invalid("must be positive"));
    }
    if queues.number() <= 0 {
        errors.push(queues.invalid("must be positive"));
    } else if queues.number() > MAX_QUEUES {
        errors.push(queues.invalid(format!("must not be greater than {MAX_QUEUES}")));
    }
    let (deck, dealt) = (queues.number(), hand.number());
    if dealt <= 0 {
        errors.push(hand.invalid("must be positive"));
    } else if dealt > deck {
        errors.push(hand.invalid(format!("should not be greater than queues ({deck})")));
    } else if hash_bits(deck, dealt) > MAX_HASH_BITS {
        errors.push(hand.invalid(format!(
            "required entropy bits of deckSize {deck} and handSize {dealt} should not be greater than {MAX_HASH_BITS}"
        )));
    }
}

/// The bits needed to deal that many cards from a deck.
fn hash_bits(deck: i64, hand: i64) -> f64 {
    let choices = (0..hand).map(|dealt| ((deck - dealt) as f64).log2());
    // The exact number beyond the limit does not matter.
    choices.take(MAX_HASH_BITS as usize + 1).sum::<f64>().ceil()
}

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

/// A suggested level: name, nominal shares, lendable percentage, and queues.
type Suggested = (&'static str, i64, i64, Option<Queues>);

/// Number of queues, hand size, and queue length limit.
type Queues = (i64, i64, i64);

const SUGGESTED: &[Suggested] = &[
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6, 50))),
    ("leader-election", 10, 0, Some((16, 4, 50))),
    ("node-high", 40, 25, Some((64, 6, 50))),
    ("system", 30, 33, Some((64, 6, 50))),
    ("workload-high", 40, 50, Some((128, 6, 50))),
    ("workload-low", 100, 90, Some((128, 6, 50))),
];

/// The priority levels that every cluster starts with.
pub fn suggested_priority_levels() -> impl Iterator<Item = Value> {
    let level = |name: &str, spec: Value| {
        json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "PriorityLevelConfiguration",
            "metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}},
            "spec": spec,
        })
    };
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let limited = SUGGESTED.iter().map(move |(name, shares, lent, queues)| {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some((queues, hand, length)) => json!({
                "type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length},
            }),
        };
        let limited =
            json!({"nominalConcurrencyShares": shares, "lendablePercent": lent, "limitResponse": response});
        level(name, json!({"type": "Limited", "limited": limited}))
    });
    std::iter::once(level("exempt", exempt)).chain(limited)
}
