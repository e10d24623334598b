//! The header of an object, filled once when it is copied: the spans of its most-read texts.

use std::ops::Range;
use std::sync::Arc;

use watchkeeper_meta::{GroupVersionKind, Header};

use crate::json::Outline;
use crate::limits::OBJECT_LIMIT;
use crate::{Encoding, WireError, utf8};

/// The fixed part of an object. Offsets have 32 bits, far more than [`OBJECT_LIMIT`] needs.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) kind: Arc<GroupVersionKind>,
    pub(super) generation: i64,
    /// Length of the object itself; unescaped texts follow it.
    pub(super) body_len: u32,
    pub(super) name: Span,
    pub(super) namespace: Span,
    pub(super) uid: Span,
    pub(super) resource_version: Span,
    pub(super) encoding: Encoding,
    pub(super) is_deleting: bool,
}

/// The span of a text in an object's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u32,
    length: u32,
}

impl Span {
    /// The text. It was checked when the object was copied.
    pub(super) fn of(self, bytes: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(bytes)).unwrap_or_default()
    }

    /// The bytes, for comparing: checking UTF-8 costs as much as comparing.
    pub(super) fn bytes(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        bytes.get(start..start + self.length as usize).unwrap_or_default()
    }
}

impl Head {
    /// Records the spans of the outline's texts in the kept bytes.
    pub(super) fn outlined(
        bytes: &[u8],
        outline: &Outline,
        expected: &Arc<GroupVersionKind>,
    ) -> Option<Self> {
        let text = |range: &Range<usize>| utf8::check(&bytes[range.clone()]).ok();
        let (api_version, kind) = (text(&outline.api_version)?, text(&outline.kind)?);
        let body_len = outline.length - outline.managed_fields.len();
        if body_len > OBJECT_LIMIT {
            return None;
        }
        let span = |range: &Range<usize>| Span {
            start: outline.kept_offset(range.start) as u32,
            length: range.len() as u32,
        };
        Some(Self {
            kind: object_type(api_version, kind, Some(expected)).ok()?,
            generation: outline.generation,
            body_len: body_len as u32,
            name: span(&outline.name),
            namespace: span(&outline.namespace),
            uid: span(&outline.uid),
            resource_version: span(&outline.resource_version),
            encoding: Encoding::Json,
            is_deleting: outline.is_deleting,
        })
    }

    /// Records the spans of the header's texts in `body`. Texts that are escaped there go into the tail.
    pub(super) fn new(
        encoding: Encoding,
        body: &[u8],
        header: &Header<'_>,
        expected: Option<&Arc<GroupVersionKind>>,
    ) -> Result<(Self, String), WireError> {
        if body.len() > OBJECT_LIMIT {
            return Err(WireError::ObjectTooLarge { bytes: body.len() });
        }
        let mut tail = String::new();
        let mut span = |text: &str| find(text, body, &mut tail);
        let head = Self {
            kind: object_type(&header.api_version, &header.kind, expected)?,
            generation: header.generation,
            body_len: body.len() as u32,
            name: span(&header.name),
            namespace: span(&header.namespace),
            uid: span(&header.uid),
            resource_version: span(&header.resource_version),
            encoding,
            is_deleting: header.deletion_timestamp.is_some(),
        };
        Ok((head, tail))
    }
}

/// The span of the text in the body, or in the tail, to which escaped text is appended.
fn find(text: &str, body: &[u8], tail: &mut String) -> Span {
    let offset = text.as_ptr().addr().wrapping_sub(body.as_ptr().addr());
    let start = match offset < body.len() {
        true => offset,
        false => {
            tail.push_str(text);
            body.len() + tail.len() - text.len()
        }
    };
    Span {
        start: start as u32,
        length: text.len() as u32,
    }
}

/// The stated type, sharing the expected one if they are equal; the expected one if none is stated.
#[inline]
fn object_type(
    api_version: &str,
    kind: &str,
    expected: Option<&Arc<GroupVersionKind>>,
) -> Result<Arc<GroupVersionKind>, WireError> {
    if let Some(expected) = expected {
        let is_stated = || !api_version.is_empty() || !kind.is_empty();
        let is_expected = || {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            expected.kind == kind && expected.version == version && expected.group == group
        };
        if !is_stated() || is_expected() {
            return Ok(expected.clone());
        }
    }
    Ok(Arc::new(GroupVersionKind::from_api_version(api_version, kind)?))
}
