//! Event, in both versions. Core events without `eventTime` get the lenient validation of older releases.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{FinalizerRule, NameRule, dns1123_subdomain, qualified_name};
use watchkeeper_meta::{Time, go_json};

use crate::conversion::Conversion;
use crate::fields::Selectable;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::go_structs::structure;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{either, or, text_at};
use crate::table::human::age;

/// One hour, as in Kubernetes.
pub(crate) const TTL: Duration = Duration::from_secs(3600);

const MAX_TEXT: usize = 128;
const MAX_NOTE: usize = 1024;

/// The kind served as `events`.
pub static KIND: Kind = Kind {
    group: "",
    name: "Event",
    plural: "events",
    finalizers: FinalizerRule::AnyQualifiedName,
    names: NameRule::PathSegment,
    ttl: Some(TTL),
    conversion: Some(&CONVERSION),
    creates_on_update: true,
    garbage_collected: false,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    quota_exempt: true,
    uncached: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

pub(crate) const COLUMNS: &[Column] = &[
    Column::text("Last Seen", |row| json!(last_seen(row.object, row.now))),
    Column::text("Type", |row| json!(row.text("/type"))),
    Column::text("Reason", |row| json!(row.text("/reason"))),
    Column::text("Object", |row| json!(event_object(row.object))),
    Column::text("Subobject", |row| json!(row.text("/involvedObject/fieldPath"))).wide(),
    Column::text("Source", |row| json!(event_source(row.object))).wide(),
    Column::text("Message", |row| json!(row.text("/message").trim())),
    Column::text("First Seen", |row| json!(first_seen(row.object, row.now))).wide(),
    Column::text("Count", |row| json!(count(row.object))).wide(),
    Column::NAME.wide(),
];

const SELECTABLE: &[Selectable] = &[
    Selectable::at("involvedObject.kind", &["/involvedObject/kind"]),
    Selectable::at("involvedObject.namespace", &["/involvedObject/namespace"]),
    Selectable::at("involvedObject.name", &["/involvedObject/name"]),
    Selectable::at("involvedObject.uid", &["/involvedObject/uid"]),
    Selectable::at("involvedObject.apiVersion", &["/involvedObject/apiVersion"]),
    Selectable::at(
        "involvedObject.resourceVersion",
        &["/involvedObject/resourceVersion"],
    ),
    Selectable::at("involvedObject.fieldPath", &["/involvedObject/fieldPath"]),
    Selectable::at("reason", &["/reason"]),
    Selectable::at("reportingComponent", &["/reportingComponent"]),
    Selectable::at("source", &["/source/component", "/reportingComponent"]),
    Selectable::at("type", &["/type"]),
];

const HOOKS: Hooks = Hooks {
    check: |event, errors| check_leniently(event, &CORE_NAMES, errors),
    ..PLAIN
};

/// The field names of a version.
pub(crate) struct Names {
    object: &'static str,
    note: &'static str,
    controller: &'static str,
}

const CORE_NAMES: Names = Names {
    object: "involvedObject",
    note: "message",
    controller: "reportingComponent",
};
pub(crate) const EVENTS_NAMES: Names = Names {
    object: "regarding",
    note: "note",
    controller: "reportingController",
};

/// The form in which errors show an immutable field.
#[derive(Clone, Copy)]
enum Shown {
    /// A string; empty if not set.
    Text,
    /// A number; zero if not set.
    Number,
    /// As JSON.
    Json,
    /// A Go struct.
    Struct(&'static str),
    /// A Go struct, or null if not set.
    Pointer(&'static str),
}

/// The immutable fields: the path, the name errors use, and the form in which they show the value.
const FROZEN: &[(&str, &str, Shown)] = &[
    ("regarding", "involvedObject", Shown::Struct("ObjectReference")),
    ("reason", "reason", Shown::Text),
    ("note", "message", Shown::Text),
    ("deprecatedSource", "source", Shown::Struct("EventSource")),
    ("deprecatedFirstTimestamp", "firstTimestamp", Shown::Json),
    ("deprecatedLastTimestamp", "lastTimestamp", Shown::Json),
    ("deprecatedCount", "count", Shown::Number),
    ("type", "type", Shown::Text),
    ("eventTime", "eventTime", Shown::Json),
    ("action", "action", Shown::Text),
    ("related", "related", Shown::Pointer("ObjectReference")),
    ("reportingController", "reportingController", Shown::Text),
    ("reportingInstance", "reportingInstance", Shown::Text),
];

pub(crate) fn check_leniently(event: &Place<'_, '_>, names: &Names, errors: &mut Errors) {
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
        errors.push(place.invalid_for(place.text(), "does not match event.namespace"));
    }
    if has_time {
        check_exactly(event, names, errors);
    }
    let place = event.field("namespace");
    let reasons = dns1123_subdomain(namespace).into_iter();
    errors.extend(reasons.map(|why| place.invalid_for(namespace, why)));
}

/// Checks an event that has an `eventTime`: reporter, action and reason are required.
fn check_exactly(event: &Place<'_, '_>, names: &Names, errors: &mut Errors) {
    let controller = event.field(names.controller).known_as("reportingController");
    controller.must_be_set(errors);
    let reasons = qualified_name(controller.text()).into_iter();
    errors.extend(reasons.map(|why| controller.invalid_for(controller.text(), why)));
    for name in ["reportingInstance", "action", "reason"] {
        let field = event.field(name);
        field.must_be_set(errors);
        check_length(&field, MAX_TEXT, errors);
    }
    let note = event.field(names.note).known_as("message");
    check_length(&note, MAX_NOTE, errors);
}

fn check_length(text: &Place<'_, '_>, max: usize, errors: &mut Errors) {
    if text.text().len() > max {
        errors.push(text.invalid_for("", format!("can have at most {max} characters")));
    }
}

/// Checks a new `events.k8s.io/v1` event: the new fields are required, and the deprecated ones must be unset.
pub(crate) fn check_strictly(event: &Place<'_, '_>, errors: &mut Errors) {
    check_series(event, errors);
    let time = event.field("eventTime");
    if !time.is_set() {
        errors.push(time.required(""));
    }
    let kind = event.field("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        errors.push(kind.invalid_for("", format!("has invalid value: {}", kind.text())));
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
            errors.push(field.invalid_for("", "needs to be unset"));
        }
    }
}

fn check_series(event: &Place<'_, '_>, errors: &mut Errors) {
    let series = event.field("series");
    if !series.is_set() {
        return;
    }
    if series.field("count").number() < 2 {
        errors.push(series.field("count").invalid_for("", "should be at least 2"));
    }
    let seen = series.field("lastObservedTime");
    if !seen.is_set() {
        errors.push(seen.required(""));
    }
}

pub(crate) fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (new, live) = (&change.new, &change.live);
    if new.field("series").value() != live.field("series").value() {
        check_series(new, errors);
    }
    for (name, core_name, shown) in FROZEN {
        let (field, before) = (new.field(name).known_as(core_name), live.field(name));
        if field.value() == before.value() {
            continue;
        }
        let shown = match shown {
            Shown::Text => json!(field.text()).to_string(),
            Shown::Number => field.number().to_string(),
            Shown::Struct(go_type) => structure(go_type, field.value()),
            Shown::Pointer(go_type) if field.is_set() => structure(go_type, field.value()),
            Shown::Json | Shown::Pointer(_) => go_json(field.value()),
        };
        errors.push(field.invalid_in_go(shown, "field is immutable"));
    }
}

pub(crate) fn first_seen(event: &Value, now: Time) -> String {
    let pointers = ["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"];
    let time = pointers
        .iter()
        .find_map(|pointer| event.pointer(pointer).and_then(Value::as_str));
    age(time, now)
}

pub(crate) fn last_seen(event: &Value, now: Time) -> String {
    let pointers = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
        "/firstTimestamp",
        "/eventTime",
    ];
    let time = pointers
        .iter()
        .find_map(|pointer| event.pointer(pointer).and_then(Value::as_str));
    age(time, now)
}

pub(crate) fn event_object(event: &Value) -> String {
    let kind = either(event, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    let name = either(event, "/involvedObject/name", "/regarding/name");
    match name.is_empty() {
        true => kind,
        false => format!("{kind}/{name}"),
    }
}

pub(crate) fn event_source(event: &Value) -> String {
    let component = either(event, "/source/component", "/deprecatedSource/component");
    let host = either(event, "/source/host", "/deprecatedSource/host");
    let host = or(host, &text_at(event, "/reportingInstance"));
    let component = match component.is_empty() {
        true => either(event, "/reportingComponent", "/reportingController"),
        false => component,
    };
    if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    }
}

pub(crate) fn count(event: &Value) -> i64 {
    let times = [&event["series"]["count"], &event["count"]];
    let times = times.into_iter().find_map(Value::as_i64);
    times.filter(|times| *times > 0).unwrap_or(1)
}

/// The field names that differ: in `events.k8s.io`, and in core events.
const EVENT_NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

pub(crate) static CONVERSION: Conversion = Conversion {
    kind: "Event",
    served_api_version: "events.k8s.io/v1",
    stored_api_version: "v1",
    to_stored: |event| {
        renamed(event, |name| {
            EVENT_NAMES.iter().find(|pair| pair.0 == name).map(|pair| pair.1)
        })
    },
    to_served: |event| {
        renamed(event, |name| {
            EVENT_NAMES.iter().find(|pair| pair.1 == name).map(|pair| pair.0)
        })
    },
    spec_annotations: &[],
    status_annotations: &[],
};

fn renamed(object: Value, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = object else {
        return object;
    };
    let fields = fields
        .into_iter()
        .map(|(name, value)| (new_name(&name).map_or(name, str::to_owned), value));
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_conversion_to_the_stored_version_and_back() {
        let served = json!({"regarding": {"name": "p"}, "note": "hello", "type": "Normal"});
        let stored = (CONVERSION.to_stored)(served.clone());
        assert_eq!(stored["message"], "hello");
        assert_eq!((CONVERSION.to_served)(stored), served);
    }
}
