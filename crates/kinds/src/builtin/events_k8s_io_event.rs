//! Events as `events.k8s.io/v1` has them; they are stored as core events.

use crate::builtin::event::{COLUMNS, CONVERSION, EVENTS_NAMES, TTL, check_change, check_leniently, check_strictly};
use crate::fields::Selectable;
use crate::kind::{Hooks, Kind, PLAIN};

/// What is particular to `events`.
pub static KIND: Kind = Kind {
    group: "events.k8s.io",
    name: "Event",
    plural: "events",
    ttl: Some(TTL),
    conversion: Some(&CONVERSION),
    // Both versions are checked as the older one.
    error_group: Some(""),
    creates_on_update: true,
    garbage_collected: false,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    quota_exempt: true,
    uncached: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const SELECTABLE: &[Selectable] = &[
    Selectable::at("regarding.kind", &["/regarding/kind"]),
    Selectable::at("regarding.namespace", &["/regarding/namespace"]),
    Selectable::at("regarding.name", &["/regarding/name"]),
    Selectable::at("regarding.uid", &["/regarding/uid"]),
    Selectable::at("regarding.apiVersion", &["/regarding/apiVersion"]),
    Selectable::at("regarding.resourceVersion", &["/regarding/resourceVersion"]),
    Selectable::at("regarding.fieldPath", &["/regarding/fieldPath"]),
    Selectable::at("reason", &["/reason"]),
    Selectable::at("reportingController", &["/reportingController"]),
    Selectable::at("type", &["/type"]),
];

const HOOKS: Hooks = Hooks {
    check: |event, errors| check_leniently(event, &EVENTS_NAMES, errors),
    check_new: check_strictly,
    check_change,
    ..PLAIN
};

