//! Reads and writes field sets as text, without an intermediate value: every write reads the sets of all managers.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

use super::{FieldSet, FieldSetError, MAX_DEPTH, Node, PathElement};

impl FieldSet {
    /// Reads the text written by [`write_json`](Self::write_json): steps are taken as canonical.
    pub fn read_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let node = NodeReader { depth: MAX_DEPTH }.deserialize(&mut json)?;
        json.end()?;
        Ok(node.below)
    }

    /// Appends the wire form, on one line and sorted.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write_node(false, out);
    }

    fn write_node(&self, member: bool, out: &mut Vec<u8>) {
        out.push(b'{');
        if member && !self.is_empty() {
            out.extend_from_slice(b"\".\":{}");
        }
        for (element, node) in &self.children {
            if out.last() != Some(&b'{') {
                out.push(b',');
            }
            write_text(element.as_str(), out);
            out.push(b':');
            node.below.write_node(node.member, out);
        }
        out.push(b'}');
    }
}

/// True if a text needs no escapes in JSON.
fn is_plain(text: &str) -> bool {
    // Steps are short: testing every byte is faster than searching for the first.
    let is_odd = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    !text.bytes().fold(false, |odd, byte| odd | is_odd(byte))
}

/// Appends the step of a field in quotes.
pub(crate) fn write_field(name: &str, out: &mut Vec<u8>) {
    if is_plain(name) {
        out.extend_from_slice(b"\"f:");
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    } else {
        write_text(PathElement::field(name).as_str(), out);
    }
}

/// Appends a step in quotes.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    if text.bytes().any(|byte| byte < 0x20) {
        out.extend_from_slice(Value::from(text).to_string().as_bytes());
        return;
    }
    out.reserve(2 * text.len() + 2);
    out.push(b'"');
    if is_plain(text) {
        out.extend_from_slice(text.as_bytes());
    } else {
        // Keys and values are JSON themselves and contain quotes.
        for byte in text.bytes() {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
    }
    out.push(b'"');
}

/// Appends a text as JSON.
pub(super) fn push_text(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

/// Appends a value as JSON.
pub(super) fn push_value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => push_text(out, text),
        // Writing to a string cannot fail.
        other => drop(write!(out, "{other}")),
    }
}

/// Reads one object of the tree.
struct NodeReader {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for NodeReader {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NodeReader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field set, which is made of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let Some(depth) = self.depth.checked_sub(1) else {
            return Err(A::Error::custom(FieldSetError::TooDeep));
        };
        let mut node = Node::default();
        let mut is_empty = true;
        while let Some(step) = entries.next_key_seed(StepReader)? {
            let below = entries.next_value_seed(NodeReader { depth })?;
            is_empty = false;
            match &*step {
                "." => node.member = true,
                step => {
                    let element = PathElement::stored(step).map_err(A::Error::custom)?;
                    node.below.add(|| element, below);
                }
            }
        }
        // An empty object is a path in the set.
        node.member |= is_empty;
        Ok(node)
    }
}

/// Reads a step; copies it only if it has escapes.
struct StepReader;

impl<'de> DeserializeSeed<'de> for StepReader {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for StepReader {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step of a field path")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

impl PathElement {
    /// A step whose text is known to be canonical.
    fn stored(text: &str) -> Result<Self, FieldSetError> {
        match text.as_bytes() {
            [b'f' | b'k' | b'v' | b'i', b':', ..] => Ok(Self(text.into())),
            _ => Err(FieldSetError::Step(text.to_owned())),
        }
    }
}
