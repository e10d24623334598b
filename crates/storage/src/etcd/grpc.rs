//! gRPC over one HTTP/2 connection: unary calls, and calls with a stream of answers.
//!
//! A store needs no more of etcd, and it is little more than hyper does already. tonic's client would add ten crates,
//! and its channels hide which endpoint failed and whether a request was sent. That decides whether a request may be
//! retried.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http2::SendRequest;
use prost::Message;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::error::{CallError, Code};

/// The largest message: a page of the initial list with values of the largest size etcd accepts.
const MAX_MESSAGE_BYTES: usize = 512 << 20;
/// The time a failed call waits for the reason its connection ended.
const REASON_PATIENCE: Duration = Duration::from_millis(50);
/// The gRPC message prefix: a compression flag, which is never set, and a four-byte length.
const PREFIX_BYTES: usize = 5;

/// A connection to one member. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<RequestBody>,
    /// `https://host:port`.
    pub(crate) endpoint: Arc<str>,
    /// The reason the connection ended, once it has.
    ended: watch::Receiver<Option<String>>,
}

impl Connection {
    pub(crate) fn new(
        sender: SendRequest<RequestBody>,
        endpoint: Arc<str>,
        ended: watch::Receiver<Option<String>>,
    ) -> Self {
        Self {
            sender,
            endpoint,
            ended,
        }
    }

    /// True for the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.ended.same_channel(&other.ended)
    }

    /// Sends one message and waits for the answer.
    pub(crate) async fn unary<Q: Message, A: Message + Default>(
        &self,
        path: &str,
        message: &Q,
    ) -> Result<A, CallError> {
        let mut answers = self.call(path, message, None).await?;
        let Some(answer) = answers.next().await? else {
            return Err(self.lost("there was no answer"));
        };
        // The status follows the answer.
        match answers.next::<A>().await? {
            None => Ok(answer),
            Some(_) => Err(self.lost("there was a second answer")),
        }
    }

    /// Sends one message and returns the stream of answers, until it is dropped.
    pub(crate) async fn stream<Q: Message>(&self, path: &str, message: &Q) -> Result<Answers, CallError> {
        let (more, further) = mpsc::channel(1);
        let mut answers = self.call(path, message, Some(further)).await?;
        answers.more = Some(more);
        Ok(answers)
    }

    async fn call<Q: Message>(
        &self,
        path: &str,
        message: &Q,
        further: Option<mpsc::Receiver<Bytes>>,
    ) -> Result<Answers, CallError> {
        let body = RequestBody {
            message: Some(framed(message)),
            further,
        };
        let request = Request::post(format!("{}{path}", self.endpoint))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", concat!("watchkeeper/", env!("CARGO_PKG_VERSION")))
            // A member without a leader then answers with an error instead of waiting for one.
            .header("hasleader", "true")
            .body(body)
            .map_err(|error| self.lost(error))?;
        let mut sender = self.sender.clone();
        if let Err(error) = sender.ready().await {
            return Err(self.not_sent(self.reason(&error).await));
        }
        match sender.try_send_request(request).await {
            Ok(response) => self.answers(response),
            // hyper returns a request that it has not started to send.
            Err(error) => match error.message().is_some() {
                true => Err(self.not_sent(self.reason(error.error()).await)),
                false => Err(self.lost(self.reason(error.error()).await)),
            },
        }
    }

    /// The reason the connection ended, such as a rejected certificate; otherwise the error of the call.
    async fn reason(&self, error: &(dyn Error + Sync)) -> String {
        let mut ended = self.ended.clone();
        let ended = timeout(REASON_PATIENCE, ended.wait_for(Option::is_some)).await;
        match ended {
            Ok(Ok(reason)) => reason.clone().unwrap_or_default(),
            _ => chain(error),
        }
    }

    fn answers(&self, response: Response<Incoming>) -> Result<Answers, CallError> {
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(self.lost(format!("HTTP {}", head.status)));
        }
        // An error without an answer comes in the response headers.
        if head.headers.contains_key("grpc-status") {
            self.status(&head.headers)?;
        }
        Ok(Answers {
            connection: self.clone(),
            body,
            buffer: BytesMut::new(),
            more: None,
        })
    }

    fn status(&self, headers: &HeaderMap) -> Result<(), CallError> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        match text("grpc-status") {
            Some("0") => Ok(()),
            Some(number) => Err(CallError::Status {
                endpoint: self.endpoint.clone(),
                code: Code::from_number(number),
                message: unescaped(text("grpc-message").unwrap_or_default()),
            }),
            None => Err(self.lost("the answer has no status")),
        }
    }

    fn not_sent(&self, why: impl ToString) -> CallError {
        CallError::NotSent {
            endpoint: self.endpoint.clone(),
            why: why.to_string(),
        }
    }

    pub(crate) fn lost(&self, why: impl ToString) -> CallError {
        CallError::Lost {
            endpoint: self.endpoint.clone(),
            why: why.to_string(),
        }
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &(dyn Error + Sync)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

/// The answers to one request.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) connection: Connection,
    body: Incoming,
    /// Received bytes that are not a complete message yet.
    buffer: BytesMut,
    /// Takes further messages of the request, which ends when this is dropped.
    more: Option<mpsc::Sender<Bytes>>,
}

/// Sends further messages of a request while its answers are read.
#[derive(Clone, Debug)]
pub(crate) struct Further(mpsc::WeakSender<Bytes>);

impl Further {
    /// Sends a message unless another one waits to be sent; false if the request has ended.
    pub(crate) fn send(&self, message: &impl Message) -> bool {
        let Some(more) = self.0.upgrade() else {
            return false;
        };
        // Dropped if there is one already: the answer to that one comes later than this call.
        let _ = more.try_send(framed(message));
        !more.is_closed()
    }
}

impl Answers {
    /// Sends further messages; `None` for a call with a single one.
    pub(crate) fn further(&self) -> Option<Further> {
        self.more.as_ref().map(|more| Further(more.downgrade()))
    }

    /// The next message; `None` at a successful end.
    pub(crate) async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, CallError> {
        loop {
            if let Some(message) = self.take()? {
                let decoded = A::decode(message);
                return decoded.map(Some).map_err(|error| self.connection.lost(error));
            }
            let Some(frame) = self.body.frame().await else {
                return Err(self.connection.lost("the stream was cut"));
            };
            match frame.map_err(|error| self.connection.lost(error))?.into_data() {
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(frame) => {
                    self.connection
                        .status(&frame.into_trailers().unwrap_or_default())?;
                    return Ok(None);
                }
            }
        }
    }

    /// Takes a complete message out of the buffer.
    fn take(&mut self) -> Result<Option<Bytes>, CallError> {
        let Some(mut prefix) = self.buffer.get(..PREFIX_BYTES) else {
            return Ok(None);
        };
        let (is_compressed, length) = (prefix.get_u8() != 0, prefix.get_u32() as usize);
        if is_compressed || length > MAX_MESSAGE_BYTES {
            let why = format!("a message of {length} bytes is too long, or compressed");
            return Err(self.connection.lost(why));
        }
        if self.buffer.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    message
        .encode(&mut bytes)
        .expect("a BytesMut grows as far as it has to");
    bytes.freeze()
}

/// Decodes the percent-encoding of status texts.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One message, and further ones until their sender is dropped.
#[derive(Debug)]
pub(crate) struct RequestBody {
    message: Option<Bytes>,
    further: Option<mpsc::Receiver<Bytes>>,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(message) = self.message.take() {
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        match &mut self.further {
            Some(further) => further
                .poll_recv(context)
                .map(|message| message.map(|message| Ok(Frame::data(message)))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_none() && self.further.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.message, &self.further) {
            (Some(message), None) => SizeHint::with_exact(message.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_texts_are_decoded() {
        for (sent, meant) in [
            ("plain", "plain"),
            ("caf%C3%A9%21", "caf\u{e9}!"),
            ("100%", "100%"),
            ("%zz%2", "%zz%2"),
        ] {
            assert_eq!(unescaped(sent), meant);
        }
    }
}
