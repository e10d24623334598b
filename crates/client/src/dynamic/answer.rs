//! A successful answer in either encoding, and its request.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri, header};
use watchkeeper_meta::Status;
use watchkeeper_wire::protobuf::{Envelope, Message};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::{Encoding, Object, ObjectOptions, WireError};

use super::ObjectOrStatus;
use crate::client::{Client, SendOptions};
use crate::error::{Error, ErrorKind};
use crate::transport::Body;

/// The largest object; servers refuse smaller ones.
const MAX_OBJECT: usize = 64 << 20;

/// The part shown of an answer that is not from Kubernetes.
const MAX_START: usize = 200;

/// A successful answer whose body is still arriving, and its request.
pub(crate) struct Answer {
    pub(crate) body: Body,
    pub(crate) encoding: Encoding,
    pub(crate) asked: Asked,
}

/// The request, for errors; formatted only if there is one.
#[derive(Clone)]
pub(crate) struct Asked {
    client: Client,
    method: Method,
    path: Uri,
}

impl Asked {
    pub(crate) fn new(client: &Client, request: &Request<Bytes>) -> Self {
        Self {
            client: client.clone(),
            method: request.method().clone(),
            path: request.uri().clone(),
        }
    }

    fn url(&self) -> String {
        self.client.url(&self.path.to_string())
    }

    pub(crate) fn error(&self, kind: impl Into<ErrorKind>) -> Error {
        Error::new(&self.method, self.url(), kind)
    }

    /// The error of an item that cannot be decoded.
    pub(crate) fn unreadable_item(&self, position: usize, error: &WireError) -> Error {
        self.unreadable(&format_args!("item {position}: {error}"))
    }

    pub(crate) fn unreadable(&self, error: &dyn std::fmt::Display) -> Error {
        self.error(ErrorKind::Decode(error.to_string()))
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url())
    }
}

impl Answer {
    pub(super) async fn open(
        client: &Client,
        request: Request<Bytes>,
        options: &SendOptions,
    ) -> Result<Self, Error> {
        let asked = Asked::new(client, &request);
        let response = client.send(request, options).await?;
        let (head, mut body) = Response::into_parts(response);
        match encoding(&head.headers) {
            Some(encoding) => Ok(Self {
                body,
                encoding,
                asked,
            }),
            None => {
                let start = body.chunk().await.and_then(Result::ok).unwrap_or_default();
                let start = String::from_utf8_lossy(&start[..start.len().min(MAX_START)]).into_owned();
                let content_type = content_type(&head.headers).to_owned();
                Err(asked.error(ErrorKind::NotKubernetes { content_type, start }))
            }
        }
    }

    /// The body as one object.
    pub(super) async fn object(self) -> Result<Object, Error> {
        let asked = self.asked.clone();
        match self.object_or_status().await? {
            ObjectOrStatus::Object(object) => Ok(object),
            ObjectOrStatus::Status(_) => Err(asked.unreadable(&"it is a Status, not an object")),
        }
    }

    pub(super) async fn object_or_status(mut self) -> Result<ObjectOrStatus<Object>, Error> {
        let bytes = self
            .body
            .collect(MAX_OBJECT)
            .await
            .map_err(|error| self.asked.error(error))?;
        let read = || -> Result<ObjectOrStatus<Object>, WireError> {
            if let Some(status) = read_status(self.encoding, &bytes) {
                return Ok(ObjectOrStatus::Status(status));
            }
            let whole = ObjectOptions {
                keep_managed_fields: true,
            };
            Ok(ObjectOrStatus::Object(match self.encoding {
                Encoding::Json => Object::from_json(&bytes, &whole)?,
                Encoding::Protobuf => Object::from_protobuf(&bytes, &whole)?,
            }))
        };
        // A protobuf body truncated after the type would pass for an empty object. Servers write `metadata` even if
        // it is empty.
        if self.encoding == Encoding::Protobuf && Envelope::read(&bytes).is_ok_and(|read| read.raw.is_empty())
        {
            return Err(self.asked.unreadable(&"it ends before its object"));
        }
        read().map_err(|error| self.asked.unreadable(&error))
    }
}

/// The `Status` in a body, if it is one.
pub(crate) fn read_status(encoding: Encoding, bytes: &[u8]) -> Option<Status> {
    match encoding {
        Encoding::Json => {
            let header = watchkeeper_wire::json::header(bytes).ok()?;
            (header.kind == Status::KIND && header.api_version == Status::API_VERSION)
                .then(|| serde_json::from_slice(bytes).ok())?
        }
        Encoding::Protobuf => {
            let kind = Envelope::read(bytes).ok()?.kind;
            (kind == Status::KIND).then(|| Message::open(Schema::builtin(), bytes).ok()?.decode().ok())?
        }
    }
}

/// The encoding of an answer, if it is one of Kubernetes'. Without a content type it is JSON, as in client-go.
pub(crate) fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    match headers.contains_key(header::CONTENT_TYPE) {
        true => Encoding::from_content_type(content_type(headers)),
        false => Some(Encoding::Json),
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
