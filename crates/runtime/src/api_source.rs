//! Lists and watches of a server, as input for the watcher.
//!
//! Each request of the watcher becomes one request of the client; nothing is retried or decided here. A failure is
//! the same however it arrives: as an HTTP status, an `ERROR` event or a broken stream. For an object that cannot be
//! decoded, the key is still looked for, so that the last known state of the object can be kept.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::ready;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use serde_json::Value;
use watchkeeper_client::{DynamicApi, Error, ErrorKind, ListItem, ListStream, Undecodable, WatchEvent};
use watchkeeper_meta::{
    FieldSelector, LabelSelector, ListMeta, ListOptions, ObjectKey, ResourceVersion, ResourceVersionMatch,
    WatchOptions,
};
use watchkeeper_wire::Object;

use crate::shard::ShardPart;
use crate::watcher::{Failure, Input, ListRequest, Opening, Source, Unread, WatchRequest};

/// The annotation of the bookmark that ends the initial objects of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The objects of one resource on a server that match the selectors, in one namespace or all.
#[derive(Clone, Debug)]
pub struct ApiSource {
    api: DynamicApi,
    labels: LabelSelector,
    fields: FieldSelector,
    shard: Option<ShardPart>,
}

impl ApiSource {
    /// All objects of the API.
    pub fn new(api: DynamicApi) -> Self {
        Self::selected(api, LabelSelector::default(), FieldSelector::default())
    }

    /// The objects of the API that match the selectors.
    pub fn selected(api: DynamicApi, labels: LabelSelector, fields: FieldSelector) -> Self {
        Self {
            api,
            labels,
            fields,
            shard: None,
        }
    }

    /// Only the objects of a shard. A server without the feature returns all; the rest is filtered here.
    pub(crate) fn with_shard(self, shard: Option<ShardPart>) -> Self {
        Self { shard, ..self }
    }

    fn shard_selector(&self) -> Option<String> {
        self.shard.as_ref().and_then(ShardPart::selector)
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
            shard_selector: self.shard_selector(),
            ..Default::default()
        }
    }

    fn watch_options(&self, request: WatchRequest) -> WatchOptions {
        WatchOptions {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            resource_version: request.version,
            shard_selector: self.shard_selector(),
            send_initial_events: request.initial_events.then_some(true),
            allow_bookmarks: true,
            timeout_seconds: Some(request.timeout.as_secs().max(1)),
        }
    }
}

impl Source for ApiSource {
    type Object = Object;

    fn list(&self, request: ListRequest) -> Opening<Object> {
        let (api, options, shard) = (self.api.clone(), self.list_options(request), self.shard.clone());
        async move {
            let inputs = list_inputs(api.list_stream().with(&options).await.map_err(failure)?);
            Ok(match shard {
                None => inputs,
                Some(shard) => inputs
                    .filter(move |input| ready(is_listed(&shard, input)))
                    .boxed(),
            })
        }
        .boxed()
    }

    fn watch(&self, request: WatchRequest) -> Opening<Object> {
        let (api, options, shard) = (self.api.clone(), self.watch_options(request), self.shard.clone());
        async move {
            let events = api.watch().with(&options).await.map_err(failure)?;
            let inputs = events.map(|event| event.map_or_else(failed, watch_input));
            Ok(match shard {
                None => inputs.boxed(),
                Some(shard) => inputs.map(move |input| within(&shard, input)).boxed(),
            })
        }
        .boxed()
    }

    fn name(&self) -> Cow<'_, str> {
        self.api.resource().group_resource().to_string().into()
    }

    /// Field selectors are evaluated by the server only.
    fn selects(&self, object: &Object) -> bool {
        let namespace = self.api.namespace_name();
        (namespace.is_empty() || namespace == object.namespace())
            && self.labels.matches(object.labels().as_slice())
            && self.fields.is_everything()
            && self.shard.as_ref().is_none_or(|shard| shard.has(object))
    }

    fn has_streaming_lists(&self) -> bool {
        self.api.has_streaming_lists()
    }

    fn note_no_streaming_lists(&self) {
        self.api.note_no_streaming_lists();
    }
}

fn is_listed(shard: &ShardPart, input: &Input<Object>) -> bool {
    match input {
        Input::Item(object) => shard.has(object),
        _ => true,
    }
}

/// An object outside of the shard counts as deleted: it may have had another owner before. A store that does not have
/// it ignores that.
fn within(shard: &ShardPart, input: Input<Object>) -> Input<Object> {
    match input {
        Input::Added(object) | Input::Modified(object) if !shard.has(&object) => Input::Deleted(object),
        input => input,
    }
}

/// The items of a list, then its end.
fn list_inputs(list: ListStream) -> BoxStream<'static, Input<Object>> {
    stream::unfold(Some(list), |list| async move {
        let mut list = list?;
        Some(match list.next().await {
            Some(Ok(ListItem::Object(object))) => (Input::Item(object), Some(list)),
            Some(Ok(ListItem::Undecodable(item))) => (unread_item(item), Some(list)),
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
        WatchEvent::Added(object) => Input::Added(object),
        WatchEvent::Modified(object) => Input::Modified(object),
        WatchEvent::Deleted(object) => Input::Deleted(object),
        WatchEvent::Bookmark(object) => Input::Bookmark {
            version: object.version(),
            ends_initial: object.annotation(INITIAL_EVENTS_END).as_deref() == Some("true"),
        },
        WatchEvent::Error(status) => Input::Failed(status.into()),
        WatchEvent::Undecodable(event) => unread_event(event),
    }
}

fn unread_item(item: Undecodable) -> Input<Object> {
    let found: UnreadObject = serde_json::from_slice(&item.bytes).unwrap_or_default();
    Input::Undecodable(found.failure(item))
}

/// An added or modified object exists. Any other undecodable event ends the stream.
fn unread_event(event: Undecodable) -> Input<Object> {
    let found: UnreadEvent = serde_json::from_slice(&event.bytes).unwrap_or_default();
    let exists = matches!(found.kind.as_str(), Some("ADDED" | "MODIFIED"));
    let failure = found.object.failure(event);
    match exists {
        true => Input::Undecodable(failure),
        false => Input::Failed(failure),
    }
}

/// The readable part of an undecodable watch event.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UnreadEvent {
    #[serde(rename = "type")]
    kind: Value,
    object: UnreadObject,
}

/// The readable part of an undecodable object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UnreadObject {
    metadata: UnreadMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UnreadMetadata {
    namespace: Value,
    name: Value,
    resource_version: Value,
}

impl UnreadObject {
    fn failure(self, broken: Undecodable) -> Failure {
        let metadata = self.metadata;
        let namespace = match &metadata.namespace {
            Value::Null => Some(""),
            namespace => namespace.as_str(),
        };
        let key = namespace.zip(metadata.name.as_str());
        let object = Unread {
            key: key.map(|(namespace, name)| ObjectKey::new(namespace, name)),
            version: ResourceVersion::new(metadata.resource_version.as_str().unwrap_or_default()),
            position: broken.position,
        };
        let source = Arc::new(broken.error);
        Failure::Undecodable { object, source }
    }
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

#[cfg(test)]
mod tests {
    use watchkeeper_meta::Status;

    use super::*;

    fn broken(text: &str) -> Undecodable {
        let error = Object::from_json(b"?", &Default::default()).unwrap_err();
        Undecodable {
            position: 3,
            bytes: text.to_owned().into(),
            error,
        }
    }

    fn show(input: Input<Object>) -> String {
        let (goes_on, failure) = match input {
            Input::Undecodable(failure) => (true, failure),
            Input::Failed(failure) => (false, failure),
            _ => (false, Status::internal_error("another input").into()),
        };
        let version = failure.unread().map(|object| object.version.to_string());
        format!("{failure} @{} {goes_on}", version.unwrap_or_default())
    }

    #[test]
    fn an_item_that_cannot_be_read_is_named_where_it_says_its_name() {
        let check = |text: &str, expected: &str| assert_eq!(show(unread_item(broken(text))), expected);
        check(
            r#"{"metadata":{"namespace":"a","name":"x","resourceVersion":"7","labels":["odd"]}}"#,
            "object a/x cannot be read @7 true",
        );
        check(r#"{"metadata":{"name":"x"}}"#, "object x cannot be read @ true");
        let unknown = "object number 3 of the answer cannot be read @ true";
        check(r#"{"metadata":{"name":7}}"#, unknown);
        check(r#"{"metadata":{"namespace":7,"name":"x"}}"#, unknown);
        check(r#"{"metadata":{"name":"x""#, unknown);
        check("\u{12}\u{0}", unknown);
    }

    #[test]
    fn an_event_that_cannot_be_read_ends_the_stream_unless_its_object_exists() {
        let check = |kind: &str, expected: &str| {
            let text =
                format!(r#"{{"type":{kind},"object":{{"metadata":{{"name":"x","resourceVersion":"7"}}}}}}"#);
            assert_eq!(show(unread_event(broken(&text))), expected);
        };
        check(r#""ADDED""#, "object x cannot be read @7 true");
        check(r#""MODIFIED""#, "object x cannot be read @7 true");
        check(r#""DELETED""#, "object x cannot be read @7 false");
        check("7", "object x cannot be read @7 false");
    }
}
