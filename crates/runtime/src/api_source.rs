//! Lists and watches from a server, as the watcher wants them.
//!
//! In flow requests of the watcher, out flow what the client receives; nothing is retried or decided here. A failure
//! is the same however it arrives: as the status of an answer, an `ERROR` event or a broken stream.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use watchkeeper_client::{DynamicApi, Error, ErrorKind, ListItem, ListStream, Undecodable, WatchEvent};
use watchkeeper_meta::{
    FieldSelector, LabelSelector, ListMeta, ListOptions, ResourceVersionMatch, WatchOptions,
};
use watchkeeper_wire::Object;

use crate::watcher::{Failure, Input, ListRequest, Opening, Source, WatchRequest};

/// The annotation of the bookmark that ends the initial objects of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The objects of one resource on a server, in one namespace or all, that selectors match.
#[derive(Clone, Debug)]
pub struct ApiSource {
    api: DynamicApi,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl ApiSource {
    /// Everything the API shows.
    pub fn new(api: DynamicApi) -> Self {
        Self::selected(api, LabelSelector::default(), FieldSelector::default())
    }

    /// What the API shows and the selectors match.
    pub fn selected(api: DynamicApi, labels: LabelSelector, fields: FieldSelector) -> Self {
        Self { api, labels, fields }
    }

    fn list_options(&self, request: ListRequest) -> ListOptions {
        let named = !request.version.is_unset() && !request.version.is_any();
        ListOptions {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            resource_version_match: named.then_some(ResourceVersionMatch::NotOlderThan),
            resource_version: request.version,
            limit: request.limit.map(u64::from),
            continue_token: request.continue_token,
            ..Default::default()
        }
    }

    fn watch_options(&self, request: WatchRequest) -> WatchOptions {
        WatchOptions {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            resource_version: request.version,
            send_initial_events: request.initial_events.then_some(true),
            allow_bookmarks: true,
            timeout_seconds: Some(request.timeout.as_secs().max(1)),
        }
    }
}

impl Source for ApiSource {
    type Object = Object;

    fn list(&self, request: ListRequest) -> Opening<Object> {
        let (api, options) = (self.api.clone(), self.list_options(request));
        async move { Ok(list_inputs(api.list_stream(&options).await.map_err(failure)?)) }.boxed()
    }

    fn watch(&self, request: WatchRequest) -> Opening<Object> {
        let (api, options) = (self.api.clone(), self.watch_options(request));
        async move {
            let events = api.watch(&options).await.map_err(failure)?;
            Ok(events.map(|event| event.map_or_else(failed, watch_input)).boxed())
        }
        .boxed()
    }

    fn has_streaming_lists(&self) -> bool {
        self.api.has_streaming_lists()
    }

    fn note_no_streaming_lists(&self) {
        self.api.note_no_streaming_lists();
    }
}

/// The items of a list, and its end once it has come.
fn list_inputs(list: ListStream) -> BoxStream<'static, Input<Object>> {
    stream::unfold(Some(list), |list| async move {
        let mut list = list?;
        Some(match list.next().await {
            Some(Ok(ListItem::Object(object))) => (Input::Item(object), Some(list)),
            Some(Ok(ListItem::Undecodable(broken))) => (undecodable("list", broken), Some(list)),
            Some(Err(error)) => (failed(error), None),
            None => {
                let head = list.head();
                let meta = ListMeta {
                    resource_version: head.resource_version.clone(),
                    continue_token: head.continue_token.clone(),
                    remaining_item_count: head.remaining_item_count,
                };
                (Input::PageEnd(meta), None)
            }
        })
    })
    .boxed()
}

fn watch_input(event: WatchEvent) -> Input<Object> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Input::Applied(object),
        WatchEvent::Deleted(object) => Input::Deleted(object),
        WatchEvent::Bookmark(object) => Input::Bookmark {
            version: object.version(),
            ends_initial: object.annotation(INITIAL_EVENTS_END).as_deref() == Some("true"),
        },
        WatchEvent::Error(status) => Input::Failed(status.into()),
        WatchEvent::Undecodable(broken) => undecodable("watch", broken),
    }
}

fn undecodable(whence: &str, broken: Undecodable) -> Input<Object> {
    Input::Undecodable(Failure::Undecodable {
        object: format!("number {} of a {whence}", broken.position),
        source: Arc::new(broken.error),
    })
}

fn failed(error: Error) -> Input<Object> {
    Input::Failed(failure(error))
}

fn failure(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Status(status) => status.clone().into(),
        ErrorKind::Decode(_) | ErrorKind::NotKubernetes { .. } => Failure::Unreadable(Arc::new(error)),
        _ => Failure::Connection(Arc::new(error)),
    }
}
