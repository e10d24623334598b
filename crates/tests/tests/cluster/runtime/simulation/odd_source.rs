//! A source in which some objects cannot be decoded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{FutureExt, StreamExt};
use watchkeeper_meta::Status;
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::watcher::{Failure, Input, ListRequest, Opening, Source, Unread, WatchRequest};
use watchkeeper_wire::Object;

/// The undecodable objects.
pub(super) struct Odd {
    names: Mutex<BTreeSet<String>>,
    /// True if their names can be decoded.
    named: bool,
}

/// A server's objects, some of them undecodable.
pub(super) struct OddSource {
    source: ApiSource,
    odd: Arc<Odd>,
    expires: AtomicBool,
}

impl Odd {
    pub(super) fn new(named: bool) -> Self {
        Self {
            names: Mutex::default(),
            named,
        }
    }

    pub(super) fn add(&self, name: &str) {
        self.names.lock().expect("not poisoned").insert(name.to_owned());
    }

    pub(super) fn clear(&self) {
        self.names.lock().expect("not poisoned").clear();
    }

    fn has(&self, object: &Object) -> bool {
        self.names.lock().expect("not poisoned").contains(object.name())
    }

    /// Replaces an undecodable object by a failure. A delete of an unknown object is dropped.
    fn garble(&self, input: Input<Object>) -> Input<Object> {
        match input {
            Input::Item(object) | Input::Added(object) | Input::Modified(object) if self.has(&object) => {
                Input::Undecodable(self.failure(&object))
            }
            Input::Deleted(object) if self.has(&object) => Input::Failed(self.failure(&object)),
            input => input,
        }
    }

    fn failure(&self, object: &Object) -> Failure {
        let known = Unread {
            key: Some(object.key()),
            version: object.version(),
            position: 0,
        };
        Failure::Undecodable {
            object: if self.named { known } else { Unread::default() },
            source: Arc::new(std::fmt::Error),
        }
    }
}

impl OddSource {
    pub(super) fn new(source: ApiSource, odd: Arc<Odd>) -> Self {
        Self {
            source,
            odd,
            expires: AtomicBool::new(false),
        }
    }

    /// Another source with the same undecodable objects.
    pub(super) fn twin(&self) -> Self {
        Self::new(self.source.clone(), self.odd.clone())
    }

    /// The next watch is expired.
    pub(super) fn expire(&self) {
        self.expires.store(true, Ordering::Relaxed);
    }

    fn garbled(&self, opening: Opening<Object>) -> Opening<Object> {
        let odd = self.odd.clone();
        async move { Ok(opening.await?.map(move |input| odd.garble(input)).boxed()) }.boxed()
    }
}

impl Source for OddSource {
    type Object = Object;

    fn list(&self, request: ListRequest) -> Opening<Object> {
        self.garbled(self.source.list(request))
    }

    fn watch(&self, request: WatchRequest) -> Opening<Object> {
        if self.expires.swap(false, Ordering::Relaxed) {
            return async { Err(Status::watch_expired().into()) }.boxed();
        }
        self.garbled(self.source.watch(request))
    }

    fn has_streaming_lists(&self) -> bool {
        self.source.has_streaming_lists()
    }

    fn note_no_streaming_lists(&self) {
        self.source.note_no_streaming_lists();
    }
}
