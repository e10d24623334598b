//! A list as a stream of its objects; the body is never in memory as a whole.
//!
//! Each [`Object`] is copied out of its chunk, so that none keeps a buffer alive. An object that cannot be decoded is
//! an item of its own; the stream continues.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_core::Stream;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use watchkeeper_meta::{GroupVersion, GroupVersionKind, Status};
use watchkeeper_wire::{Encoding, ListHead, ListSplitter, Object, ObjectOptions, RawObject, WireError};

use crate::dynamic::{Answer, Asked};
use crate::error::{Error, ErrorKind};
use crate::transport::Body;

/// The objects of a list and its metadata.
#[derive(Clone, Debug, Default)]
pub struct ObjectList {
    /// Version, continue token and count.
    pub head: ListHead,
    /// The objects, in the server's order.
    pub items: Vec<Object>,
    /// The items that could not be decoded.
    pub undecodable: Vec<Undecodable>,
}

/// One item of a list.
#[derive(Clone, Debug)]
pub enum ListItem {
    /// An object.
    Object(Object),
    /// An item that could not be decoded.
    Undecodable(Undecodable),
}

/// An item or event that could not be decoded.
#[derive(Clone)]
pub struct Undecodable {
    /// The number of items or events before it.
    pub position: usize,
    /// The bytes.
    pub bytes: Bytes,
    /// The error.
    pub error: WireError,
}

impl fmt::Debug for Undecodable {
    /// Omits the bytes, which may be secret and long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undecodable")
            .field("position", &self.position)
            .field("bytes", &self.bytes.len())
            .field("error", &self.error)
            .finish()
    }
}

/// The objects of a list as they arrive. After the last one, [`ListStream::head`] is complete.
pub struct ListStream {
    body: Body,
    asked: Asked,
    splitter: ListSplitter,
    encoding: Encoding,
    /// Bytes that have arrived but were not split yet.
    chunk: Bytes,
    kind: Arc<GroupVersionKind>,
    kept: ObjectOptions,
    position: usize,
    state: State,
}

/// An item of a list, in its buffer.
pub(crate) struct Item<'a> {
    raw: RawObject<'a>,
    kind: &'a Arc<GroupVersionKind>,
    kept: &'a ObjectOptions,
    /// The number of items before it.
    position: usize,
}

enum State {
    /// The list's own kind is not known yet: a separate splitter looks for it, up to the first item.
    Beginning(Box<ListSplitter>),
    Arriving,
    Ended,
}

impl ListStream {
    pub(crate) fn new(answer: Answer, kind: Arc<GroupVersionKind>, kept: ObjectOptions) -> Self {
        let Answer {
            body,
            encoding,
            asked,
        } = answer;
        Self {
            body,
            asked,
            splitter: ListSplitter::new(encoding),
            encoding,
            chunk: Bytes::new(),
            kind,
            kept,
            position: 0,
            state: State::Beginning(Box::new(ListSplitter::new(encoding))),
        }
    }

    /// The list's metadata, as far as it has arrived.
    pub fn head(&self) -> &ListHead {
        self.splitter.head()
    }

    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Reads the whole list.
    pub async fn collect(mut self) -> Result<ObjectList, Error> {
        let mut list = ObjectList::default();
        while let Some(item) = self.next().await.transpose()? {
            match item {
                ListItem::Object(object) => list.items.push(object),
                ListItem::Undecodable(undecodable) => list.undecodable.push(undecodable),
            }
        }
        list.head = self.head().clone();
        Ok(list)
    }

    /// The next item, converted in place by `make`.
    pub(crate) fn poll_made<T>(
        &mut self,
        cx: &mut Context<'_>,
        make: impl Fn(Item<'_>) -> T,
    ) -> Poll<Option<Result<T, Error>>> {
        loop {
            if !self.chunk.is_empty() {
                match self.split(&make) {
                    Ok(Some(item)) => return Poll::Ready(Some(Ok(item))),
                    Ok(None) => {}
                    Err(error) => return self.fail(ErrorKind::Decode(error.to_string())),
                }
            }
            if matches!(self.state, State::Ended) {
                return Poll::Ready(None);
            }
            match ready!(self.body.poll_chunk(cx)) {
                Some(Ok(chunk)) => self.chunk = chunk,
                Some(Err(error)) => return self.fail(error),
                None => return self.end(),
            }
            if let Err(error) = self.learn_kind() {
                return self.fail(ErrorKind::Decode(error.to_string()));
            }
        }
    }

    /// The next item of the current chunk, if the fast path applies.
    fn split_object(&mut self) -> Option<Object> {
        let mut rest = &self.chunk[..];
        let object = self.splitter.next_object(&mut rest, &self.kind, &self.kept);
        let used = self.chunk.len() - rest.len();
        self.chunk.advance(used);
        self.position += usize::from(object.is_some());
        object
    }

    /// The next item of the current chunk; `None` when the chunk is used up.
    fn split<T>(&mut self, make: impl Fn(Item<'_>) -> T) -> Result<Option<T>, WireError> {
        let mut rest = &self.chunk[..];
        let Some(bytes) = self.splitter.next(&mut rest)? else {
            self.chunk.clear();
            return Ok(None);
        };
        let item = make(Item {
            raw: RawObject::item(self.encoding, bytes),
            kind: &self.kind,
            kept: &self.kept,
            position: self.position,
        });
        self.position += 1;
        let used = self.chunk.len() - rest.len();
        self.chunk.advance(used);
        Ok(Some(item))
    }

    /// Finds the kind of the list, which may differ from the requested one: a server without metadata-only answers
    /// sends whole objects. Servers state it before the first item.
    fn learn_kind(&mut self) -> Result<(), WireError> {
        let State::Beginning(scout) = &mut self.state else {
            return Ok(());
        };
        if scout.next(&mut &self.chunk[..])?.is_none() {
            return Ok(());
        }
        let head = scout.head();
        if let Some(item_kind) = head.item_kind().filter(|kind| *kind != self.kind.kind) {
            let version: GroupVersion = head.api_version.parse()?;
            self.kind = Arc::new(version.with_kind(item_kind.to_owned()));
        }
        self.state = State::Arriving;
        Ok(())
    }

    /// Ends the stream: the rest of the chunk would only fail again.
    fn fail<T>(&mut self, kind: impl Into<ErrorKind>) -> Poll<Option<Result<T, Error>>> {
        self.state = State::Ended;
        self.chunk.clear();
        Poll::Ready(Some(Err(self.asked.error(kind))))
    }

    /// The body has ended: the list must have ended too.
    fn end<T>(&mut self) -> Poll<Option<Result<T, Error>>> {
        if let Err(error) = self.splitter.finish() {
            return self.fail(ErrorKind::Decode(error.to_string()));
        }
        self.state = State::Ended;
        match self.head().kind.as_str() {
            // Some deletions of collections are answered with a Status.
            Status::KIND => Poll::Ready(None),
            // The lists of custom kinds may have any name.
            kind if kind.ends_with("List") || self.splitter.has_items() => Poll::Ready(None),
            kind => {
                let reason = format!("it is a {kind:?}, not a list");
                self.fail(ErrorKind::Decode(reason))
            }
        }
    }
}

impl Stream for ListStream {
    type Item = Result<ListItem, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.split_object() {
            Some(object) => Poll::Ready(Some(Ok(ListItem::Object(object)))),
            None => self.poll_made(cx, |item| item.copy()),
        }
    }
}

impl Item<'_> {
    fn copy(self) -> ListItem {
        match Object::from_raw(self.raw, self.kind, self.kept) {
            Ok(object) => ListItem::Object(object),
            Err(error) => ListItem::Undecodable(Undecodable {
                position: self.position,
                bytes: Bytes::copy_from_slice(self.raw.bytes),
                error,
            }),
        }
    }

    /// Decodes the item directly into a struct.
    pub(crate) fn decode<K: DeserializeOwned>(self) -> Result<K, (usize, WireError)> {
        let decoded = self.raw.decode_kept(self.kind, self.kept);
        decoded.map_err(|error| (self.position, error))
    }
}

impl fmt::Debug for ListStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListStream")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}
