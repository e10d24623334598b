//! A connection to a port of a pod, over its own WebSocket.
//!
//! Each message is one byte for the channel, then its bytes: 0 data, 1 an error. The first message of either channel
//! is the port number. The protocol could carry several ports, but an unread one would block the others, and no port
//! could be connected to twice; so each connection is a WebSocket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};
use watchkeeper_meta::PortForwardOptions;

use crate::dynamic::{Asked, DynamicApi};
use crate::error::Error;
use crate::websocket::{self, WebSocket};

/// The protocol of nodes without SPDY tunnelling.
const PROTOCOL: &str = "v4.channel.k8s.io";

const DATA: u8 = 0;
const FAILURE: u8 = 1;

/// The largest message; nodes copy in pieces of this size.
const MAX_MESSAGE: usize = 32 << 10;

/// A connection to a port of a pod.
///
/// Reading ends when the pod has closed the connection, or fails with the node's error. Shutting down closes both
/// directions, because the protocol cannot close one; data in transit can still be read.
pub struct ForwardedPort {
    socket: WebSocket,
    port: u16,
    /// True for each channel that has named its port.
    greeted: [bool; 2],
    /// Data not yet read.
    unread: Bytes,
    /// Data was written that is not flushed yet. Reading flushes it, as for any socket.
    unflushed: bool,
    asked: Asked,
}

impl DynamicApi {
    /// Connects to a port of a pod. The resource must be pods.
    ///
    /// ```no_run
    /// # use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// # async fn example(pods: watchkeeper_client::DynamicApi) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut web = pods.port_forward("web-0", 80).await?;
    /// web.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    /// let mut answer = Vec::new();
    /// web.read_to_end(&mut answer).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn port_forward(&self, name: &str, port: u16) -> Result<ForwardedPort, Error> {
        let options = PortForwardOptions { ports: vec![port] };
        let request = self.connect_request(self.object(name).port_forward(&options))?;
        let asked = Asked::new(self.client(), &request);
        let (socket, _) = websocket::open(self.client(), request, &asked, &[PROTOCOL]).await?;
        Ok(ForwardedPort {
            socket,
            port,
            greeted: [false; 2],
            unread: Bytes::new(),
            unflushed: false,
            asked,
        })
    }
}

impl ForwardedPort {
    /// Waits for data; there is none once the pod has closed the connection.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            let message = match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(message))) => message,
                Some(Ok(_)) => continue,
                None | Some(Err(WebSocketError::ConnectionClosed)) => break,
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            };
            self.receive(message)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Flushes written data.
    fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unflushed {
            ready!(Pin::new(&mut self.socket).poll_flush(cx)).map_err(broken)?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn receive(&mut self, mut message: Bytes) -> io::Result<()> {
        if message.is_empty() {
            return Ok(());
        }
        let channel = message.get_u8();
        let greeted = self.greeted.get_mut(usize::from(channel));
        let greeted = greeted.ok_or_else(|| odd(format!("a message for channel {channel}")))?;
        if !std::mem::replace(greeted, true) {
            return match *message {
                [low, high] if u16::from_le_bytes([low, high]) == self.port => Ok(()),
                _ => Err(odd(format!("a greeting that does not name port {}", self.port))),
            };
        }
        match channel {
            DATA => self.unread = message,
            FAILURE if !message.is_empty() => {
                return Err(io::Error::other(String::from_utf8_lossy(&message).into_owned()));
            }
            _ => {}
        }
        Ok(())
    }
}

impl AsyncRead for ForwardedPort {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(pushed) = self.poll_push(cx) {
            pushed?;
        }
        ready!(self.poll_fill(cx))?;
        let length = self.unread.len().min(into.remaining());
        into.put_slice(&self.unread.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ForwardedPort {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(broken)?;
        let bytes = &bytes[..bytes.len().min(MAX_MESSAGE)];
        let message = Message::binary([&[DATA], bytes].concat());
        Pin::new(&mut self.socket).start_send(message).map_err(broken)?;
        self.unflushed = true;
        if let Poll::Ready(pushed) = self.poll_push(cx) {
            pushed?;
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_push(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(cx).map_err(broken)
    }
}

fn broken(error: WebSocketError) -> io::Error {
    match error {
        WebSocketError::Io(error) => error,
        other => io::Error::new(io::ErrorKind::ConnectionAborted, other.to_string()),
    }
}

fn odd(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the node sent {what}"))
}

impl std::fmt::Debug for ForwardedPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForwardedPort")
            .field("asked", &self.asked)
            .finish_non_exhaustive()
    }
}
