//! Answers as JSON documents, in forms for people: a page, an object or a watch as `Table`s.

use bytes::{Buf as _, Bytes};
use http::Request;
use serde_json::Value;
use watchkeeper_client::{Body, DynamicApi, SendOptions};
use watchkeeper_meta::{
    CollectionRequests, GetOptions, ListOptions, RequestError, ResourceVersion, Status, WatchEventKind,
    WatchOptions, accept,
};
use watchkeeper_wire::{Encoding, WatchSplitter};

use crate::failure::Failure;

/// The largest page; 500 large objects stay far below.
const MAX_PAGE: usize = 512 << 20;

/// The form of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<'a> {
    pub(crate) accept: &'static str,
    /// Of named objects: `status`, `scale`.
    pub(crate) subresource: Option<&'a str>,
    /// True if the rows of a table come with whole objects, not with their metadata alone.
    pub(crate) whole_objects: bool,
}

impl Form<'_> {
    pub(crate) const JSON: Self = Self {
        accept: accept::JSON,
        subresource: None,
        whole_objects: false,
    };

    pub(crate) const TABLE: Self = Self {
        accept: accept::TABLE,
        ..Self::JSON
    };

    fn ask(self, request: Result<Request<Vec<u8>>, RequestError>) -> Result<Request<Vec<u8>>, Failure> {
        let mut request = request.map_err(Failure::other)?;
        if self.whole_objects {
            let uri = request.uri().to_string();
            let sign = if uri.contains('?') { '&' } else { '?' };
            let uri = format!("{uri}{sign}includeObject=Object").parse();
            *request.uri_mut() = uri.map_err(Failure::other)?;
        }
        Ok(request)
    }
}

/// One page of a list.
pub(crate) async fn page(api: &DynamicApi, form: Form<'_>, options: &ListOptions) -> Result<Value, Failure> {
    let request = requests(api).accepting(form.accept).list(options);
    read(api, form.ask(request)?).await
}

/// One object, or a part of it.
pub(crate) async fn object(api: &DynamicApi, form: Form<'_>, name: &str) -> Result<Value, Failure> {
    let mut requests = requests(api).object(name).accepting(form.accept);
    if let Some(subresource) = form.subresource {
        requests = requests.subresource(subresource);
    }
    read(api, form.ask(requests.get(&GetOptions::default()))?).await
}

/// A watch, event by event.
pub(crate) async fn watch(
    api: &DynamicApi,
    accept: &str,
    options: &WatchOptions,
) -> Result<Events, Interruption> {
    let request = requests(api)
        .accepting(accept)
        .watch(options)
        .map_err(Failure::other)?;
    let sent = SendOptions {
        watch: true,
        ..SendOptions::default()
    };
    let response = api
        .client()
        .send(request.map(Bytes::from), &sent)
        .await
        .map_err(Failure::from)?;
    Ok(Events {
        body: response.into_body(),
        splitter: WatchSplitter::new(Encoding::Json),
        chunk: Bytes::new(),
    })
}

/// The reason a watch has ended.
pub(crate) enum Interruption {
    /// The connection or the server broke: resume after the last event.
    Broken(String),
    /// The version has expired: list again.
    Forgotten(String),
    /// A retry will not help.
    Failed(Failure),
}

impl From<Failure> for Interruption {
    fn from(failure: Failure) -> Self {
        let Failure::Cluster { error, .. } = &failure else {
            return Self::Failed(failure);
        };
        let interruption = match error.status() {
            Some(status) => Self::of_status(status),
            None => Some(Self::Broken(failure.to_string())),
        };
        interruption.unwrap_or(Self::Failed(failure))
    }
}

impl Interruption {
    /// `None` if a retry will not help.
    fn of_status(status: &Status) -> Option<Self> {
        let message = status.message.clone();
        match status.code {
            _ if status.is_expired() || status.is_too_large_resource_version() => {
                Some(Self::Forgotten(message))
            }
            429 | 500.. => Some(Self::Broken(message)),
            _ => None,
        }
    }
}

/// The events of a watch as they arrive.
pub(crate) struct Events {
    body: Body,
    splitter: WatchSplitter,
    chunk: Bytes,
}

/// One event.
pub(crate) struct Event {
    pub(crate) kind: WatchEventKind,
    pub(crate) object: Value,
}

impl Events {
    /// The next event; `None` when the server has ended the watch regularly, an error when it states a reason.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Interruption> {
        loop {
            if let Some(event) = self.split()? {
                return match event.kind {
                    WatchEventKind::Error => Err(ended(event.object)),
                    _ => Ok(Some(event)),
                };
            }
            match self.body.chunk().await {
                Some(Ok(chunk)) => self.chunk = chunk,
                Some(Err(error)) => {
                    return Err(Interruption::Broken(format!("{:#}", anyhow::Error::from(error))));
                }
                None => return Ok(None),
            }
        }
    }

    fn split(&mut self) -> Result<Option<Event>, Failure> {
        let mut rest = &self.chunk[..];
        let event = match self.splitter.next(&mut rest).map_err(Failure::other)? {
            Some(raw) => Some(Event {
                kind: raw.kind,
                object: serde_json::from_slice(raw.object.bytes).map_err(Failure::other)?,
            }),
            None => None,
        };
        let used = self.chunk.len() - rest.len();
        self.chunk.advance(used);
        Ok(event)
    }
}

/// The version of a document.
pub(crate) fn version(document: &Value) -> ResourceVersion {
    ResourceVersion::new(
        document["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default(),
    )
}

/// The continue token of a list; empty on the last page.
pub(crate) fn continue_token(document: &Value) -> String {
    let token = document["metadata"]["continue"].as_str();
    token.unwrap_or_default().to_owned()
}

fn ended(status: Value) -> Interruption {
    let status: Status = serde_json::from_value(status).unwrap_or_default();
    Interruption::of_status(&status).unwrap_or_else(|| {
        Interruption::Failed(Failure::text(format!(
            "the server ended the watch: {}",
            status.message
        )))
    })
}

fn requests(api: &DynamicApi) -> CollectionRequests<'_> {
    CollectionRequests::in_namespace(api.resource(), api.namespace_name())
}

async fn read(api: &DynamicApi, request: Request<Vec<u8>>) -> Result<Value, Failure> {
    let request = request.map(Bytes::from);
    let response = api.client().send(request, &SendOptions::default()).await?;
    let bytes = response
        .into_body()
        .collect(MAX_PAGE)
        .await
        .map_err(Failure::other)?;
    serde_json::from_slice(&bytes).map_err(Failure::other)
}
