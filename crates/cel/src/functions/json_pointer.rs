//! Escaping of keys for JSON pointers: `'/metadata/labels/' + jsonpatch.escapeKey('a/b')`.

use super::Function;
use super::strings::text;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] =
    &[
        Function::new("jsonpatch.escapeKey", &["(string) -> string"], |v, _| {
            Ok(Value::text(text(&v[0])?.replace('~', "~0").replace('/', "~1")))
        })
        .reading()
        .growing(|n| n[0].saturating_mul(2)),
    ];
