//! Bodies: a request's body is collected up to a limit; a response's body is whole, in pieces that are built as they
//! are sent, or a stream of frames.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use watchkeeper_meta::Status;
use watchkeeper_registry::too_many_values;
use watchkeeper_wire::tree_size::is_large_json;

use crate::connection::note_quiet;
use crate::limits::{DISCARD_TIMEOUT, MAX_DISCARDED_BYTES, MAX_REQUEST_BODY_BYTES};

/// The stream was cut on purpose: the connection closes without the end of the body.
#[derive(Debug, thiserror::Error)]
#[error("the stream was cut")]
pub(crate) struct StreamCut;

/// The frames of a streamed response.
pub(crate) type FrameStream = Pin<Box<dyn Stream<Item = Result<Bytes, StreamCut>> + Send>>;

/// The pieces of a large document.
pub(crate) type Pieces = Box<dyn Iterator<Item = Result<Bytes, StreamCut>> + Send>;

/// The body of a request. A proxying handler takes it; afterwards it is empty.
pub(crate) struct RequestBody(Option<Incoming>);

impl RequestBody {
    pub(crate) fn new(body: Incoming) -> Self {
        Self(Some(body))
    }

    /// The body itself; `None` if it was taken.
    pub(crate) fn take(&mut self) -> Option<Incoming> {
        self.0.take()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let size = self.0.as_ref().map(Incoming::size_hint);
        size.unwrap_or_else(|| SizeHint::with_exact(0))
    }
}

/// The body of a response.
pub(crate) enum ResponseBody {
    /// The whole body; `None` once sent.
    Whole(Option<Bytes>),
    /// A large document; each piece is built when it can be sent.
    Pieces(Pieces),
    /// A stream; each frame is sent as soon as it is available.
    Stream {
        frames: FrameStream,
        /// True if frames are copies of stored bytes, which is cheaper than their encryption.
        is_copied: bool,
        /// Dropped when the initial events are sent.
        unwritten: Option<Box<dyn Send>>,
    },
}

impl ResponseBody {
    /// No body.
    pub(crate) fn empty() -> Self {
        Self::Whole(None)
    }
}

impl<T: Into<Bytes>> From<T> for ResponseBody {
    fn from(bytes: T) -> Self {
        Self::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = StreamCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamCut>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Pieces(pieces) => Poll::Ready(pieces.next().map(|piece| piece.map(Frame::data))),
            Self::Stream {
                frames,
                is_copied,
                unwritten,
            } => {
                let frame = frames.as_mut().poll_next(context);
                if frame.is_pending() {
                    *unwritten = None;
                }
                if frame.is_pending() || *is_copied {
                    note_quiet();
                }
                frame.map(|frame| frame.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Pieces(_) | Self::Stream { .. } => SizeHint::default(),
        }
    }
}

/// Reads a request's body, up to [`MAX_REQUEST_BODY_BYTES`], and rejects one with too many values.
///
/// A stated length that is too large is rejected before a byte is read, so that an attacker cannot make the server
/// wait for a body it will reject.
pub(crate) async fn collect<B>(headers: &HeaderMap, body: &mut B) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes> + Unpin,
{
    let stated = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|length| length > MAX_REQUEST_BODY_BYTES as u64) {
        return Err(too_large());
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Status::bad_request("the body of the request ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > MAX_REQUEST_BODY_BYTES {
            return Err(too_large());
        }
        // Most bodies arrive in one piece and are not copied.
        match first.is_empty() {
            true => first = data,
            false => rest.extend_from_slice(&data),
        }
    }
    let whole = match rest.is_empty() {
        true => first,
        false => {
            let mut whole = BytesMut::with_capacity(first.len() + rest.len());
            whole.extend_from_slice(&first);
            whole.extend_from_slice(&rest);
            whole.freeze()
        }
    };
    // JSON is checked against the limit on values here, before it is decoded. Other formats are checked during
    // decoding.
    match whole.trim_ascii_start().first() {
        Some(b'{' | b'[') if is_large_json(&whole) => Err(too_many_values()),
        _ => Ok(whole),
    }
}

/// Reads the unread rest of a request's body, if it is small, so that the client sees the answer and can reuse the
/// connection. Returns true if all was read.
pub(crate) async fn discard<B>(body: &mut B) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return true;
    }
    let reading = async {
        let mut left = MAX_DISCARDED_BYTES;
        while !body.is_end_stream() {
            match body.frame().await {
                None => break,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => {
                    let read = frame.data_ref().map_or(0, Bytes::len);
                    match left.checked_sub(read) {
                        Some(rest) => left = rest,
                        None => return false,
                    }
                }
            }
        }
        true
    };
    tokio::time::timeout(DISCARD_TIMEOUT, reading)
        .await
        .unwrap_or(false)
}

fn too_large() -> Status {
    Status::request_entity_too_large(format!("limit is {MAX_REQUEST_BODY_BYTES}"))
}
