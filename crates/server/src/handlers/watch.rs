//! A watch of a collection or of one object.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use watchkeeper_meta::{FieldSelector, Status, WatchOptions};
use watchkeeper_registry::{Definition, Watch, WatchItem};

use super::objects::{definition, form};
use super::websocket;
use crate::faults::{Action, Faults};
use crate::filter::Call;
use crate::forms::{self, Form};
use crate::metrics::WatchSeries;
use crate::negotiate::Offer;
use crate::respond::{self, Answer, Failure};
use crate::route::ResourceRoute;
use crate::stream::{Opened, guarded};

pub(super) async fn watch(call: &mut Call, route: &ResourceRoute) -> Result<Answer, Failure> {
    let form = form(call, route, Offer::Stream)?;
    let definition = definition(call, route)?;
    let mut options = WatchOptions::from_query(call.query())?;
    if let Some(name) = &route.name {
        options.field_selector = only(name, &options.field_selector)?;
    }
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let watch = call
        .server
        .registry
        .watch(&definition, namespace, &options)
        .await?;
    let faults = call.server.faults.clone();
    let opened = Opened::new(faults.clone(), call.requester(), call.info.clone());
    let stream = opened.id();
    let (is_websocket, is_running) = (websocket::is_requested(call), opened.is_running());
    // A WebSocket needs a message per frame, and event faults need frames one by one.
    let of_events = faults.clone();
    let takes_pieces = move || !is_websocket && is_running() && !of_events.may_affect_events();
    let frames = Box::new(Frames {
        watch,
        form,
        is_first: true,
        takes_pieces,
        event_faults: EventFaults { faults, stream },
        series: call.server.metrics.watches_of(route),
    });
    let frames = unfold(frames, async |mut frames| Some((frames.next().await?, frames)));
    let (counts, over_socket) = (call.server.counts.clone(), call.over_socket);
    let frames = frames.inspect(move |_| counts.piece_sent(over_socket));
    let format = form.accepted.format;
    if is_websocket {
        return websocket::answer(call, format, guarded(frames, opened));
    }
    Ok(match is_compressed(call, &options) {
        true => respond::gzip_stream(format, guarded(frames.map(respond::gzip_piece), opened)),
        false => respond::stream(format, guarded(frames, opened)),
    })
}

/// True for a watch that begins with the existing objects, if its client accepts gzip.
fn is_compressed(call: &Call, options: &WatchOptions) -> bool {
    options.send_initial_events == Some(true)
        && call.server.registry.feature_gates().watch_list_compression
        && respond::takes_gzip(&call.head.headers)
}

/// The selector of a watch on one object: the path names it, and the query must not name another.
fn only(name: &str, selector: &FieldSelector) -> Result<FieldSelector, Status> {
    if !selector.is_everything() && selector.exact_value("metadata.name") != Some(name) {
        let text = "fieldSelector metadata.name doesn't match requested name";
        return Err(Status::bad_request(text));
    }
    Ok(FieldSelector::name(name))
}

/// The size at which gathered frames are sent; only a larger single frame exceeds it.
///
/// Many events may be available at once, and each piece costs an HTTP frame, a TLS record and a system call on both
/// sides: more than copying a small event.
const MAX_GATHERED_BYTES: usize = 64 * 1024;

/// The items of a watch as frames; frames available at the same time are sent as one piece. An item that cannot be
/// encoded ends the watch with an error.
struct Frames<P> {
    watch: Watch,
    form: Form,
    /// True if no frame was encoded yet.
    is_first: bool,
    /// True if frames may be gathered.
    takes_pieces: P,
    event_faults: EventFaults,
    series: Arc<WatchSeries>,
}

/// The injected faults of one stream's events.
struct EventFaults {
    faults: Arc<Faults>,
    stream: u64,
}

impl EventFaults {
    /// Delays an item as injected; false if it must be dropped.
    async fn delay_or_drop(&self, definition: &Definition, item: &WatchItem) -> bool {
        if !self.faults.may_affect_events() {
            return true;
        }
        match self.on(definition, item) {
            Some(Action::DelayEvent(delay)) => tokio::time::sleep(delay).await,
            // The task that polls this stream applies the flow before it takes the event.
            Some(Action::Flow(_)) => tokio::task::yield_now().await,
            Some(Action::WithholdBookmark) => return false,
            _ => {}
        }
        true
    }

    fn on(&self, definition: &Definition, item: &WatchItem) -> Option<Action> {
        match item {
            WatchItem::Event(event) => {
                let header = event.object.header(definition).ok()?;
                let object = (&*header.namespace, &*header.name);
                self.faults.on_event(self.stream, Some(object))
            }
            WatchItem::Bookmark { .. } => self.faults.on_event(self.stream, None),
            WatchItem::Error(_) => None,
        }
    }
}

impl<P: Fn() -> bool> Frames<P> {
    /// The next piece; `None` when the watch has ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if (self.takes_pieces)()
                && let Some(piece) =
                    forms::initial_frames(&mut self.watch, self.form, |bytes| self.series.sent(bytes))
            {
                match piece {
                    Ok(piece) => return Some(piece),
                    Err(status) => self.watch.fail(status),
                }
            }
            let item = self.watch.next().await?;
            if !self
                .event_faults
                .delay_or_drop(self.watch.definition(), &item)
                .await
            {
                continue;
            }
            if let Some(first) = self.frame(&item) {
                return Some(match (self.takes_pieces)() {
                    true => self.gathered(first),
                    false => first,
                });
            }
        }
    }

    /// Encodes one frame; `None` if it cannot be encoded.
    fn frame(&mut self, item: &WatchItem) -> Option<Bytes> {
        match forms::frame(self.watch.definition(), item, self.form, self.is_first) {
            Ok(frame) => {
                self.is_first = false;
                self.series.sent(frame.len());
                Some(frame)
            }
            Err(status) => {
                // The error becomes the next and last item.
                if !matches!(item, WatchItem::Error(_)) {
                    self.watch.fail(status);
                }
                None
            }
        }
    }

    /// Gathers a frame and the others that are available. None waits; later ones are sent next.
    fn gathered(&mut self, first: Bytes) -> Bytes {
        let (mut size, mut more) = (first.len(), Vec::new());
        while size < MAX_GATHERED_BYTES
            && let Some(item) = self.watch.next_taken()
        {
            if let Some(frame) = self.frame(&item) {
                size += frame.len();
                more.push(frame);
            }
        }
        if more.is_empty() {
            return first;
        }
        let mut all = BytesMut::with_capacity(size);
        all.extend_from_slice(&first);
        more.iter().for_each(|frame| all.extend_from_slice(frame));
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_meta::GroupVersionResource;
    use watchkeeper_registry::{Body, Format, IncludeObject, Registry, WriteContext};
    use watchkeeper_storage::{Store, StoreOptions};

    use super::*;
    use crate::negotiate::Accepted;

    struct Bench(Registry);

    impl Bench {
        async fn start() -> Self {
            let store = Store::memory(StoreOptions::default());
            Self(Registry::open(store).await.unwrap())
        }

        /// A watch of the config maps from now on.
        async fn watch(&self, takes_pieces: bool) -> Frames<impl Fn() -> bool> {
            let definition = GroupVersionResource::new("", "v1", "configmaps");
            let definition = self.0.definition(&definition).unwrap();
            let options = WatchOptions {
                resource_version: self.0.store().current_revision().get().into(),
                ..WatchOptions::default()
            };
            Frames {
                watch: self.0.watch(&definition, "", &options).await.unwrap(),
                form: Form {
                    accepted: Accepted::FALLBACK,
                    include: IncludeObject::None,
                    clock: self.0.clock(),
                },
                is_first: true,
                takes_pieces: move || takes_pieces,
                event_faults: EventFaults {
                    faults: Arc::default(),
                    stream: 0,
                },
                series: Arc::default(),
            }
        }

        async fn create(&self, name: &str, text: &str) {
            let definition = GroupVersionResource::new("", "v1", "configmaps");
            let definition = self.0.definition(&definition).unwrap();
            let object = json!({"metadata": {"name": name}, "data": {"text": text}}).to_string();
            let body = Body {
                format: Format::Json,
                bytes: object.as_bytes(),
            };
            let context = WriteContext::default();
            let created = self.0.create(&definition, "default", body, &context);
            created.await.unwrap();
        }
    }

    /// The types and names of the events in a piece.
    fn shown(piece: &[u8]) -> String {
        let lines = piece.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events = lines.map(|line| {
            let event: serde_json::Value = serde_json::from_slice(line).unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            format!("{} {name}", event["type"].as_str().unwrap())
        });
        events.collect::<Vec<_>>().join(", ")
    }

    #[tokio::test]
    async fn available_events_are_sent_together_and_none_waits() {
        let bench = Bench::start().await;
        let (mut together, mut each) = (bench.watch(true).await, bench.watch(false).await);
        for name in ["a", "b", "c"] {
            bench.create(name, "").await;
        }
        let pieces = (together.next().await.unwrap(), each.next().await.unwrap());
        assert_eq!(shown(&pieces.0), "ADDED a, ADDED b, ADDED c");
        assert_eq!(shown(&pieces.1), "ADDED a");
    }

    #[tokio::test]
    async fn a_full_piece_is_sent() {
        let bench = Bench::start().await;
        let mut frames = bench.watch(true).await;
        for name in ["a", "b", "c"] {
            bench.create(name, &"x".repeat(MAX_GATHERED_BYTES / 2)).await;
        }
        assert_eq!(shown(&frames.next().await.unwrap()), "ADDED a, ADDED b");
        assert_eq!(shown(&frames.next().await.unwrap()), "ADDED c");
    }

    #[tokio::test]
    async fn an_event_that_cannot_be_encoded_ends_the_watch() {
        let bench = Bench::start().await;
        let mut frames = bench.watch(true).await;
        bench.create("a", "").await;
        let key = "/registry/configmaps/default/damaged";
        let damaged = bench.0.store().create(key, "no object".into(), None);
        damaged.await.unwrap();
        bench.create("b", "").await;
        assert_eq!(shown(&frames.next().await.unwrap()), "ADDED a, ERROR ");
        assert!(frames.next().await.is_none());
    }
}
