//! Where lists and watches come from.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::{Failure, Input, ListRequest, Versioned, WatchRequest};

/// An answer as it arrives: [`Input::Item`]s and a [`Input::PageEnd`] for a list; [`Input::Added`],
/// [`Input::Modified`], [`Input::Deleted`] and [`Input::Bookmark`] for a watch; [`Input::Failed`] where it breaks.
pub type Answer<O> = BoxStream<'static, Input<O>>;

/// A request under way.
pub type Opening<O> = BoxFuture<'static, Result<Answer<O>, Failure>>;

/// One resource in one scope on one server, with the selectors its user wants.
///
/// A source translates and nothing more: it neither retries nor waits, for the watcher decides about that. What it
/// returns is dropped to end a request.
pub trait Source: Send + Sync + 'static {
    /// What is listed and watched.
    type Object: Versioned + Send + 'static;

    /// Asks for a list.
    fn list(&self, request: ListRequest) -> Opening<Self::Object>;

    /// Asks for a watch with bookmarks.
    fn watch(&self, request: WatchRequest) -> Opening<Self::Object>;

    /// What is listed and watched, for the log: `deployments.apps`.
    fn name(&self) -> Cow<'_, str> {
        "objects".into()
    }

    /// Whether a streaming list is worth a try.
    fn has_streaming_lists(&self) -> bool {
        true
    }

    /// The server has shown that it has no streaming lists of this resource. Whoever remembers it saves the next
    /// watcher the attempt.
    fn note_no_streaming_lists(&self) {}
}
