//! Decodes protobuf without a schema into trees of field numbers, to compare two encoders.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A value of unknown type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Number(u64),
    Text(String),
    Message(BTreeMap<u64, Vec<Tree>>),
    Bytes(Vec<u8>),
}

pub(crate) fn decode_base64(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}

impl Tree {
    /// Interprets bytes as text if they look like it, else as a message, else as bytes. Zero values are omitted,
    /// because encoders differ in writing them.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if let Some(rest) = bytes.strip_prefix(b"k8s\0") {
            return message(rest).unwrap_or_else(|| Self::Bytes(bytes.to_vec()));
        }
        let text = std::str::from_utf8(bytes).ok();
        if let Some(text) = text.filter(|text| text.chars().all(|char| char >= ' ' && char != '\x7f')) {
            return Self::Text(text.to_owned());
        }
        let text = || text.map(|text| Self::Text(text.to_owned()));
        message(bytes)
            .or_else(text)
            .unwrap_or_else(|| Self::Bytes(bytes.to_vec()))
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Text(text) => text.is_empty(),
            Self::Message(fields) => fields.values().flatten().all(Self::is_zero),
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

fn message(mut bytes: &[u8]) -> Option<Tree> {
    let mut fields: BTreeMap<u64, Vec<Tree>> = BTreeMap::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = key >> 3;
        if number == 0 || number > 100_000 {
            return None;
        }
        let value = match key & 7 {
            0 => Tree::Number(varint(&mut bytes)?),
            1 => Tree::Bytes(take(&mut bytes, 8)?.to_vec()),
            5 => Tree::Bytes(take(&mut bytes, 4)?.to_vec()),
            2 => {
                let length = varint(&mut bytes)?;
                Tree::of(take(&mut bytes, usize::try_from(length).ok()?)?)
            }
            _ => return None,
        };
        fields.entry(number).or_default().push(value);
    }
    fields.retain(|_, values| values.len() != 1 || !values[0].is_zero());
    Some(Tree::Message(fields))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}
