//! Volume attachments: which volume is attached to which node.

use serde_json::json;

use crate::kind::Kind;
use crate::table::Column;

/// What is particular to `volumeattachments`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "VolumeAttachment",
    plural: "volumeattachments",
    status_keeps_metadata: true,
    updates_unconditionally: false,
    delete_returns_object: true,
    columns: COLUMNS,
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

