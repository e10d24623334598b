//! The version 2 document as protobuf, which Go clients request: gnostic's `openapi.v2.Document`.
//!
//! Converts the JSON document with a table per message that maps members to fields. Members that start with `x-`
//! become YAML text, of which JSON is a subset; unknown members are dropped.

use serde_json::{Map, Value};
use watchkeeper_wire::protobuf::primitive::{WireType, put_bytes, put_tag, put_varint};

use Form::{Any, Each, Entries, Flag, Number, OneOf, Text, Whole, Within};

/// A message: its known members, and the field for those that start with `x-`.
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    extensions: Option<u32>,
}

/// The encoding of a value.
enum Form {
    Text,
    Flag,
    Whole,
    Number,
    /// Any value, as text.
    Any,
    Each(&'static Form),
    Message(&'static Message),
    /// In a nested message, at this field.
    Within(u32, &'static Form),
    /// A map: entries of a name and a value, at this field of a message.
    Entries(u32, &'static Form),
    /// Depends on the value.
    OneOf(fn(&Value) -> &'static Form),
}

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, Form::Message(&INFO)),
        ("paths", 8, Entries(2, &Form::Message(&PATH))),
        ("definitions", 9, Entries(1, &Form::Message(&SCHEMA))),
        ("security", 12, Each(&Entries(1, &Within(1, &Each(&Text))))),
        (
            "securityDefinitions",
            13,
            Entries(1, &Within(2, &Form::Message(&API_KEY))),
        ),
    ],
    extensions: Some(16),
};

static INFO: Message = Message {
    fields: &[("title", 1, Text), ("version", 2, Text)],
    extensions: None,
};

static API_KEY: Message = Message {
    fields: &[
        ("type", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("description", 4, Text),
    ],
    extensions: None,
};

static PATH: Message = Message {
    fields: &[
        ("get", 2, Form::Message(&OPERATION)),
        ("put", 3, Form::Message(&OPERATION)),
        ("post", 4, Form::Message(&OPERATION)),
        ("delete", 5, Form::Message(&OPERATION)),
        ("options", 6, Form::Message(&OPERATION)),
        ("head", 7, Form::Message(&OPERATION)),
        ("patch", 8, Form::Message(&OPERATION)),
        ("parameters", 9, Each(&PARAMETER)),
    ],
    extensions: Some(10),
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Each(&Text)),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Each(&Text)),
        ("consumes", 7, Each(&Text)),
        ("parameters", 8, Each(&PARAMETER)),
        ("responses", 9, Entries(1, &Within(1, &Form::Message(&RESPONSE)))),
    ],
    extensions: Some(13),
};

static RESPONSE: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("schema", 2, Within(1, &Form::Message(&SCHEMA))),
    ],
    extensions: Some(5),
};

/// A parameter is the body, or is in the query or the path.
static PARAMETER: Form = Within(
    1,
    &OneOf(|parameter| match parameter["in"].as_str() {
        Some("body") => &IN_BODY,
        Some("path") => &IN_PATH,
        _ => &IN_QUERY,
    }),
);

static IN_BODY: Form = Within(1, &Form::Message(&BODY_PARAMETER));
static IN_PATH: Form = Within(2, &Within(4, &Form::Message(&PATH_PARAMETER)));
static IN_QUERY: Form = Within(2, &Within(3, &Form::Message(&QUERY_PARAMETER)));

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, Form::Message(&SCHEMA)),
    ],
    extensions: Some(6),
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: Some(23),
};

static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: Some(22),
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Number),
        ("maximum", 7, Number),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Number),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Whole),
        ("minLength", 12, Whole),
        ("pattern", 13, Text),
        ("maxItems", 14, Whole),
        ("minItems", 15, Whole),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Whole),
        ("minProperties", 18, Whole),
        ("required", 19, Each(&Text)),
        ("enum", 20, Each(&Any)),
        (
            "additionalProperties",
            21,
            OneOf(|value| match value {
                Value::Bool(_) => &ADDITIONAL_ALLOWED,
                _ => &ADDITIONAL_SCHEMA,
            }),
        ),
        ("type", 22, Within(1, &Text)),
        ("items", 23, Within(1, &Form::Message(&SCHEMA))),
        ("allOf", 24, Each(&Form::Message(&SCHEMA))),
        ("properties", 25, Entries(1, &Form::Message(&SCHEMA))),
        ("example", 30, Any),
    ],
    extensions: Some(31),
};

/// `additionalProperties`: a boolean, or a schema.
static ADDITIONAL_ALLOWED: Form = Within(2, &Flag);
static ADDITIONAL_SCHEMA: Form = Within(1, &Form::Message(&SCHEMA));

/// The bytes of a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    DOCUMENT.encode(document)
}

impl Message {
    fn encode(&self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        let Value::Object(members) = value else { return out };
        for (name, number, form) in self.fields {
            if let Some(value) = members.get(*name) {
                form.put(&mut out, *number, value);
            }
        }
        if let Some(number) = self.extensions {
            put_entries(&mut out, number, extensions(members), &Any);
        }
        out
    }
}

impl Form {
    /// Writes a value as a field. A value of the wrong type is dropped like an unknown member.
    fn put(&self, out: &mut Vec<u8>, number: u32, value: &Value) {
        match (self, value) {
            (Text, Value::String(text)) => put_bytes(out, number, text.as_bytes()),
            (Flag, Value::Bool(flag)) => put_whole(out, number, u64::from(*flag)),
            (Whole, Value::Number(whole)) => {
                put_whole(out, number, whole.as_i64().unwrap_or_default() as u64)
            }
            (Number, Value::Number(real)) => {
                put_tag(out, number, WireType::Fixed64);
                out.extend_from_slice(&real.as_f64().unwrap_or_default().to_le_bytes());
            }
            (Any, value) => put_within(out, number, 2, &Text, &Value::String(value.to_string())),
            (Each(form), Value::Array(items)) => items.iter().for_each(|item| form.put(out, number, item)),
            (Self::Message(message), Value::Object(_)) => put_bytes(out, number, &message.encode(value)),
            (Within(inner, form), value) => put_within(out, number, *inner, form, value),
            (Entries(inner, form), Value::Object(members)) => {
                let mut entries = Vec::new();
                put_entries(&mut entries, *inner, members.iter(), form);
                put_bytes(out, number, &entries);
            }
            (OneOf(choose), value) => choose(value).put(out, number, value),
            _ => {}
        }
    }
}

fn put_within(out: &mut Vec<u8>, number: u32, inner: u32, form: &Form, value: &Value) {
    let mut message = Vec::new();
    form.put(&mut message, inner, value);
    put_bytes(out, number, &message);
}

/// Entries with a name, field 1, and a value, field 2.
fn put_entries<'a>(
    out: &mut Vec<u8>,
    number: u32,
    members: impl Iterator<Item = (&'a String, &'a Value)>,
    form: &Form,
) {
    for (name, value) in members {
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, name.as_bytes());
        form.put(&mut entry, 2, value);
        put_bytes(out, number, &entry);
    }
}

fn extensions(members: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    members.iter().filter(|(name, _)| name.starts_with("x-"))
}

fn put_whole(out: &mut Vec<u8>, number: u32, value: u64) {
    put_tag(out, number, WireType::Varint);
    put_varint(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A value as field 1.
    fn check(form: &Form, value: Value, expected: &[u8]) {
        let mut out = Vec::new();
        form.put(&mut out, 1, &value);
        assert_eq!(out, expected, "{value}");
    }

    #[test]
    fn values_are_written_as_their_fields() {
        check(&Text, json!("ab"), b"\x0a\x02ab");
        check(&Flag, json!(true), b"\x08\x01");
        check(&Whole, json!(300), b"\x08\xac\x02");
        check(&Number, json!(1), b"\x09\0\0\0\0\0\0\xf0\x3f");
        check(&Any, json!({"a": 1}), b"\x0a\x09\x12\x07{\"a\":1}");
        check(&Each(&Text), json!(["a", "b"]), b"\x0a\x01a\x0a\x01b");
        check(&Within(2, &Text), json!("a"), b"\x0a\x03\x12\x01a");
        check(
            &Entries(1, &Text),
            json!({"k": "v"}),
            b"\x0a\x08\x0a\x06\x0a\x01k\x12\x01v",
        );
    }

    #[test]
    fn values_of_the_wrong_type_are_dropped() {
        check(&Text, json!(1), b"");
        check(&Each(&Text), json!("a"), b"");
    }

    #[test]
    fn a_schema_keeps_its_references_types_and_extensions() {
        let schema = json!({ "type": "array", "items": { "$ref": "#/x" }, "x-kubernetes-list-type": "set", "oneOf": [] });
        let expected: &[&[u8]] = &[
            b"\xb2\x01\x07\x0a\x05array",
            b"\xba\x01\x07\x0a\x05\x0a\x03#/x",
            b"\xfa\x01\x21\x0a\x16x-kubernetes-list-type\x12\x07\x12\x05\"set\"",
        ];
        assert_eq!(SCHEMA.encode(&schema), expected.concat());
    }
}
