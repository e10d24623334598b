//! A list as a stream of structs: nothing is kept, and decoding does not wait for the last byte.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use serde::de::DeserializeOwned;
use watchkeeper_wire::ListHead;

use crate::error::Error;
use crate::list::ListStream;

/// The structs of a list as they arrive. After the last one, [`TypedStream::head`] is complete.
///
/// An item that cannot be decoded is an error of its own; the stream continues. It ends after an error of the
/// connection.
pub struct TypedStream<K> {
    items: ListStream,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> TypedStream<K> {
    pub(super) fn new(items: ListStream) -> Self {
        Self {
            items,
            kind: PhantomData,
        }
    }

    /// The list's metadata, as far as it has arrived.
    pub fn head(&self) -> &ListHead {
        self.items.head()
    }

    /// The next struct; `None` at the end of the list.
    pub async fn next(&mut self) -> Option<Result<K, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl<K: DeserializeOwned> Stream for TypedStream<K> {
    type Item = Result<K, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.items.poll_made(cx, |item| item.decode()));
        Poll::Ready(item.map(|item| {
            item?.map_err(|(position, error)| self.items.asked().unreadable_item(position, &error))
        }))
    }
}

impl<K> fmt::Debug for TypedStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}
