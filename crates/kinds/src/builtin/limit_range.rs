//! LimitRange: bounds on the resources of a single pod, container or claim.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Value, json};
use watchkeeper_meta::validation::qualified_name;
use watchkeeper_wire::values::Quantity;

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::defaulting::items_mut;
use crate::rules::formats::quantity;
use crate::rules::place::{Errors, Place};
use crate::rules::resource_names::{can_be_shared, check_container_name, check_name};
use crate::table::Column;
use crate::{metadata, names};

/// The bounds that a limit sets per resource.
const BOUNDS: &[&str] = &["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
const TYPES: &[&str] = &["Pod", "Container", "PersistentVolumeClaim"];

/// The kind served as `limitranges`.
pub static KIND: Kind = Kind {
    group: "",
    name: "LimitRange",
    plural: "limitranges",
    creates_on_update: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[Column::NAME, Column::CREATED_AT];

const HOOKS: Hooks = Hooks {
    default: |range| {
        let Some(spec) = range.get_mut("spec") else {
            return;
        };
        for limit in items_mut(spec, "limits").filter(|limit| limit["type"] == "Container") {
            // Each bound defaults to a related one; the order matters.
            inherit(limit, "max", "default");
            inherit(limit, "default", "defaultRequest");
            inherit(limit, "min", "defaultRequest");
        }
    },
    // An object without a name gets a generated one.
    prepare_for_create: |range, _| {
        let metadata = metadata::of(range);
        if metadata.get("name").is_none_or(|name| name == "") {
            metadata.insert("name".to_owned(), json!(names::uid()));
        }
    },
    check: |range, errors| {
        let spec = range.field("spec");
        let mut seen = HashSet::new();
        for limit in spec.field("limits").items() {
            let kind = limit.field("type");
            check_type(&kind, errors);
            if !seen.insert(kind.text()) {
                errors.push(kind.duplicate());
            }
            check_limit(&limit, kind.text(), errors);
        }
    },
    ..PLAIN
};

fn inherit(limit: &mut Value, from: &str, to: &str) {
    let known = limit[from].as_object().cloned().unwrap_or_default();
    for (name, amount) in known {
        if !limit[to].is_object() {
            limit[to] = json!({});
        }
        if limit[to].get(&name).is_none() {
            limit[to][name] = amount;
        }
    }
}

fn check_type(kind: &Place<'_, '_>, errors: &mut Errors) {
    let reasons = qualified_name(kind.text());
    if reasons.is_empty() && !kind.text().contains('/') && !TYPES.contains(&kind.text()) {
        errors.push(kind.invalid("must be a standard limit type or fully qualified"));
    }
    errors.extend(reasons.into_iter().map(|why| kind.invalid_for(kind.text(), why)));
}

fn check_limit(limit: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let is_of_pods = kind == "Pod";
    let mut names = BTreeSet::new();
    for bound in BOUNDS {
        let amounts = limit.field(bound);
        if is_of_pods && bound.starts_with("default") {
            if amounts.len() > 0 {
                errors.push(amounts.forbidden("may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        if *bound == "maxLimitRequestRatio" {
            check_storage(limit, kind, errors);
        }
        for (name, amount) in amounts.entries() {
            match kind {
                "Pod" | "Container" => check_container_name(name, &amount, errors),
                _ => check_name(name, &amount, errors),
            }
            names.insert(name);
        }
    }
    for name in names {
        check_order(limit, name, errors);
        check_ratio(limit, name, errors);
        check_shared(limit, name, errors);
    }
}

fn check_storage(limit: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let is_bound = |bound: &str| limit.value()[bound].get("storage").is_some();
    if kind == "PersistentVolumeClaim" && !is_bound("min") && !is_bound("max") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(limit.field("limits").required(why));
    }
}

fn amount(limit: &Place<'_, '_>, bound: &str, name: &str) -> Option<Quantity> {
    let kind = limit.field("type").text();
    let counts = kind != "Pod" || !bound.starts_with("default");
    let amount = limit.value()[bound].get(name)?;
    counts.then(|| quantity(amount))
}

/// Two bounds that must be in order.
struct Order {
    low: &'static str,
    high: &'static str,
    /// Their names in errors.
    words: (&'static str, &'static str),
    /// The bound that the error names; the flag selects the lower one as the value shown.
    at: &'static str,
    shows_low: bool,
}

const ORDERS: &[Order] = &[
    Order {
        low: "min",
        high: "max",
        words: ("min", "max"),
        at: "min",
        shows_low: true,
    },
    Order {
        low: "min",
        high: "defaultRequest",
        words: ("min", "default request"),
        at: "defaultRequest",
        shows_low: false,
    },
    Order {
        low: "defaultRequest",
        high: "max",
        words: ("default request", "max"),
        at: "defaultRequest",
        shows_low: true,
    },
    Order {
        low: "defaultRequest",
        high: "default",
        words: ("default request", "default limit"),
        at: "defaultRequest",
        shows_low: true,
    },
    Order {
        low: "min",
        high: "default",
        words: ("min", "default"),
        at: "default",
        shows_low: true,
    },
    Order {
        low: "default",
        high: "max",
        words: ("default", "max"),
        at: "default",
        shows_low: false,
    },
];

fn check_order(limit: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    for order in ORDERS {
        let bounds = (amount(limit, order.low, name), amount(limit, order.high, name));
        let (Some(low), Some(high)) = bounds else {
            continue;
        };
        if low > high {
            let (lower, higher) = order.words;
            let why = format!("{lower} value {low} is greater than {higher} value {high}");
            let shown = if order.shows_low { low } else { high };
            refuse(limit, order.at, name, &shown, why, errors);
        }
    }
}

fn check_ratio(limit: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    let Some(ratio) = amount(limit, "maxLimitRequestRatio", name) else {
        return;
    };
    let mut refuse = |why: String| refuse(limit, "maxLimitRequestRatio", name, &ratio, why, errors);
    if ratio.to_f64() < 1.0 {
        refuse(format!("ratio {ratio} is less than 1"));
    }
    if let (Some(min), Some(max)) = (amount(limit, "min", name), amount(limit, "max", name)) {
        let most = max.to_f64() / min.to_f64();
        if ratio.to_f64() > most {
            refuse(format!("ratio {ratio} is greater than max/min = {most:.6}"));
        }
    }
}

/// Checks a resource that cannot be overcommitted: request and limit must be equal.
fn check_shared(limit: &Place<'_, '_>, name: &str, errors: &mut Errors) {
    let amounts = (
        amount(limit, "default", name),
        amount(limit, "defaultRequest", name),
    );
    let (Some(most), Some(asked)) = amounts else {
        return;
    };
    if !can_be_shared(name) && most != asked {
        let why = format!("default value {most} must equal to defaultRequest value {asked} in {name}");
        refuse(limit, "defaultRequest", name, &asked, why, errors);
    }
}

fn refuse(
    limit: &Place<'_, '_>,
    bound: &str,
    name: &str,
    shown: &Quantity,
    why: String,
    errors: &mut Errors,
) {
    let bound = limit.field(bound);
    let entry = bound.entry(name);
    errors.push(entry.invalid_for(shown.to_string(), why));
}
