//! Splits a list as it arrives into its head and its items.

use std::sync::Arc;

use watchkeeper_meta::GroupVersionKind;

use crate::list_head::ListHead;
use crate::{Encoding, Object, ObjectOptions, WireError, json, protobuf};

/// Cuts the items out of a list in either encoding.
///
/// ```
/// use watchkeeper_wire::{Encoding, ListSplitter};
///
/// let mut splitter = ListSplitter::new(Encoding::Json);
/// let mut items = Vec::new();
/// for mut chunk in [&br#"{"kind":"PodList","items":[{"a":1},{"#[..], br#""b":2}]}"#] {
///     while let Some(item) = splitter.next(&mut chunk)? {
///         items.push(item.to_vec());
///     }
/// }
/// splitter.finish()?;
/// assert_eq!(items, [br#"{"a":1}"#, br#"{"b":2}"#]);
/// assert_eq!(splitter.head().item_kind(), Some("Pod"));
/// # Ok::<(), watchkeeper_wire::WireError>(())
/// ```
#[derive(Debug)]
pub enum ListSplitter {
    /// For `application/json`.
    Json(json::list::ListSplitter),
    /// For `application/vnd.kubernetes.protobuf`.
    Protobuf(protobuf::list::ListSplitter),
}

impl ListSplitter {
    /// Starts at the beginning of a body.
    pub fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(Default::default()),
            Encoding::Protobuf => Self::Protobuf(Default::default()),
        }
    }

    /// The list's own fields read so far; complete after [`finish`](Self::finish).
    ///
    /// Servers send type and metadata before the items, but JSON may have them anywhere.
    pub fn head(&self) -> &ListHead {
        match self {
            Self::Json(splitter) => splitter.head(),
            Self::Protobuf(splitter) => splitter.head(),
        }
    }

    /// The next item; `None` when the chunk is used up. Consumed bytes are removed from the front of `chunk`.
    ///
    /// The slice is part of the chunk if the item is within it, else it is assembled in a buffer.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, WireError> {
        match self {
            Self::Json(splitter) => Ok(splitter.next(chunk)?),
            Self::Protobuf(splitter) => Ok(splitter.next(chunk)?),
        }
    }

    /// The next item as an object, by the fast path: JSON as servers write it, whole in the chunk, is read while it
    /// is split. `None` means only that the fast path does not apply; call [`next`](Self::next).
    ///
    /// The object equals that of [`Object::from_item`].
    #[inline]
    pub fn next_object(
        &mut self,
        chunk: &mut &[u8],
        kind: &Arc<GroupVersionKind>,
        options: &ObjectOptions,
    ) -> Option<Object> {
        match self {
            Self::Json(splitter) => {
                splitter.take_item(chunk, |bytes| Object::from_json_front(bytes, kind, options))
            }
            Self::Protobuf(_) => None,
        }
    }

    /// True if the list has an `items` member. Only JSON can tell, because its items have a name.
    pub fn has_items(&self) -> bool {
        match self {
            Self::Json(splitter) => splitter.has_items(),
            Self::Protobuf(_) => false,
        }
    }

    /// Returns an error unless the list has ended.
    pub fn finish(&self) -> Result<(), WireError> {
        match self {
            Self::Json(splitter) => Ok(splitter.finish()?),
            Self::Protobuf(splitter) => Ok(splitter.finish()?),
        }
    }
}
