//! A list as it arrives: its own few words, and its items one by one.

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

    /// What the list has said about itself so far; all of it after [`finish`](Self::finish).
    ///
    /// Servers send the type and the metadata in front of the items, but JSON may have them anywhere.
    pub fn head(&self) -> &ListHead {
        match self {
            Self::Json(splitter) => splitter.head(),
            Self::Protobuf(splitter) => splitter.head(),
        }
    }

    /// The next item; `None` when the chunk is used up. Consumed bytes are taken off the front of `chunk`.
    ///
    /// The slice is a part of the chunk where the item lies within it, and put together once where it does not.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, WireError> {
        match self {
            Self::Json(splitter) => Ok(splitter.next(chunk)?),
            Self::Protobuf(splitter) => Ok(splitter.next(chunk)?),
        }
    }

    /// The next item as an object, if it can be had at once: JSON as servers write it, whole in the chunk, is read as
    /// it is split. `None` says nothing about the item, nor whether there is one: that is for [`next`](Self::next).
    ///
    /// The object is the one that [`Object::from_item`] would make.
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

    /// Whether the list has spoken of its items. Only JSON can tell: there they have a name, whatever the list's
    /// kind is called.
    pub fn has_items(&self) -> bool {
        match self {
            Self::Json(splitter) => splitter.has_items(),
            Self::Protobuf(_) => false,
        }
    }

    /// An error unless the list has ended.
    pub fn finish(&self) -> Result<(), WireError> {
        match self {
            Self::Json(splitter) => Ok(splitter.finish()?),
            Self::Protobuf(splitter) => Ok(splitter.finish()?),
        }
    }
}
