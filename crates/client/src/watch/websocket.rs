//! A watch over a WebSocket: one message per event, the same JSON as a line of a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use crate::websocket::WebSocket;

/// The socket of a watch.
pub(super) struct Socket(pub(super) WebSocket);

impl Socket {
    /// The next event's line; `None` when the server has closed the socket regularly.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_next(cx)) {
                Some(Ok(Message::Text(text))) => return Poll::Ready(Some(Ok(text.into()))),
                Some(Ok(Message::Binary(bytes))) => return Poll::Ready(Some(Ok(bytes))),
                // Pongs are queued while reading and sent with the next flush.
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
