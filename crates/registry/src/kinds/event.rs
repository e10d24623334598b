//! Events, in both versions. Core events without an exact time are checked as leniently as they ever were.

use serde_json::Value;
use watchkeeper_meta::validation::{dns1123_subdomain, qualified_name};
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{immutable, required, text};
use super::formats::each;
use super::{Hooks, PLAIN};
use crate::metadata;

const MAX_TEXT: usize = 128;
const MAX_NOTE: usize = 1024;

pub(super) const CORE: Hooks = Hooks {
    faults: |event| lenient_faults(event, &CORE_NAMES),
    ..PLAIN
};

pub(super) const EVENTS: Hooks = Hooks {
    faults: |event| {
        let mut faults = lenient_faults(event, &EVENTS_NAMES);
        faults.extend(strict_faults(event));
        faults
    },
    update_faults: |_, event, live| {
        let mut faults = Vec::new();
        for (name, core_name) in FROZEN {
            immutable(&mut faults, &FieldPath::new(core_name), &event[name], &live[name]);
        }
        faults
    },
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
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

fn lenient_faults(event: &Value, names: &Names) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let namespace = metadata::text(event, "namespace");
    let about = text(&event[names.object], "/namespace");
    let agrees = match (event["eventTime"].is_null(), about) {
        (true, "") => matches!(namespace, "" | "default"),
        (true, about) => about == namespace,
        (false, "") => matches!(namespace, "default" | "kube-system"),
        (false, _) => true,
    };
    if !agrees {
        let path = FieldPath::new("involvedObject").child("namespace");
        each(&mut faults, &path, about, ["does not match event.namespace"]);
    }
    if !event["eventTime"].is_null() {
        exact_faults(event, names, &mut faults);
    }
    each(
        &mut faults,
        &FieldPath::new("namespace"),
        namespace,
        dns1123_subdomain(namespace),
    );
    faults
}

/// An event with an exact time says who reports what.
fn exact_faults(event: &Value, names: &Names, faults: &mut Vec<FieldError>) {
    let field = |name: &str| text(event, &format!("/{name}"));
    let controller = field(names.controller);
    let path = FieldPath::new(names.controller);
    required(faults, &path, controller);
    each(faults, &path, controller, qualified_name(controller));
    for name in ["reportingInstance", "action", "reason"] {
        required(faults, &FieldPath::new(name), field(name));
        at_most(faults, name, field(name), MAX_TEXT);
    }
    at_most(faults, "message", field(names.note), MAX_NOTE);
}

fn at_most(faults: &mut Vec<FieldError>, name: &str, value: &str, max: usize) {
    if value.len() > max {
        let why = format!("can have at most {max} characters");
        faults.push(FieldError::invalid(&FieldPath::new(name), "", why));
    }
}

fn strict_faults(event: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    if event["eventTime"].is_null() {
        faults.push(FieldError::required(&FieldPath::new("eventTime"), ""));
    }
    let kind = text(event, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        let why = format!("has invalid value: {kind}");
        faults.push(FieldError::invalid(&FieldPath::new("type"), "", why));
    }
    let is_set = |name: &str| match &event[name] {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        value => value.as_i64() != Some(0),
    };
    for (name, core_name) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        if is_set(name) {
            each(&mut faults, &FieldPath::new(core_name), "", ["needs to be unset"]);
        }
    }
    faults
}
