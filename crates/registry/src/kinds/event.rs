//! Events, in both versions. Core events without an exact time are checked as leniently as they ever were.

use watchkeeper_meta::validation::{dns1123_subdomain, qualified_name};

use super::place::{Faults, Place};
use super::{Change, Hooks, PLAIN};

const MAX_TEXT: usize = 128;
const MAX_NOTE: usize = 1024;

pub(super) const CORE: Hooks = Hooks {
    check: |event, faults| check_leniently(event, &CORE_NAMES, faults),
    ..PLAIN
};

pub(super) const EVENTS: Hooks = Hooks {
    check: |event, faults| check_leniently(event, &EVENTS_NAMES, faults),
    check_new: check_strictly,
    check_change,
    ..PLAIN
};

/// Where a version keeps what both have.
struct Names {
    object: &'static str,
    note: &'static str,
    controller: &'static str,
}

const CORE_NAMES: Names = Names {
    object: "involvedObject",
    note: "message",
    controller: "reportingComponent",
};
const EVENTS_NAMES: Names = Names {
    object: "regarding",
    note: "note",
    controller: "reportingController",
};

/// What does not change after the first write, and the name faults call it by.
const FROZEN: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

fn check_leniently(event: &Place<'_, '_>, names: &Names, faults: &mut Faults) {
    let metadata = event.field("metadata");
    let namespace = metadata.field("namespace").text();
    let has_time = event.field("eventTime").is_set();
    let about = event.field(names.object);
    let agrees = match (has_time, about.field("namespace").text()) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, about) => about == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !agrees {
        let place = about.known_as("involvedObject");
        let place = place.field("namespace");
        faults.push(place.invalid_for(place.text(), "does not match event.namespace"));
    }
    if has_time {
        check_exactly(event, names, faults);
    }
    let place = event.field("namespace");
    let reasons = dns1123_subdomain(namespace).into_iter();
    faults.extend(reasons.map(|why| place.invalid_for(namespace, why)));
}

/// An event with an exact time says who reports what.
fn check_exactly(event: &Place<'_, '_>, names: &Names, faults: &mut Faults) {
    let controller = event.field(names.controller).known_as("reportingController");
    controller.must_be_set(faults);
    let reasons = qualified_name(controller.text()).into_iter();
    faults.extend(reasons.map(|why| controller.invalid_for(controller.text(), why)));
    for name in ["reportingInstance", "action", "reason"] {
        let field = event.field(name);
        field.must_be_set(faults);
        check_length(&field, MAX_TEXT, faults);
    }
    let note = event.field(names.note).known_as("message");
    check_length(&note, MAX_NOTE, faults);
}

fn check_length(text: &Place<'_, '_>, max: usize, faults: &mut Faults) {
    if text.text().len() > max {
        faults.push(text.invalid_for("", format!("can have at most {max} characters")));
    }
}

/// What a new event of the newer version must say, and what it leaves to the older.
fn check_strictly(event: &Place<'_, '_>, faults: &mut Faults) {
    check_series(event, faults);
    let time = event.field("eventTime");
    if !time.is_set() {
        faults.push(time.required(""));
    }
    let kind = event.field("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        faults.push(kind.invalid_for("", format!("has invalid value: {}", kind.text())));
    }
    for (name, core_name) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        let field = event.field(name);
        let is_empty = field.value().as_object().is_some_and(serde_json::Map::is_empty);
        if field.is_set() && !is_empty && field.value() != 0 {
            let field = field.known_as(core_name);
            faults.push(field.invalid_for("", "needs to be unset"));
        }
    }
}

fn check_series(event: &Place<'_, '_>, faults: &mut Faults) {
    let series = event.field("series");
    if !series.is_set() {
        return;
    }
    if series.field("count").number() < 2 {
        faults.push(series.field("count").invalid_for("", "should be at least 2"));
    }
    let seen = series.field("lastObservedTime");
    if !seen.is_set() {
        faults.push(seen.required(""));
    }
}

fn check_change(change: &Change<'_>, faults: &mut Faults) {
    let (new, live) = (&change.new, &change.live);
    if new.field("series").value() != live.field("series").value() {
        check_series(new, faults);
    }
    for (name, core_name) in FROZEN {
        let (field, before) = (new.field(name).known_as(core_name), live.field(name));
        field.must_stay(&before, faults);
    }
}
