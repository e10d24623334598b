//! A watch over a WebSocket: one message per event, the same JSON as a line of a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, Stream};
use http::{HeaderValue, Request, header};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};
use watchkeeper_wire::limits::OBJECT_LIMIT;

use crate::client::Client;
use crate::dynamic::Asked;
use crate::error::{Error, ErrorKind};
use crate::transport::Io;

/// Watch messages are small; the default of 128 KiB per socket is meant for bulk data.
const READ_BUFFER: usize = 8 << 10;

/// An open WebSocket.
pub(super) struct Socket(WebSocketStream<Box<dyn Io>>);

/// Asks for the watch as a WebSocket.
pub(super) async fn open(
    client: &Client,
    mut request: Request<Bytes>,
    asked: &Asked,
) -> Result<Socket, Error> {
    let key = generate_key();
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    let refused = |reason: &str| asked.error(ErrorKind::Upgrade(reason.to_owned()));
    let key_header = HeaderValue::from_str(&key).map_err(|_| refused("the key is no header"))?;
    headers.insert(header::SEC_WEBSOCKET_KEY, key_header);
    let response = client.upgrade(request).await?;
    let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    if accepted.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(refused("it answered another handshake than ours"));
    }
    let limits = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(OBJECT_LIMIT))
        .max_frame_size(Some(OBJECT_LIMIT));
    Ok(Socket(
        WebSocketStream::from_raw_socket(response.into_body(), Role::Client, Some(limits)).await,
    ))
}

impl Socket {
    /// The next event's line; `None` when the server has closed the socket in order.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_next(cx)) {
                Some(Ok(Message::Text(text))) => return Poll::Ready(Some(Ok(text.into()))),
                Some(Ok(Message::Binary(bytes))) => return Poll::Ready(Some(Ok(bytes))),
                // Answers to pings are queued while reading and go out with the next flush.
                Some(Ok(Message::Ping(_))) => {
                    let _ = Pin::new(&mut self.0).poll_flush(cx);
                }
                Some(Ok(_)) => {}
                None | Some(Err(WebSocketError::ConnectionClosed)) => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.to_string()))),
            }
        }
    }
}
