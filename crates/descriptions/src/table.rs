//! The table that the build script writes, unpacked on first use and kept.

use std::collections::HashMap;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

/// By type, then by field; the empty field is the type itself.
type Table = HashMap<Box<str>, HashMap<Box<str>, Box<str>>>;

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/texts.json.gz"));

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_reader(GzDecoder::new(PACKED)).expect("the build script wrote this table")
});

pub(crate) fn text(type_name: &str, field: &str) -> Option<&'static str> {
    let text = TABLE.get(type_name)?.get(field)?;
    Some(text)
}
