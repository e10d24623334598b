//! Estimates the size of a body once it is parsed into a tree of values.
//!
//! A tree takes far more memory than its text: `{}` is two bytes and becomes a map of some 600 once a default is
//! filled in. A body of 3 MiB can take 300 MiB, for every request in flight. The size is therefore estimated from the
//! text before parsing, in units of one value (32 bytes), and limited to [`TREE_LIMIT`].
//!
//! Bodies too short to matter, which are nearly all, are not examined.

use serde_json::Value;

use crate::json::strings::unescaped_length;
use crate::protobuf::primitive::{ProtobufError, Reader, WireType};
use crate::schema::{Schema, Shape, TypeId};

/// The largest tree: 2^20 values, or 52,000 objects. That many objects of 30 bytes in JSON are as large as the
/// largest object etcd stores.
pub const TREE_LIMIT: usize = 1 << 20;

/// The size of an object: a map has room for eleven members from the first on.
pub(crate) const OBJECT: usize = 20;

/// The size of a member: its key, and its share of the map.
pub(crate) const MEMBER: usize = 4;

/// The size of an item of a list.
pub(crate) const ITEM: usize = 1;

/// The largest size per byte of JSON: `{},` is an object and an item.
const DENSEST_JSON: usize = (OBJECT + ITEM) / 3;

/// The largest size per byte of protobuf: a tag and a length are an item and an object.
const DENSEST_PROTOBUF: usize = (OBJECT + ITEM) / 2 + 1;

/// Deeper messages are refused when they are decoded.
const MAX_DEPTH: usize = 128;

/// True if a JSON text becomes a tree larger than [`TREE_LIMIT`]. For invalid JSON the result is meaningless.
pub fn is_large_json(text: &[u8]) -> bool {
    text.len() > TREE_LIMIT / DENSEST_JSON && json_size(text) > TREE_LIMIT
}

/// The size of a tree, in the same units.
pub fn tree_size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| ITEM + tree_size(item)).sum(),
        Value::Object(members) => {
            let values = members.values().map(|value| MEMBER + tree_size(value));
            OBJECT + values.sum::<usize>()
        }
        _ => 0,
    }
}

/// The approximate length of a tree as compact JSON.
pub fn text_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| text_size(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| key.len() + text_size(value) + 4);
            members.sum::<usize>() + 2
        }
    }
}

/// The same as [`is_large_json`] for a protobuf message.
pub(crate) fn is_large_message(schema: &Schema, id: TypeId, raw: &[u8]) -> bool {
    if raw.len() <= TREE_LIMIT / DENSEST_PROTOBUF {
        return false;
    }
    let mut size = Size { schema, size: 0 };
    // Decoding finds the error again and reports it.
    let _ = size.add_message(id, Reader::new(raw), 0);
    size.size > TREE_LIMIT
}

fn json_size(text: &[u8]) -> usize {
    let (mut size, mut at) = (0, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' => size += OBJECT,
            b':' => size += MEMBER,
            b',' | b'[' => size += ITEM,
            b'"' => at += string_length(&text[at..]),
            _ => {}
        }
    }
    size
}

/// The length of a string after its first quote, including the last one.
fn string_length(text: &[u8]) -> usize {
    let mut length = 0;
    loop {
        let rest = text.get(length..).unwrap_or_default();
        length += unescaped_length(rest);
        match text.get(length) {
            Some(b'\\') => length += 2,
            _ => return length + 1,
        }
    }
}

struct Size<'s> {
    schema: &'s Schema,
    size: usize,
}

impl Size<'_> {
    fn add_message(&mut self, id: TypeId, mut reader: Reader<'_>, depth: usize) -> Result<(), ProtobufError> {
        while let Some((number, wire_type)) = reader.tag()? {
            if self.size > TREE_LIMIT || depth > MAX_DEPTH {
                return Ok(());
            }
            let field = self.schema[id].fields.iter().find(|field| field.number == number);
            match (field, wire_type) {
                (Some(field), WireType::Bytes) => {
                    let value = reader.message()?;
                    self.add_value(&field.shape, value, depth)?;
                }
                _ => {
                    self.size += ITEM;
                    reader.skip(wire_type)?;
                }
            }
        }
        Ok(())
    }

    fn add_value(&mut self, shape: &Shape, mut value: Reader<'_>, depth: usize) -> Result<(), ProtobufError> {
        if let Shape::List(item) = shape {
            return self.add_value(item, value, depth);
        }
        self.size += ITEM;
        match shape {
            Shape::Struct(id) => {
                self.size += OBJECT;
                self.add_message(*id, value, depth + 1)
            }
            Shape::Map(inner) | Shape::ListMessage(inner) => {
                self.size += MEMBER;
                while let Some((number, wire_type)) = value.tag()? {
                    let is_value = matches!(shape, Shape::ListMessage(_)) || number == 2;
                    match wire_type {
                        WireType::Bytes if is_value => {
                            let value = value.message()?;
                            self.add_value(inner, value, depth + 1)?;
                        }
                        _ => value.skip(wire_type)?,
                    }
                }
                Ok(())
            }
            Shape::FieldsV1 | Shape::RawExtension | Shape::Json => {
                while let Some((_, wire_type)) = value.tag()? {
                    match wire_type {
                        WireType::Bytes => self.size += json_size(value.bytes()?),
                        _ => value.skip(wire_type)?,
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::primitive::{put_bytes, put_tag};

    fn check(text: String, is_large: bool) {
        assert_eq!(is_large_json(text.as_bytes()), is_large, "{:.60}", text);
    }

    #[test]
    fn many_small_values_make_a_large_tree() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        check(list(r#"{"":0}"#, 41_000), false);
        check(list(r#"{"":0}"#, 42_000), true);
        check(list("{}", 49_000), false);
        check(list("{}", 50_000), true);
        check(list("0", 1_000_000), false);
        check(list("0", 1_100_000), true);
    }

    #[test]
    fn a_tree_is_as_large_as_its_text() {
        let text = r#"[{"a":[1,"b"]},{},[{}]]"#;
        let tree = serde_json::from_str(text).unwrap();
        assert_eq!(tree_size(&tree), json_size(text.as_bytes()));
    }

    #[test]
    fn what_stands_in_a_text_is_no_value() {
        let text = |inner: &str| format!(r#"{{"data":{{"k":"{}"}}}}"#, inner.repeat(400_000));
        check(text("{},:["), false);
        check(text(r#"\"{},"#), false);
        check(text(r"\\"), false);
    }

    #[test]
    fn a_message_is_as_large_as_its_json() {
        let schema = Schema::builtin();
        let pod = schema.kind("v1", "Pod").unwrap();
        // Containers are the second field of the second field of a pod.
        let with_containers = |count: usize| {
            let mut spec = Vec::new();
            (0..count).for_each(|_| {
                put_tag(&mut spec, 2, WireType::Bytes);
                spec.push(0);
            });
            let mut raw = Vec::new();
            put_bytes(&mut raw, 2, &spec);
            raw
        };
        assert!(!is_large_message(schema, pod, &with_containers(49_000)));
        assert!(is_large_message(schema, pod, &with_containers(50_000)));
    }
}
