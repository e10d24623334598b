//! ConfigMap: strings and bytes by key, limited in total size.

use serde_json::json;
use watchkeeper_meta::{FieldError, FieldPath};

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::data::{check_frozen, check_key};
use crate::rules::formats::{MAX_DATA_BYTES, decoded_len};
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::map_len;

/// The kind served as `configmaps`.
pub static KIND: Kind = Kind {
    group: "",
    name: "ConfigMap",
    plural: "configmaps",
    columns: COLUMNS,
    counted_by_plural: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Data", |row| {
        json!(map_len(row.object, "/data") + map_len(row.object, "/binaryData"))
    }),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: check_config_map,
    check_change: |change, errors| check_frozen(change, &["immutable", "data", "binaryData"], errors),
    change_first: true,
    heeds: Some(|_| false),
    ..PLAIN
};

fn check_config_map(map: &Place<'_, '_>, errors: &mut Errors) {
    let (texts, bytes) = (map.field("data"), map.field("binaryData"));
    let mut size = 0;
    for (key, entry) in texts.entries() {
        check_key(key, &entry, errors);
        if bytes.value().get(key).is_some() {
            errors.push(entry.invalid_for(key, "duplicate of key present in binaryData"));
        }
        size += entry.text().len();
    }
    for (key, entry) in bytes.entries() {
        check_key(key, &entry, errors);
        size += decoded_len(entry.text());
    }
    if size > MAX_DATA_BYTES {
        errors.push(FieldError::too_long(&FieldPath::new(""), MAX_DATA_BYTES));
    }
}
