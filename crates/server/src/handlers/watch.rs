//! A collection, or one object, that is followed.

use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use watchkeeper_meta::{FieldSelector, Status, WatchOptions};
use watchkeeper_registry::{Definition, Watch, WatchItem};

use super::objects::{definition, form};
use super::websocket;
use crate::filter::Call;
use crate::forms::{self, Form};
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
    let opened = Opened::new(call.server.faults.clone(), call.info.clone());
    let (is_websocket, is_running) = (websocket::is_asked_for(call), opened.is_running());
    // A WebSocket has a message for each frame.
    let takes_pieces = move || !is_websocket && is_running();
    let frames = frames(watch, definition, form, takes_pieces);
    let frames = guarded(frames, opened, call.server.draining.clone());
    match is_websocket {
        true => websocket::answer(call, form.accepted.encoding, frames),
        false => Ok(respond::stream(form.accepted.encoding, frames)),
    }
}

/// The selector of a watch on one object: the path names it, and the query may not name another.
fn only(name: &str, selector: &FieldSelector) -> Result<FieldSelector, Status> {
    if !selector.is_everything() && selector.exact_value("metadata.name") != Some(name) {
        let text = "fieldSelector metadata.name doesn't match requested name";
        return Err(Status::bad_request(text));
    }
    Ok(FieldSelector::name(name))
}

/// The items of a watch as frames, or several of them as one piece. An item that cannot be written is the last, and says
/// so.
fn frames(
    watch: Watch,
    definition: Arc<Definition>,
    form: Form,
    takes_pieces: impl Fn() -> bool + Send + 'static,
) -> impl Stream<Item = Bytes> + Send {
    let first = true;
    futures_util::stream::unfold(Some((watch, definition, first)), move |state| {
        let takes_pieces = takes_pieces();
        async move {
            let (mut watch, definition, first) = state?;
            let piece = takes_pieces.then(|| forms::initial_frames(&mut watch, form));
            let frames = match piece.flatten() {
                Some(piece) => piece,
                None => forms::frame(&definition, &watch.next().await?, form, first),
            };
            match frames {
                Ok(bytes) => Some((bytes, Some((watch, definition, false)))),
                Err(status) => {
                    let last = forms::frame(&definition, &WatchItem::Error(status), form, first).ok()?;
                    Some((last, None))
                }
            }
        }
    })
}
