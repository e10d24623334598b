//! Object states in little memory.
//! A board has every object of a cluster, because the fields that a change changed can be told only with the state
//! before. Most of its objects are never displayed, so they are packed, without managed fields.

use std::sync::Arc;

use watchkeeper_meta::GroupVersionKind;
use watchkeeper_recording::Packed;
use watchkeeper_wire::{Encoding, Object, ObjectOptions};

/// A packed object. Clones share memory.
#[derive(Clone, Debug)]
pub struct Kept {
    bytes: Packed,
    kind: Arc<GroupVersionKind>,
    encoding: Encoding,
}

impl Kept {
    /// Packs an object against the first of the others that is similar.
    pub(crate) fn new<'a>(object: &Object, others: impl IntoIterator<Item = &'a Self>) -> Self {
        let (kind, encoding) = (object.group_version_kind(), object.encoding());
        // Managed fields are more than half of an object.
        let slim = Object::from_item(encoding, object.bytes(), kind, &ObjectOptions::default());
        let slim = slim.as_ref().unwrap_or(object);
        let others = others.into_iter().map(|other| &other.bytes);
        Self {
            bytes: Packed::new(slim.bytes(), others),
            kind: kind.clone(),
            encoding,
        }
    }

    /// The object; `None` cannot happen, since the bytes were read before.
    pub fn object(&self) -> Option<Object> {
        let (bytes, options) = (self.bytes.unpack(), ObjectOptions::default());
        Object::from_item(self.encoding, &bytes, &self.kind, &options).ok()
    }

    /// True if others can be packed against it.
    pub(crate) fn is_whole(&self) -> bool {
        self.bytes.is_whole()
    }

    /// The size of the object in bytes.
    pub(crate) fn unpacked_size(&self) -> usize {
        self.bytes.len()
    }

    /// The memory of this object alone.
    #[cfg(test)]
    pub(crate) fn own_size(&self) -> usize {
        self.bytes.own_size()
    }
}
