//! An object as caches, queues and handlers share it: its bytes, with a small header beside them.
//!
//! The bytes are copied once from the stream into a single allocation of the exact size, which also holds the
//! reference count and the header. An object therefore never keeps a larger buffer alive, a clone is one increment,
//! and an object nobody decodes is never decoded.
//!
//! ```text
//! ┌───────┬─────────────────────────────────────────────┬──────────────────────────────┬─────────────────┐
//! │ count │ head: type, encoding, spans of name, uid, … │ the object's bytes           │ unescaped texts │
//! └───────┴─────────────────────────────────────────────┴──────────────────────────────┴─────────────────┘
//! ```
//!
//! The last part is empty unless a JSON name or version was written with escapes, which no server does. Labels,
//! annotations, owners and finalizers are read from the bytes on demand.

mod convert;
mod head;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use triomphe::ThinArc;
use watchkeeper_meta::{GroupVersionKind, Header, ObjectKey, OwnerReference, ResourceVersion, Time};

use self::head::{Head, Span};
use crate::kept::{with_joined, with_kept};
use crate::protobuf::Envelope;
use crate::raw_object::api_version;
use crate::{Encoding, FieldMask, RawObject, TextPairs, WireError, json, protobuf};

/// An object: its header and its bytes behind one reference count.
///
/// ```
/// use watchkeeper_wire::{Object, ObjectOptions};
///
/// let json = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","resourceVersion":"7"}}"#;
/// let pod = Object::from_json(json, &ObjectOptions::default())?;
/// assert_eq!(pod.key().to_string(), "ns/a");
/// assert_eq!((pod.kind(), pod.resource_version()), ("Pod", "7"));
/// # Ok::<(), watchkeeper_wire::WireError>(())
/// ```
#[derive(Clone)]
pub struct Object(ThinArc<Head, u8>);

/// Options of copying an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectOptions {
    /// Keep `metadata.managedFields`. By default they are dropped: they are more than half of an object's bytes and
    /// used only by server-side apply.
    pub keep_managed_fields: bool,
}

/// Constructors.
impl Object {
    /// Copies an item of a list, whose type the list states. A type stated by the item itself takes precedence.
    pub fn from_item(
        encoding: Encoding,
        bytes: &[u8],
        kind: &Arc<GroupVersionKind>,
        options: &ObjectOptions,
    ) -> Result<Self, WireError> {
        Self::from_raw(RawObject::item(encoding, bytes), kind, options)
    }

    /// Copies an object of a watch. Its type is nearly always the expected one, which is then shared.
    pub fn from_raw(
        raw: RawObject<'_>,
        expected: &Arc<GroupVersionKind>,
        options: &ObjectOptions,
    ) -> Result<Self, WireError> {
        if raw.encoding == Encoding::Json
            && let Some((object, length)) = Self::from_json_front(raw.bytes, expected, options)
            && length == raw.bytes.len()
        {
            return Ok(object);
        }
        Self::from_raw_carefully(raw, expected, options)
    }

    fn from_raw_carefully(
        raw: RawObject<'_>,
        expected: &Arc<GroupVersionKind>,
        options: &ObjectOptions,
    ) -> Result<Self, WireError> {
        with_kept(raw.encoding, raw.bytes, options, |body| {
            let header = match raw.encoding {
                Encoding::Json => json::item_identity(body)?,
                Encoding::Protobuf => protobuf_header(body, raw.api_version, raw.kind)?,
            };
            Self::assemble(raw.encoding, body, &header, Some(expected))
        })
    }

    /// Copies a JSON object that states its type.
    pub fn from_json(bytes: &[u8], options: &ObjectOptions) -> Result<Self, WireError> {
        with_kept(Encoding::Json, bytes, options, |body| {
            Self::assemble(Encoding::Json, body, &json::header(body)?, None)
        })
    }

    /// Copies a protobuf object out of its envelope.
    pub fn from_protobuf(envelope: &[u8], options: &ObjectOptions) -> Result<Self, WireError> {
        let Envelope {
            api_version,
            kind,
            raw,
        } = Envelope::read(envelope)?;
        with_kept(Encoding::Protobuf, raw, options, |body| {
            let header = protobuf_header(body, api_version, kind)?;
            Self::assemble(Encoding::Protobuf, body, &header, None)
        })
    }

    /// Copies the JSON object at the front of `bytes` if it is as servers write it, and returns its length.
    pub(crate) fn from_json_front(
        bytes: &[u8],
        expected: &Arc<GroupVersionKind>,
        options: &ObjectOptions,
    ) -> Option<(Self, usize)> {
        let mut outline = json::Outline::of(bytes)?;
        if options.keep_managed_fields {
            outline.managed_fields = 0..0;
        }
        let head = Head::outlined(bytes, &outline, expected)?;
        let (front, back) = outline.kept(bytes);
        let object = match front {
            [] => ThinArc::from_header_and_slice(head, back),
            _ => with_joined(front, back, |body| ThinArc::from_header_and_slice(head, body)),
        };
        Some((Self(object), outline.length))
    }

    /// The same object with only the fields of a mask. An object of another kind than the mask's is unchanged.
    pub fn masked(&self, mask: &FieldMask) -> Self {
        if mask.kind() != (&*self.api_version(), self.kind()) {
            return self.clone();
        }
        // The bytes were read when the object was made: only an unread field can be malformed, and it stays.
        self.try_masked(mask).unwrap_or_else(|_| self.clone())
    }

    fn try_masked(&self, mask: &FieldMask) -> Result<Self, WireError> {
        let body = mask.copy(self.encoding(), self.bytes())?;
        let header = match self.encoding() {
            Encoding::Json => json::item_identity(&body)?,
            Encoding::Protobuf => protobuf::header::identity(&body)?,
        };
        Self::assemble(self.encoding(), &body, &header, Some(self.group_version_kind()))
    }

    fn assemble(
        encoding: Encoding,
        body: &[u8],
        header: &Header<'_>,
        expected: Option<&Arc<GroupVersionKind>>,
    ) -> Result<Self, WireError> {
        let (head, tail) = Head::new(encoding, body, header, expected)?;
        if tail.is_empty() {
            return Ok(Self(ThinArc::from_header_and_slice(head, body)));
        }
        Ok(Self(ThinArc::from_header_and_slice(
            head,
            &[body, tail.as_bytes()].concat(),
        )))
    }
}

/// Fields known without reading the bytes.
impl Object {
    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text(self.head().name)
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.text(self.head().namespace)
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text(self.head().uid)
    }

    /// `metadata.resourceVersion` as text; empty on objects that were never stored.
    pub fn resource_version(&self) -> &str {
        self.text(self.head().resource_version)
    }

    /// The object's resourceVersion.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::new(self.resource_version())
    }

    /// `metadata.generation`; 0 if the kind has none.
    pub fn generation(&self) -> i64 {
        self.head().generation
    }

    /// True if `metadata.deletionTimestamp` is set.
    pub fn is_deleting(&self) -> bool {
        self.head().is_deleting
    }

    /// The object's namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// The bytes of namespace and name, for comparing many keys: checking that bytes are UTF-8 costs more than
    /// comparing them.
    pub fn key_bytes(&self) -> (&[u8], &[u8]) {
        let head = self.head();
        (self.text_bytes(head.namespace), self.text_bytes(head.name))
    }

    /// The object's type.
    pub fn group_version_kind(&self) -> &Arc<GroupVersionKind> {
        &self.head().kind
    }

    /// The object's kind.
    pub fn kind(&self) -> &str {
        &self.head().kind.kind
    }

    /// The object's `apiVersion`.
    pub fn api_version(&self) -> Cow<'_, str> {
        api_version(&self.head().kind)
    }

    /// The encoding of [`bytes`](Self::bytes).
    pub fn encoding(&self) -> Encoding {
        self.head().encoding
    }

    /// The object as it was sent, without `managedFields` unless they were kept.
    ///
    /// Items of built-in lists do not state their type in JSON; [`to_json`](Self::to_json) adds it. In protobuf this
    /// is the object's own message, without the envelope.
    pub fn bytes(&self) -> &[u8] {
        &self.0.slice[..self.head().body_len as usize]
    }

    /// True if both are the same version of the same object, in any encoding.
    pub fn is_same_version(&self, other: &Self) -> bool {
        let (one, two) = (self.head(), other.head());
        self.text_bytes(one.resource_version) == other.text_bytes(two.resource_version)
            && self.text_bytes(one.uid) == other.text_bytes(two.uid)
    }

    /// True if both share the same memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        std::ptr::eq(self.head(), other.head())
    }

    /// The memory of the object in bytes, shared by all clones; its shared type is not counted.
    pub fn memory_size(&self) -> usize {
        let count_and_length = 2 * size_of::<usize>();
        count_and_length + size_of::<Head>() + self.0.slice.len()
    }

    fn head(&self) -> &Head {
        &self.0.header.header
    }

    fn text(&self, span: Span) -> &str {
        span.of(&self.0.slice)
    }

    fn text_bytes(&self, span: Span) -> &[u8] {
        span.bytes(&self.0.slice)
    }
}

/// Fields read from the bytes on each call.
impl Object {
    /// The whole header.
    pub fn header(&self) -> Header<'_> {
        let header = match self.encoding() {
            Encoding::Json => json::item_header(self.bytes()).ok(),
            Encoding::Protobuf => protobuf::header::header(self.bytes()).ok(),
        };
        // The bytes were read when the object was made, so this cannot fail.
        let mut header = header.unwrap_or_default();
        header.api_version = self.api_version();
        header.kind = Cow::Borrowed(self.kind());
        header
    }

    /// `metadata.labels`, in the order of the bytes.
    pub fn labels(&self) -> TextPairs<'_> {
        let labels = match self.encoding() {
            Encoding::Json => json::labels(self.bytes()).ok(),
            Encoding::Protobuf => protobuf::header::labels(self.bytes()).ok(),
        };
        labels.unwrap_or_default()
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        find(self.labels(), key)
    }

    /// `metadata.annotations`, in the order of the bytes; none if they are malformed.
    pub fn annotations(&self) -> TextPairs<'_> {
        let annotations = match self.encoding() {
            Encoding::Json => json::annotations(self.bytes()).ok(),
            Encoding::Protobuf => protobuf::header::annotations(self.bytes()).ok(),
        };
        annotations.unwrap_or_default()
    }

    /// The value of one annotation.
    pub fn annotation(&self, key: &str) -> Option<Cow<'_, str>> {
        find(self.annotations(), key)
    }

    /// `metadata.ownerReferences`.
    pub fn owner_references(&self) -> Vec<OwnerReference<'_>> {
        self.header().owner_references
    }

    /// The owner that is the object's controller, if any.
    pub fn controller(&self) -> Option<OwnerReference<'_>> {
        self.owner_references().into_iter().find(|owner| owner.controller)
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<Cow<'_, str>> {
        self.header().finalizers
    }

    /// `metadata.creationTimestamp`.
    pub fn creation_timestamp(&self) -> Option<Time> {
        self.header().creation_timestamp
    }

    /// `metadata.deletionTimestamp`: set while the object is being deleted.
    pub fn deletion_timestamp(&self) -> Option<Time> {
        self.header().deletion_timestamp
    }
}

impl fmt::Debug for Object {
    /// Prints identity and version only: the bytes may be secret and long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("kind", &self.kind())
            .field("key", &self.key())
            .field("resource_version", &self.resource_version())
            .field("encoding", &self.encoding())
            .field("bytes", &self.bytes().len())
            .finish()
    }
}

impl PartialEq for Object {
    /// Same type and same bytes.
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other)
            || self.group_version_kind() == other.group_version_kind()
                && self.encoding() == other.encoding()
                && self.bytes() == other.bytes()
    }
}

impl Eq for Object {}

fn protobuf_header<'a>(body: &'a [u8], api_version: &'a str, kind: &'a str) -> Result<Header<'a>, WireError> {
    Ok(Header {
        api_version: Cow::Borrowed(api_version),
        kind: Cow::Borrowed(kind),
        ..protobuf::header::identity(body)?
    })
}

fn find<'a>(pairs: TextPairs<'a>, key: &str) -> Option<Cow<'a, str>> {
    pairs
        .into_iter()
        .find(|(found, _)| found == key)
        .map(|(_, value)| value)
}
