//! ResourceQuota: limits on the total resources of a namespace.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::Part;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::place::{Errors, Place};
use crate::rules::resource_names::{check_amount, check_quota_name, is_for_quota, is_measured_of_pods};
use crate::table::Column;
use crate::table::cells::{or, plain};

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Scopes that exclude each other.
const OPPOSITES: &[(&str, &str)] = &[("BestEffort", "NotBestEffort"), ("NotTerminating", "Terminating")];

/// The kind served as `resourcequotas`.
pub static KIND: Kind = Kind {
    group: "",
    name: "ResourceQuota",
    plural: "resourcequotas",
    delete_returns_object: true,
    columns: COLUMNS,
    counted_by_plural: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Request", |row| {
        json!(shown_limits(row.object, |name| !name.starts_with("limits")))
    }),
    Column::text("Limit", |row| {
        json!(shown_limits(row.object, |name| name.starts_with("limits")))
    }),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: |quota, errors| {
        let spec = quota.field("spec");
        check_amounts(&spec.field("hard"), errors);
        check_scopes(&spec, errors);
        check_selector(&spec, errors);
    },
    check_change: |change, errors| match change.part {
        Part::Status => {
            let status = change.new.field("status");
            check_amounts(&status.field("hard"), errors);
            check_amounts(&status.field("used"), errors);
        }
        _ => {
            let (new, live) = (change.new.field("spec"), change.live.field("spec"));
            check_same(&new, &live, errors);
        }
    },
    ..PLAIN
};

fn check_amounts(amounts: &Place<'_, '_>, errors: &mut Errors) {
    for (name, amount) in amounts.entries() {
        check_quota_name(name, &amount, errors);
        check_amount(name, &amount, errors);
    }
}

/// True if a scope applies to a resource.
fn means(scope: &str, name: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => name == "pods" || is_measured_of_pods(name),
        _ => true,
    }
}

/// Counts, per scope, the limited resources that the scope does not apply to. Each scope is computed once.
struct NotMeant<'v> {
    hard: Vec<&'v str>,
    counts: HashMap<&'v str, usize>,
}

impl<'v> NotMeant<'v> {
    fn new(spec: &Place<'v, '_>) -> Self {
        let hard = spec.field("hard").value().as_object().into_iter().flatten();
        let names = hard.map(|(name, _)| name.as_str());
        Self {
            hard: names.filter(|name| is_for_quota(name)).collect(),
            counts: HashMap::new(),
        }
    }

    fn by(&mut self, scope: &'v str) -> usize {
        // An unknown scope applies to everything.
        if !SCOPES.contains(&scope) {
            return 0;
        }
        let count = || self.hard.iter().filter(|name| !means(scope, name)).count();
        *self.counts.entry(scope).or_insert_with(count)
    }
}

fn check_scopes(spec: &Place<'_, '_>, errors: &mut Errors) {
    let scopes = spec.field("scopes");
    let stated: Vec<&str> = scopes.texts().collect();
    let mut not_meant = NotMeant::new(spec);
    // Each of these errors shows the whole list.
    for scope in &stated {
        if !SCOPES.contains(scope) {
            errors.push_with(|| scopes.invalid("unsupported scope"));
        }
        let why = "unsupported scope applied to resource";
        errors.push_times(not_meant.by(scope), || scopes.invalid(why));
    }
    check_opposites(&stated, &scopes, errors);
}

/// Rejects scopes that exclude each other. Errors show `scopes`, even if the selector has them.
fn check_opposites(stated: &[&str], scopes: &Place<'_, '_>, errors: &mut Errors) {
    for (one, other) in OPPOSITES {
        if stated.contains(one) && stated.contains(other) {
            errors.push(scopes.invalid("conflicting scopes"));
        }
    }
}

/// Checks the scope selector. As in Kubernetes, errors name the list, not the expression.
fn check_selector(spec: &Place<'_, '_>, errors: &mut Errors) {
    let selector = spec.field("scopeSelector");
    let expressions = selector.field("matchExpressions");
    let (mut stated, mut not_meant) = (Vec::new(), NotMeant::new(spec));
    for expression in expressions.items() {
        let list = expressions.with_value(expression.value());
        let (scope, operator) = (list.field("scopeName"), list.field("operator"));
        let values = list.field("values");
        if !SCOPES.contains(&scope.text()) {
            errors.push(scope.invalid("unsupported scope"));
        }
        let why = "unsupported scope applied to resource";
        errors.push_times(not_meant.by(scope.text()), || {
            expressions.invalid_for(selector.value().clone(), why)
        });
        let is_plain = !matches!(scope.text(), "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope.text()) && is_plain && operator.text() != "Exists" {
            errors.push(operator.invalid(
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                 ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                 ResourceQuotaScopeCrossNamespacePodAffinity",
            ));
        }
        match (operator.text(), values.len()) {
            ("In" | "NotIn", 0) => errors.push(values.required(
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            ("Exists" | "DoesNotExist", 1..) => {
                errors.push(values.invalid(
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
                ))
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            _ => errors.push(operator.invalid("not a valid selector operator")),
        }
        stated.push(scope.text());
    }
    let scopes = expressions.with_value(spec.field("scopes").value());
    check_opposites(&stated, &scopes, errors);
}

fn check_same(spec: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let sorted = |spec: &Place<'_, '_>| {
        let mut scopes: Vec<String> = spec.field("scopes").texts().map(str::to_owned).collect();
        scopes.sort();
        scopes
    };
    let scopes = spec.field("scopes");
    if sorted(spec) != sorted(live) {
        errors.push(scopes.invalid("field is immutable"));
    }
}

fn shown_limits(quota: &Value, wanted: impl Fn(&str) -> bool) -> String {
    let hard = quota["status"]["hard"].as_object().into_iter().flatten();
    let shown = hard.filter(|(name, _)| wanted(name)).map(|(name, limit)| {
        let used = or(plain(&quota["status"]["used"][name]), "0");
        format!("{name}: {used}/{}", plain(limit))
    });
    shown.collect::<Vec<_>>().join(", ")
}
