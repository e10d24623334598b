//! Validation of a job's pod failure policy and success policy.

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_meta::validation::qualified_name;

use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];
const MAX_RULES: usize = 20;
const MAX_PATTERNS: usize = 20;
const MAX_EXIT_CODES: usize = 255;
/// The longest `succeededIndexes`, in bytes.
const MAX_INDEXES: usize = 64 * 1024;

/// Checks `podFailurePolicy`.
pub(crate) fn check_failure_policy(spec: &Place<'_, '_>, errors: &mut Errors) {
    let policy = spec.field("podFailurePolicy");
    let rules = policy.field("rules");
    if rules.len() > MAX_RULES {
        errors.push(rules.too_many(MAX_RULES));
    }
    let containers = container_names(spec);
    let retries_indexes = spec.field("backoffLimitPerIndex").is_set();
    for rule in rules.items() {
        let action = rule.field("action");
        match action.text() {
            "FailIndex" if !retries_indexes => {
                errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
            }
            _ => check_word(&action, ACTIONS, errors),
        }
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        if codes.is_set() {
            check_exit_codes(&codes, &containers, errors);
        }
        check_conditions(&conditions, errors);
        match (codes.is_set(), conditions.len() > 0) {
            (true, true) => errors.push(
                rule.invalid_unshown("specifying both OnExitCodes and OnPodConditions is not supported"),
            ),
            (false, false) => errors
                .push(rule.invalid_unshown("specifying one of OnExitCodes and OnPodConditions is required")),
            _ => {}
        }
    }
}

/// Checks an enum value. The error for a missing one lists the valid values.
fn check_word(word: &Place<'_, '_>, known: &[&str], errors: &mut Errors) {
    match word.text() {
        "" => {
            let quoted: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
            errors.push(word.required(&format!("valid values: [{}]", quoted.join(" "))));
        }
        _ => word.is_one_of(known, errors),
    }
}

fn container_names<'v>(spec: &Place<'v, '_>) -> HashSet<&'v str> {
    let pod = &spec.value()["template"]["spec"];
    let lists = ["containers", "initContainers"].map(|list| pod[list].as_array());
    let containers = lists.into_iter().flatten().flatten();
    containers
        .filter_map(|container| container["name"].as_str())
        .collect()
}

fn check_conditions(conditions: &Place<'_, '_>, errors: &mut Errors) {
    if conditions.len() > MAX_PATTERNS {
        errors.push(conditions.too_many(MAX_PATTERNS));
    }
    for pattern in conditions.items() {
        let kind = pattern.field("type");
        let reasons = qualified_name(kind.text()).into_iter();
        errors.extend(reasons.map(|why| kind.invalid_for(kind.text(), why)));
        check_word(&pattern.field("status"), STATUSES, errors);
    }
}

fn check_exit_codes(codes: &Place<'_, '_>, containers: &HashSet<&str>, errors: &mut Errors) {
    let (operator, container) = (codes.field("operator"), codes.field("containerName"));
    check_word(&operator, OPERATORS, errors);
    if container.is_set() && !containers.contains(container.text()) {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(container.invalid(why));
    }
    let values = codes.field("values");
    match values.len() {
        0 => errors.push(values.invalid("at least one value is required")),
        count if count > MAX_EXIT_CODES => errors.push(values.too_many(MAX_EXIT_CODES)),
        _ => {}
    }
    let mut seen = HashSet::new();
    for value in values.items() {
        if operator.text() == "In" && value.number() == 0 {
            errors.push(value.invalid("must not be 0 for the In operator"));
        }
        if !seen.insert(value.number()) {
            errors.push(value.duplicate());
        }
    }
    let numbers: Vec<i64> = values.items().map(|value| value.number()).collect();
    if !numbers.is_sorted() {
        errors.push(values.invalid("must be ordered"));
    }
}

/// Checks `successPolicy`.
pub(crate) fn check_success_policy(spec: &Place<'_, '_>, errors: &mut Errors) {
    let policy = spec.field("successPolicy");
    if !policy.is_set() {
        return;
    }
    if spec.field("completionMode").text() != "Indexed" {
        let shown = go_structs::structure("SuccessPolicy", policy.value());
        errors.push(policy.invalid_in_go(shown, "requires indexed completion mode"));
        return;
    }
    let rules = policy.field("rules");
    if rules.len() == 0 {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(rules.required(why));
    }
    if rules.len() > MAX_RULES {
        errors.push(rules.too_many(MAX_RULES));
    }
    let completions = spec.field("completions").number();
    rules
        .items()
        .for_each(|rule| check_success_rule(&rule, completions, errors));
}

fn check_success_rule(rule: &Place<'_, '_>, completions: i64, errors: &mut Errors) {
    let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
    if !count.is_set() && !indexes.is_set() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(rule.required(why));
    }
    if indexes.text().len() > MAX_INDEXES {
        errors.push(indexes.too_long(MAX_INDEXES));
    }
    let listed = match count_indexes(indexes.text(), completions) {
        Ok(listed) => listed,
        Err(why) => {
            errors.push(indexes.invalid(format!("error parsing succeededIndexes: {why}")));
            0
        }
    };
    count.must_not_be_negative(errors);
    let most = "must be less than or equal to";
    if count.number() > completions {
        let why = format!("{most} {completions} (the number of specified completions)");
        errors.push(count.invalid(why));
    }
    if count.value() != &Value::Null && indexes.is_set() && count.number() > listed {
        let why = format!("{most} {listed} (the number of indexes in the specified succeededIndexes field)");
        errors.push(count.invalid(why));
    }
}

/// Counts the indexes in a list such as `1,3-5,7`.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let number = |text: &str| match text.parse::<i64>() {
            Ok(number) if number < completions => Ok(number),
            Ok(_) => Err(format!(
                "too large index: \"{text}\" in the interval: \"{interval}\" given the number of completions: \
                 {completions}"
            )),
            Err(_) => Err(format!(
                "cannot convert string to integer for index: \"{text}\" in the interval: \"{interval}\""
            )),
        };
        let (first, end) = match interval.split('-').collect::<Vec<_>>().as_slice() {
            [only] => (number(only)?, number(only)?),
            [first, end] => (number(first)?, number(end)?),
            parts => {
                let count = parts.len();
                return Err(format!(
                    "the fragment \"{interval}\" violates the requirement that an index interval can have at most two \
                     parts separated by '-', found {count} parts"
                ));
            }
        };
        if first > end {
            return Err(format!("non-increasing order, previous: {first}, current: {end}"));
        }
        if let Some(last) = last
            && last >= first
        {
            return Err(format!(
                "non-increasing order, previous: {last}, current: {first}"
            ));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}
