//! Limits the time for the head of an HTTP/1.1 request.
//!
//! The time between requests has its own, longer limit. It does not apply to HTTP/2, whose peers are pinged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::open_requests::OpenRequests;

/// The start of every HTTP/2 connection, which no HTTP/1.1 request has.
const HTTP2_PREFACE: &[u8] = b"PRI";

/// Fails a read if the head of a request takes too long.
pub(crate) struct HeadGuard<IO> {
    io: IO,
    /// `None`: no limit.
    timeout: Option<Duration>,
    /// While one is open, bytes belong to its body.
    requests: OpenRequests,
    /// The number of bytes of the HTTP/2 preface received.
    preface: usize,
    phase: Phase,
}

enum Phase {
    /// No byte of the next request has arrived.
    Between,
    /// Runs from the first byte of a head.
    Head(Pin<Box<Sleep>>),
    Http2,
}

impl<IO> HeadGuard<IO> {
    pub(crate) fn new(io: IO, timeout: Option<Duration>, requests: OpenRequests) -> Self {
        Self {
            io,
            timeout,
            requests,
            preface: 0,
            phase: Phase::Between,
        }
    }

    /// Processes received bytes.
    fn note(&mut self, bytes: &[u8]) {
        let Some(timeout) = self.timeout.filter(|_| !bytes.is_empty()) else {
            return;
        };
        if self.preface < HTTP2_PREFACE.len() {
            let rest = &HTTP2_PREFACE[self.preface..];
            let count = rest.len().min(bytes.len());
            self.preface = match rest[..count] == bytes[..count] {
                true => self.preface + count,
                // It is HTTP/1.1.
                false => usize::MAX,
            };
        }
        if self.preface == HTTP2_PREFACE.len() {
            self.phase = Phase::Http2;
        }
        if let Phase::Between = self.phase
            && !self.requests.any()
        {
            self.phase = Phase::Head(Box::pin(tokio::time::sleep(timeout)));
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for HeadGuard<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if let Phase::Head(_) = this.phase
            && this.requests.any()
        {
            this.phase = Phase::Between;
        }
        if read.is_pending()
            && let Phase::Head(timer) = &mut this.phase
            && timer.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if read.is_ready() && !matches!(this.phase, Phase::Http2) {
            this.note(&buffer.filled()[before..]);
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for HeadGuard<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
