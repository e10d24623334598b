//! CSIDriver: the capabilities of a storage driver.

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::FieldError;

use crate::kind::{Change, Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::fill;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{NONE, joined, list_of, or, text_at};

const FS_GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
const MODES: &[&str] = &["Persistent", "Ephemeral"];
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
/// The shortest `nodeAllocatableUpdatePeriodSeconds`.
const MIN_UPDATE_PERIOD: i64 = 10;

/// The kind served as `csidrivers`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "CSIDriver",
    plural: "csidrivers",
    generation: Generation::Spec,
    generation_begins_with_change: true,
    updates_unconditionally: false,
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::boolean("AttachRequired", |row| {
        json!(row.at("/spec/attachRequired").as_bool().unwrap_or(true))
    }),
    Column::boolean("PodInfoOnMount", |row| row.is("/spec/podInfoOnMount")),
    Column::boolean("StorageCapacity", |row| row.is("/spec/storageCapacity")),
    Column::text("TokenRequests", |row| json!(audiences(row.object))),
    Column::boolean("RequiresRepublish", |row| row.is("/spec/requiresRepublish")),
    Column::text("Modes", |row| {
        json!(or(joined(row.at("/spec/volumeLifecycleModes"), ","), NONE))
    }),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |driver| fill_driver(&mut driver["spec"]),
    check: |driver, errors| check(&driver.field("spec"), errors),
    check_change,
    warn: |driver, live, warnings| {
        let spec = &driver["spec"];
        if live.is_some_and(|live| live["spec"]["tokenRequests"] == spec["tokenRequests"]) {
            return;
        }
        let wants_tokens = spec["tokenRequests"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        if wants_tokens && spec["serviceAccountTokenInSecrets"].is_null() {
            warnings.add(
                "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
                 possible logging of tokens in volume attributes",
            );
        }
    },
    ..PLAIN
};

/// Fills in defaults: capabilities are off, except that attaching is required.
fn fill_driver(spec: &mut Value) {
    fill(spec, "attachRequired", true);
    for name in [
        "podInfoOnMount",
        "preventPodSchedulingIfMissing",
        "requiresRepublish",
        "seLinuxMount",
        "storageCapacity",
    ] {
        fill(spec, name, false);
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    spec.field("fsGroupPolicy")
        .may_be_one_of(FS_GROUP_POLICIES, errors);
    let tokens = spec.field("tokenRequests");
    check_tokens(&tokens, errors);
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.texts().filter(|mode| !MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&modes.path(), mode, MODES));
    }
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.is_set() && period.number() < MIN_UPDATE_PERIOD {
        errors.push(period.invalid("must be greater than or equal to 10 seconds"));
    }
    let in_secrets = spec.field("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && tokens.len() == 0 {
        errors.push(
            in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified"),
        );
    }
}

/// Checks token requests: audiences are unique and lifetimes within bounds.
fn check_tokens(tokens: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for token in tokens.items() {
        let (audience, seconds) = (token.field("audience"), token.field("expirationSeconds"));
        if !seen.insert(audience.text()) {
            errors.push(FieldError::duplicate(&audience.path(), audience.text()));
            continue;
        }
        if seconds.is_set() && seconds.number() < MIN_TOKEN_SECONDS {
            errors.push(seconds.invalid("may not specify a duration less than 10 minutes"));
        }
        if seconds.number() > MAX_TOKEN_SECONDS {
            errors.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
        }
    }
}

/// Checks an update: the fields that decide how volumes are attached are immutable.
fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
    let attach = spec.field("attachRequired").known_as("attachedRequired");
    attach.must_stay(&live.field("attachRequired"), errors);
    let modes = spec.field("volumeLifecycleModes");
    modes.must_stay(&live.field("volumeLifecycleModes"), errors);
}

fn audiences(driver: &Value) -> String {
    let audiences = list_of(&driver["spec"]["tokenRequests"], |request| {
        text_at(request, "/audience")
    });
    or(audiences.join(","), "<unset>")
}
