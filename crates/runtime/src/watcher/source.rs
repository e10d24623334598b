//! The source of lists and watches.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::{Failure, Input, ListRequest, Versioned, WatchRequest};

/// An answer as it arrives: [`Input::Item`]s and a [`Input::PageEnd`] for a list; [`Input::Added`],
/// [`Input::Modified`], [`Input::Deleted`] and [`Input::Bookmark`] for a watch; [`Input::Failed`] where it breaks.
pub type Answer<O> = BoxStream<'static, Input<O>>;

/// A request in progress.
pub type Opening<O> = BoxFuture<'static, Result<Answer<O>, Failure>>;

/// One resource in one scope on one server, with selectors.
///
/// A source only translates: it neither retries nor waits, which the watcher decides. Dropping what it returns
/// cancels the request.
pub trait Source: Send + Sync + 'static {
    /// The type of the objects.
    type Object: Versioned + Send + 'static;

    /// Requests a list.
    fn list(&self, request: ListRequest) -> Opening<Self::Object>;

    /// Requests a watch with bookmarks.
    fn watch(&self, request: WatchRequest) -> Opening<Self::Object>;

    /// The watched resource, for the log: `deployments.apps`.
    fn name(&self) -> Cow<'_, str> {
        "objects".into()
    }

    /// False if the object is certainly, or possibly, not in its lists and watches.
    fn selects(&self, _object: &Self::Object) -> bool {
        true
    }

    /// False if streaming lists are known not to work.
    fn has_streaming_lists(&self) -> bool {
        true
    }

    /// Records that the server does not support streaming lists of this resource, which saves the next watcher the
    /// attempt.
    fn note_no_streaming_lists(&self) {}
}
