//! PersistentVolumeClaim: a request for storage.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain};
use watchkeeper_meta::{FieldError, FieldPath};
use watchkeeper_wire::values::Quantity;

use crate::builtin::pod;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::quota::{OF_CLASS, Usage, number};
use crate::rules::defaulting::{fill, fill_empty, object_mut};
use crate::rules::formats::quantity;
use crate::rules::place::{Errors, NOT_NEGATIVE, Place};
use crate::rules::unified_diff;
use crate::table::cells::{access_modes, or, storage_class, volume_phase};
use crate::table::{Column, Row};
use crate::{Part, Warnings, metadata};

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
/// The deprecated way to name the class.
pub const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

const FIXED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// The kind served as `persistentvolumeclaims`.
pub static KIND: Kind = Kind {
    group: "",
    name: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
    delete_returns_object: true,
    columns: COLUMNS,
    usage,
    counted_by_plural: true,
    grows_by: &[Part::Object],
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", volume_phase),
    Column::text("Volume", |row| json!(row.text("/spec/volumeName"))),
    Column::text("Capacity", |row| {
        json!(of_bound(row, or(row.text("/status/capacity/storage"), "0")))
    }),
    Column::text("Access Modes", |row| {
        json!(of_bound(row, access_modes(row.at("/status/accessModes"))))
    }),
    Column::text("StorageClass", |row| json!(storage_class(row.object))),
    Column::text("VolumeAttributesClass", |row| {
        row.text_or("/spec/volumeAttributesClassName", "<unset>")
    }),
    Column::AGE,
    Column::text("VolumeMode", |row| row.text_or("/spec/volumeMode", "<unset>")).wide(),
];

const HOOKS: Hooks = Hooks {
    default: default_claim,
    prepare_for_create: |claim, _| {
        claim["status"] = json!({"phase": "Pending"});
        drop_foreign_source(&mut claim["spec"]);
        drop_unknown_source(&mut claim["spec"]);
        copy_data_source(&mut claim["spec"]);
        protect(claim, "kubernetes.io/pvc-protection");
    },
    prepare_for_update: |part, claim, live, _| {
        if part == Part::Object {
            // A data source that was accepted before is validated, not dropped.
            if live["spec"].get("dataSourceRef").is_none() {
                drop_foreign_source(&mut claim["spec"]);
            }
            if live["spec"].get("dataSource").is_none() {
                drop_unknown_source(&mut claim["spec"]);
            }
            copy_data_source(&mut claim["spec"]);
        }
        if claim["status"].is_object() {
            fill_empty(&mut claim["status"], "phase", "Pending");
        }
    },
    check: |claim, errors| check_claim_spec(&claim.field("spec"), errors),
    check_change: |change, errors| match change.part {
        Part::Status => check_status(&change.new.field("status"), errors),
        _ => check_change(change, errors),
    },
    warn: |claim, _, warnings| {
        warn_of_class_annotation(claim, warnings);
        let claim = Place::object(claim);
        pod::warn_of_fractions(
            &claim.field("spec").field("resources").field("requests"),
            warnings,
        );
    },
    ..PLAIN
};

/// Fills in the defaults of a claim or of a claim template.
pub(crate) fn default_claim(claim: &mut Value) {
    if let Some(spec) = object_mut(claim, "spec") {
        fill(spec, "volumeMode", "Filesystem");
    }
}

/// Drops a data source in a namespace: the feature `CrossNamespaceVolumeDataSource` is off by default.
fn drop_foreign_source(spec: &mut Value) {
    let namespace = spec["dataSourceRef"]["namespace"].as_str();
    let is_foreign = namespace.is_some_and(|namespace| !namespace.is_empty());
    if let (true, Some(fields)) = (is_foreign, spec.as_object_mut()) {
        fields.remove("dataSourceRef");
    }
}

/// Drops a `dataSource` of a kind that this field does not support, unless `dataSourceRef` says the same or more.
fn drop_unknown_source(spec: &mut Value) {
    let is_known = |source: &Value| {
        let text = |name: &str| source[name].as_str().unwrap_or_default();
        let snapshot = ("snapshot.storage.k8s.io", "VolumeSnapshot");
        let kind = (text("apiGroup"), text("kind"));
        kind == ("", "PersistentVolumeClaim") || kind == snapshot
    };
    if let Some(fields) = spec.as_object_mut()
        && !fields.contains_key("dataSourceRef")
        && fields.get("dataSource").is_some_and(|source| !is_known(source))
    {
        fields.remove("dataSource");
    }
}

/// Copies `dataSource` to `dataSourceRef`, or back, so that both are set.
fn copy_data_source(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else {
        return;
    };
    match (
        fields.get("dataSource").cloned(),
        fields.get("dataSourceRef").cloned(),
    ) {
        (Some(old), None) => drop(fields.insert("dataSourceRef".to_owned(), old)),
        (None, Some(new)) if new["namespace"].as_str().is_none_or(str::is_empty) => {
            fields.insert("dataSource".to_owned(), new);
        }
        _ => {}
    }
}

/// Adds a finalizer that keeps an object as long as it is in use.
pub(crate) fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = metadata::of(object)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|known| known == finalizer)
    {
        list.push(json!(finalizer));
    }
}

/// Warns about the deprecated class annotation.
pub(crate) fn warn_of_class_annotation(object: &Value, warnings: &Warnings) {
    if object["metadata"]["annotations"].get(CLASS_ANNOTATION).is_some() {
        warnings.add(format!(
            "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
}

/// Checks the access modes. Errors name the list, not the item.
pub(crate) fn check_access_modes(modes: &Place<'_, '_>, errors: &mut Errors) {
    let stated: Vec<&str> = modes.texts().collect();
    for mode in &stated {
        if !ACCESS_MODES.contains(mode) {
            let error = FieldError::not_supported(&modes.path(), *mode, ACCESS_MODES);
            errors.push(error);
        }
    }
    let is_alone = |mode: &&&str| **mode == "ReadWriteOncePod";
    let others = stated
        .iter()
        .filter(|mode| !is_alone(mode) && ACCESS_MODES.contains(*mode));
    if stated.iter().any(|mode| is_alone(&mode)) && others.count() > 0 {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

/// Checks the volume mode: a block device or a file system.
pub(crate) fn check_volume_mode(mode: &Place<'_, '_>, errors: &mut Errors) {
    mode.may_be_one_of(VOLUME_MODES, errors);
}

/// Checks that an amount is greater than zero.
pub(crate) fn check_positive(amount: &Place<'_, '_>, errors: &mut Errors) {
    let value = quantity(amount.value());
    if value.is_zero() || value.is_negative() {
        errors.push(amount.invalid_for(value.to_string(), "must be greater than zero"));
    }
}

/// Checks the spec of a claim, or of a template for claims.
pub(crate) fn check_claim_spec(spec: &Place<'_, '_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.len() == 0 {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    spec.field("selector").must_select(errors);
    check_access_modes(&modes, errors);
    let resources = spec.field("resources");
    let requests = resources.field("requests");
    // The path of the errors lacks `requests`, as in Kubernetes.
    let storage = resources
        .entry("storage")
        .with_value(requests.field("storage").value());
    match storage.is_set() {
        false => errors.push(storage.required("")),
        true => check_positive(&storage, errors),
    }
    spec.field("storageClassName").may_keep(dns1123_subdomain, errors);
    check_volume_mode(&spec.field("volumeMode"), errors);
    check_data_sources(spec, errors);
    spec.field("volumeAttributesClassName")
        .may_keep(dns1123_subdomain, errors);
}

fn check_data_sources(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (old, new) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for source in [old, new] {
        if source.is_set() {
            check_data_source(&source, errors);
        }
    }
    let namespace = new.field("namespace");
    namespace.may_keep(dns1123_label, errors);
    if !old.is_set() || !new.is_set() {
        return;
    }
    let same = ["apiGroup", "kind", "name"]
        .iter()
        .all(|name| old.field(name).value() == new.field(name).value());
    let why = match namespace.text().is_empty() {
        false => "may not be specified when dataSourceRef.namespace is specified",
        true if !same => "must match dataSourceRef",
        true => return,
    };
    // Kubernetes shows a field path by mistake, which prints as `{}`.
    errors.push(spec.invalid_in_go("{}".to_owned(), why));
}

fn check_data_source(source: &Place<'_, '_>, errors: &mut Errors) {
    let (group, kind) = (source.field("apiGroup"), source.field("kind"));
    source.field("name").must_be_set(errors);
    kind.must_be_set(errors);
    if group.text().is_empty() && kind.text() != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(source.invalid_for(kind.text(), why));
    }
    group.may_keep(dns1123_subdomain, errors);
}

/// Checks an update: only what a bound claim requests, and fields that were unset, may change.
fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (new, live) = (change.new.field("spec"), change.live.field("spec"));
    let annotation = |object: &Place<'_, '_>| {
        let annotations = &object.value()["metadata"]["annotations"];
        annotations[CLASS_ANNOTATION]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (class, old_class) = (annotation(&change.new), annotation(&change.live));
    if class != old_class {
        let path = FieldPath::from("metadata.annotations").child(CLASS_ANNOTATION);
        let why = "field is immutable";
        errors.push(FieldError::invalid(&path, class, why));
    }
    let (fixed, before) = fixed_parts(change);
    if fixed != before {
        let changes = unified_diff::of_structs("PersistentVolumeClaimSpec", &before, &fixed);
        errors.push(new.forbidden(format!("{FIXED}\n{changes}")));
    }
    check_shrinking(change, errors);
    let mode = new.field("volumeMode");
    if mode.value() != live.field("volumeMode").value() {
        let path = FieldPath::new("volumeMode");
        let error = FieldError::invalid(&path, mode.value().clone(), "field is immutable");
        errors.push(error);
    }
    check_attributes(&new, &live, errors);
}

/// The new and the live spec with the mutable fields made equal.
fn fixed_parts(change: &Change<'_>) -> (Value, Value) {
    let (mut new, mut live) = (
        change.new.value()["spec"].clone(),
        change.live.value()["spec"].clone(),
    );
    if live["volumeName"].as_str().is_none_or(str::is_empty) {
        copy(&new, &mut live, "volumeName");
    }
    if live.get("storageClassName").is_none() {
        copy(&live, &mut new, "storageClassName");
    }
    if change.new.value()["status"]["phase"] == "Bound" {
        copy(&live, &mut new, "volumeAttributesClassName");
        if let Some(requests) = new.pointer_mut("/resources/requests") {
            copy(&live["resources"]["requests"], requests, "storage");
        }
    }
    (new, live)
}

/// Copies a field from another object, or removes it.
fn copy(from: &Value, to: &mut Value, name: &str) {
    let Some(fields) = to.as_object_mut() else {
        return;
    };
    match from.get(name) {
        Some(value) => drop(fields.insert(name.to_owned(), value.clone())),
        None => drop(fields.remove(name)),
    }
}

/// Checks that a claim does not request less than its capacity.
fn check_shrinking(change: &Change<'_>, errors: &mut Errors) {
    let storage =
        |object: &Place<'_, '_>| quantity(&object.value()["spec"]["resources"]["requests"]["storage"]);
    let capacity = quantity(&change.live.value()["status"]["capacity"]["storage"]);
    let (new, live) = (storage(&change.new), storage(&change.live));
    if new < live && new <= capacity {
        let path = FieldPath::from("spec.resources.requests.storage");
        let why = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden(&path, why));
    }
}

fn check_attributes(new: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let name = "volumeAttributesClassName";
    let (new, live) = (new.field(name), live.field(name));
    if live.is_set() && !new.is_set() {
        errors.push(new.forbidden("update from non-nil value to nil is forbidden"));
    } else if live.is_set() && new.text().is_empty() && !live.text().is_empty() {
        errors.push(new.forbidden("update from non-nil value to an empty string is forbidden"));
    }
}

/// Checks that an amount is not negative. The error shows it as a number.
pub(crate) fn check_basic(amount: &Place<'_, '_>, errors: &mut Errors) {
    let value = quantity(amount.value());
    if value.is_negative() {
        let whole = value.to_i64().unwrap_or(i64::MIN);
        errors.push(amount.invalid_for(whole, "must be a valid resource quantity"));
    }
}

fn check_status(status: &Place<'_, '_>, errors: &mut Errors) {
    for (_, amount) in status.field("capacity").entries() {
        check_basic(&amount, errors);
    }
    for (_, amount) in status.field("allocatedResources").entries() {
        let value = quantity(amount.value());
        if value.is_negative() {
            errors.push(amount.invalid_for(value.to_string(), NOT_NEGATIVE));
        }
    }
}

/// The quota usage of a claim: in total and per storage class.
fn usage(claim: &Value, usage: &mut Usage) {
    let size = claim["spec"]["resources"]["requests"]["storage"].as_str();
    let size: Option<Quantity> = size.and_then(|size| size.parse().ok());
    let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let of_class = |what: &str| format!("{class}{OF_CLASS}{what}");
    if !class.is_empty() {
        usage.insert(of_class(KIND.plural), number(1));
    }
    if let Some(size) = size {
        if !class.is_empty() {
            usage.insert(of_class("requests.storage"), size.clone());
        }
        usage.insert("requests.storage".to_owned(), size);
    }
}

/// The cell's text for a bound claim; empty for others.
fn of_bound(row: &Row<'_>, text: String) -> String {
    match row.text("/spec/volumeName").is_empty() {
        true => String::new(),
        false => text,
    }
}
