//! A watch: a stream of events with undecoded objects.
//!
//! JSON lines, protobuf frames or WebSocket messages become [`WatchEvent`]s. A watch ends in one of three ways:
//! regularly (the server's timeout), with [`WatchEvent::Error`] (the server states a reason), or with an `Err` (the
//! connection broke). Dropping the stream cancels the request at once.

mod websocket;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_core::Stream;
use http::Request;
use watchkeeper_meta::{GroupVersionKind, Status, WatchEventKind};
use watchkeeper_wire::protobuf::Message;
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::watch::object_of_line;
use watchkeeper_wire::{Encoding, Object, ObjectOptions, RawEvent, RawObject, WatchSplitter, WireError};

use crate::client::Client;
use crate::dynamic::{Answer, Asked};
use crate::error::{Error, ErrorKind};
use crate::list::Undecodable;
use crate::transport::Body;
use websocket::Socket;

/// One event of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// The object is new to this watch.
    Added(Object),
    /// The object has changed.
    Modified(Object),
    /// The object was deleted; this is its last state, at the version of its deletion.
    Deleted(Object),
    /// Nothing else happened up to the object's version; its other fields have no meaning.
    Bookmark(Object),
    /// The server ends the watch with an error. The last item.
    Error(Status),
    /// An event that cannot be decoded. The stream continues.
    Undecodable(Undecodable),
}

impl WatchEvent {
    /// Its type; `ERROR` if it cannot be decoded.
    pub fn kind(&self) -> WatchEventKind {
        match self {
            Self::Added(_) => WatchEventKind::Added,
            Self::Modified(_) => WatchEventKind::Modified,
            Self::Deleted(_) => WatchEventKind::Deleted,
            Self::Bookmark(_) => WatchEventKind::Bookmark,
            Self::Error(_) | Self::Undecodable(_) => WatchEventKind::Error,
        }
    }

    /// The object, if there is one. That of a bookmark has only a version.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) | Self::Bookmark(object) => {
                Some(object)
            }
            Self::Error(_) | Self::Undecodable(_) => None,
        }
    }
}

/// The events of a watch as they arrive.
pub struct WatchStream {
    source: Source,
    asked: Asked,
    kind: Arc<GroupVersionKind>,
    kept: ObjectOptions,
    position: usize,
    state: State,
}

enum Source {
    Body(Box<BodySource>),
    Socket(Box<Socket>),
}

struct BodySource {
    body: Body,
    splitter: WatchSplitter,
    /// Bytes that have arrived but were not split yet.
    chunk: Bytes,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    Ended,
}

impl WatchStream {
    pub(crate) fn from_answer(answer: Answer, kind: Arc<GroupVersionKind>, kept: ObjectOptions) -> Self {
        let Answer {
            body,
            encoding,
            asked,
        } = answer;
        let splitter = WatchSplitter::new(encoding);
        let source = Source::Body(Box::new(BodySource {
            body,
            splitter,
            chunk: Bytes::new(),
        }));
        Self::new(source, asked, kind, kept)
    }

    pub(crate) async fn over_websocket(
        client: &Client,
        request: Request<Bytes>,
        kind: Arc<GroupVersionKind>,
        kept: ObjectOptions,
    ) -> Result<Self, Error> {
        let asked = Asked::new(client, &request);
        // A watch needs no subprotocol: messages of a JSON watch are text.
        let (socket, _) = crate::websocket::open(client, request, &asked, &[]).await?;
        Ok(Self::new(
            Source::Socket(Box::new(Socket(socket))),
            asked,
            kind,
            kept,
        ))
    }

    fn new(source: Source, asked: Asked, kind: Arc<GroupVersionKind>, kept: ObjectOptions) -> Self {
        Self {
            source,
            asked,
            kind,
            kept,
            position: 0,
            state: State::Open,
        }
    }

    /// The next event; `None` when the server has ended the watch regularly.
    pub async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn fail(&mut self, kind: impl Into<ErrorKind>) -> Poll<Option<Result<WatchEvent, Error>>> {
        self.state = State::Ended;
        Poll::Ready(Some(Err(self.asked.error(kind))))
    }

    fn deliver(&mut self, event: WatchEvent) -> Poll<Option<Result<WatchEvent, Error>>> {
        self.position += 1;
        if matches!(event, WatchEvent::Error(_)) {
            self.state = State::Ended;
        }
        Poll::Ready(Some(Ok(event)))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent, Error>>> {
        loop {
            let reader = EventReader {
                position: self.position,
                kind: &self.kind,
                kept: self.kept,
            };
            let Source::Body(source) = &mut self.source else {
                return Poll::Ready(None);
            };
            match source.split(&reader) {
                Ok(Some(event)) => return self.deliver(event),
                Ok(None) => {}
                Err(error) => return self.fail(ErrorKind::Decode(error.to_string())),
            }
            match ready!(source.body.poll_chunk(cx)) {
                Some(Ok(chunk)) => source.chunk = chunk,
                Some(Err(error)) => return self.fail(error),
                None => {
                    self.state = State::Ended;
                    return match source.finish(&reader) {
                        Ok(None) => Poll::Ready(None),
                        Ok(Some(event)) => self.deliver(event),
                        Err(error) => self.fail(ErrorKind::Decode(error.to_string())),
                    };
                }
            }
        }
    }

    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent, Error>>> {
        let Source::Socket(socket) = &mut self.source else {
            return Poll::Ready(None);
        };
        match ready!(socket.poll_message(cx)) {
            Some(Ok(line)) => {
                let reader = EventReader {
                    position: self.position,
                    kind: &self.kind,
                    kept: self.kept,
                };
                let event = reader.read_line(&line);
                self.deliver(event)
            }
            Some(Err(reason)) => self.fail(ErrorKind::WebSocket(reason)),
            None => {
                self.state = State::Ended;
                Poll::Ready(None)
            }
        }
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match (&self.source, self.state) {
            (_, State::Ended) => Poll::Ready(None),
            (Source::Body(_), _) => self.poll_body(cx),
            (Source::Socket(_), _) => self.poll_socket(cx),
        }
    }
}

impl BodySource {
    /// The next event of the current chunk; `None` when the chunk is used up. An error ends the stream: the start of
    /// the next event is unknown.
    fn split(&mut self, reader: &EventReader<'_>) -> Result<Option<WatchEvent>, WireError> {
        let mut rest = &self.chunk[..];
        let event = match &mut self.splitter {
            WatchSplitter::Json(lines) => lines.next(&mut rest)?.map(|line| reader.read_line(line)),
            WatchSplitter::Protobuf(frames) => frames
                .next(&mut rest)?
                .map(|frame| reader.read(RawEvent::from_frame(frame), frame)),
        };
        let used = self.chunk.len() - rest.len();
        self.chunk.advance(used);
        Ok(event)
    }

    /// An unterminated last line, if it is complete.
    fn finish(&mut self, reader: &EventReader<'_>) -> Result<Option<WatchEvent>, WireError> {
        Ok(self
            .splitter
            .finish()?
            .map(|raw| reader.read(Ok(raw), raw.object.bytes)))
    }
}

/// Converts raw events.
struct EventReader<'a> {
    position: usize,
    kind: &'a Arc<GroupVersionKind>,
    kept: ObjectOptions,
}

impl EventReader<'_> {
    fn read_line(&self, line: &[u8]) -> WatchEvent {
        match object_of_line(line, self.kind, &self.kept) {
            Some((WatchEventKind::Added, object)) => WatchEvent::Added(object),
            Some((WatchEventKind::Modified, object)) => WatchEvent::Modified(object),
            Some((WatchEventKind::Deleted, object)) => WatchEvent::Deleted(object),
            Some((WatchEventKind::Bookmark, object)) => WatchEvent::Bookmark(object),
            Some((WatchEventKind::Error, _)) | None => self.read(RawEvent::from_line(line), line),
        }
    }

    fn read(&self, raw: Result<RawEvent<'_>, WireError>, bytes: &[u8]) -> WatchEvent {
        raw.and_then(|raw| self.event(raw)).unwrap_or_else(|error| {
            WatchEvent::Undecodable(Undecodable {
                position: self.position,
                bytes: Bytes::copy_from_slice(bytes),
                error,
            })
        })
    }

    fn event(&self, raw: RawEvent<'_>) -> Result<WatchEvent, WireError> {
        let object = |raw| Object::from_raw(raw, self.kind, &self.kept);
        Ok(match raw.kind {
            WatchEventKind::Added => WatchEvent::Added(object(raw.object)?),
            WatchEventKind::Modified => WatchEvent::Modified(object(raw.object)?),
            WatchEventKind::Deleted => WatchEvent::Deleted(object(raw.object)?),
            WatchEventKind::Bookmark => WatchEvent::Bookmark(object(raw.object)?),
            WatchEventKind::Error => WatchEvent::Error(status(raw.object)),
        })
    }
}

/// The `Status` of an error event. A malformed one is an error too: the watch is over.
fn status(raw: RawObject<'_>) -> Status {
    let status: Option<Status> = match raw.encoding {
        Encoding::Json => serde_json::from_slice(raw.bytes).ok(),
        Encoding::Protobuf => Message::of_kind(Schema::builtin(), raw.api_version, raw.kind, raw.bytes)
            .and_then(|message| message.decode())
            .ok(),
    };
    status.unwrap_or_else(|| Status::internal_error("the watch ended with an error that cannot be read"))
}

impl std::fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStream")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}
