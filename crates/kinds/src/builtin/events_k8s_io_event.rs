//! Event in `events.k8s.io/v1`, stored as a core event.

use crate::builtin::event::{
    COLUMNS, CONVERSION, EVENTS_NAMES, TTL, check_change, check_leniently, check_strictly,
};
use crate::fields::Selectable;
use crate::kind::{Hooks, Kind, PLAIN};

/// The kind served as `events`.
pub static KIND: Kind = Kind {
    group: "events.k8s.io",
    name: "Event",
    plural: "events",
    ttl: Some(TTL),
    conversion: Some(&CONVERSION),
    // Kubernetes validates both versions as the internal one, whose errors name the core group.
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
