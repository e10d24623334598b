//! VolumeAttachment: attaches a volume to a node.

use serde_json::json;

use watchkeeper_meta::validation::dns1123_subdomain;

use crate::Part;
use crate::builtin::persistent_volume::check_inline;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::declared;
use crate::rules::place::{Errors, Place};
use crate::table::Column;

const MAX_METADATA_BYTES: usize = 256 * 1024;
const MAX_MESSAGE_BYTES: usize = 1024;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

/// The kind served as `volumeattachments`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "VolumeAttachment",
    plural: "volumeattachments",
    status_keeps_metadata: true,
    updates_unconditionally: false,
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Attacher", |row| json!(row.text("/spec/attacher"))).naming(),
    Column::text("PV", |row| json!(row.text("/spec/source/persistentVolumeName"))),
    Column::text("Node", |row| json!(row.text("/spec/nodeName"))),
    Column::boolean("Attached", |row| row.is("/status/attached")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check_new,
    check_change,
    ..PLAIN
};

/// Checks the driver name of a new attachment. Existing ones may predate this rule.
fn check_new(attachment: &Place<'_, '_>, errors: &mut Errors) {
    let spec = attachment.field("spec");
    check_spec(&spec, errors);
    let source = spec.field("source");
    let volume = source.field("persistentVolumeName");
    if volume.is_set() {
        volume.must_keep(dns1123_subdomain, errors);
    }
    declared::check_driver(&spec.field("attacher"), errors);
}

fn check_spec(spec: &Place<'_, '_>, errors: &mut Errors) {
    let source = spec.field("source");
    let (inline, volume) = (
        source.field("inlineVolumeSpec"),
        source.field("persistentVolumeName"),
    );
    match (inline.is_set(), volume.is_set()) {
        (false, false) => errors.push(source.required(ONE_SOURCE)),
        (true, true) => errors.push(source.forbidden(ONE_SOURCE)),
        (false, true) if volume.text().is_empty() => {
            errors.push(volume.required("must specify non empty persistentVolumeName"));
        }
        (false, true) => {}
        (true, false) => check_inline(&inline, errors),
    }
    let node = spec.field("nodeName");
    let reasons = dns1123_subdomain(node.text()).into_iter();
    errors.extend(reasons.map(|why| node.invalid_for(node.text(), why)));
}

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
    if change.part != Part::Status {
        spec.field("attacher").must_be_set(errors);
        check_spec(&spec, errors);
    }
    check_status(&change.new.field("status"), errors);
    spec.must_stay_unshown(&live, errors);
}

fn check_status(status: &Place<'_, '_>, errors: &mut Errors) {
    let metadata = status.field("attachmentMetadata");
    let entries = metadata.entries();
    let size: usize = entries.map(|(key, value)| key.len() + value.text().len()).sum();
    if size > MAX_METADATA_BYTES {
        errors.push(metadata.too_long(MAX_METADATA_BYTES));
    }
    for name in ["attachError", "detachError"] {
        let error = status.field(name);
        let (message, code) = (error.field("message"), error.field("errorCode"));
        if message.text().len() > MAX_MESSAGE_BYTES {
            // Kubernetes' error gives the limit of the metadata instead.
            errors.push(message.too_long(MAX_METADATA_BYTES));
        }
        if code.number() < 0 {
            errors.push(code.invalid("must be between 0 and 2147483647, inclusive"));
        }
    }
}
