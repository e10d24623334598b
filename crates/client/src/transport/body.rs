//! A response's body: chunks as they arrive, unpacked if they were packed, within the request's deadline.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::gzip::Gunzip;
use super::pool::{SingleLease, StreamLease};
use crate::metrics::Series;

/// The bytes of a response, as they arrive.
///
/// Dropping it cancels the rest: on HTTP/2 the stream is reset, on HTTP/1.1 the connection is closed.
pub struct Body {
    incoming: Incoming,
    /// Boxed: it is large, and most bodies have none.
    gunzip: Option<Box<Gunzip>>,
    deadline: Option<Pin<Box<Sleep>>>,
    connection: Connection,
    state: State,
    tap: Option<Tap>,
    counter: Option<Counter>,
}

/// Tells how much has come once all has.
struct Counter {
    series: Arc<Series>,
    bytes: u64,
}

/// Keeps the first bytes that pass and shows them when the body ends or is dropped.
struct Tap {
    limit: usize,
    seen: Vec<u8>,
    show: fn(&[u8]),
}

/// What the body holds on to while it is read.
enum Connection {
    Shared {
        _stream: StreamLease,
    },
    Single(SingleLease),
    /// The body has ended and the connection serves others.
    Free,
}

#[derive(PartialEq)]
enum State {
    Arriving,
    Ended,
}

/// Why a body ended before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The connection or the stream broke.
    #[error("the connection was lost in the middle of the answer")]
    Lost {
        /// Why.
        source: hyper::Error,
    },
    /// Compressed data that cannot be unpacked, or that was cut short.
    #[error("the answer cannot be unpacked")]
    Gzip {
        /// Why.
        source: std::io::Error,
    },
    /// The request's time was up.
    #[error("the deadline passed in the middle of the answer")]
    Deadline,
    /// More than the caller wanted to hold.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// The most that was wanted.
        limit: usize,
    },
}

impl Body {
    pub(super) fn shared(incoming: Incoming, stream: StreamLease) -> Self {
        Self::new(incoming, Connection::Shared { _stream: stream })
    }

    pub(super) fn single(incoming: Incoming, lease: SingleLease) -> Self {
        Self::new(incoming, Connection::Single(lease))
    }

    fn new(incoming: Incoming, connection: Connection) -> Self {
        Self {
            incoming,
            gunzip: None,
            deadline: None,
            connection,
            state: State::Arriving,
            tap: None,
            counter: None,
        }
    }

    /// Unpacks gzip on the way.
    pub(crate) fn unpack(&mut self) {
        self.gunzip = Some(Box::new(Gunzip::new()));
    }

    /// Ends the body with an error at that time.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(Box::pin(tokio::time::sleep_until(deadline)));
    }

    /// Shows the first `limit` bytes once the body has passed.
    pub(crate) fn tap(&mut self, limit: usize, show: fn(&[u8])) {
        self.tap = Some(Tap {
            limit,
            seen: Vec::new(),
            show,
        });
    }

    /// Counts how long the whole body was, once it has come.
    pub(crate) fn count_into(&mut self, series: Arc<Series>) {
        self.counter = Some(Counter { series, bytes: 0 });
    }

    /// The next chunk; `None` at the end of a whole body.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The rest of the body in one piece, but no more than `limit` bytes.
    pub async fn collect(&mut self, limit: usize) -> Result<Bytes, BodyError> {
        let Some(first) = self.chunk().await.transpose()? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.chunk().await.transpose()? else {
            return if first.len() > limit {
                Err(BodyError::TooLong { limit })
            } else {
                Ok(first)
            };
        };
        let mut whole = BytesMut::from(first);
        whole.extend_from_slice(&second);
        while let Some(chunk) = self.chunk().await.transpose()? {
            whole.extend_from_slice(&chunk);
            if whole.len() > limit {
                return Err(BodyError::TooLong { limit });
            }
        }
        if whole.len() > limit {
            Err(BodyError::TooLong { limit })
        } else {
            Ok(whole.freeze())
        }
    }

    /// As [`Body::chunk`], for streams.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let chunk = std::task::ready!(self.poll_plain(cx));
        if let (Some(tap), Some(Ok(bytes))) = (&mut self.tap, &chunk) {
            let room = tap.limit - tap.seen.len();
            tap.seen.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        match (&mut self.counter, &chunk) {
            (None, _) => {}
            (Some(counter), Some(Ok(bytes))) => counter.bytes += bytes.len() as u64,
            (Some(counter), None) => {
                counter.series.received(counter.bytes);
                self.counter = None;
            }
            (_, Some(Err(_))) => self.counter = None,
        }
        Poll::Ready(chunk)
    }

    fn poll_plain(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            if let Some(gunzip) = &mut self.gunzip {
                match gunzip.next() {
                    Ok(Some(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                    Ok(None) => {}
                    Err(source) => return self.fail(BodyError::Gzip { source }),
                }
            }
            if self.state == State::Ended {
                return Poll::Ready(None);
            }
            match std::task::ready!(self.poll_arriving(cx)) {
                Some(Ok(bytes)) => match &mut self.gunzip {
                    Some(gunzip) => gunzip.feed(bytes),
                    None => return Poll::Ready(Some(Ok(bytes))),
                },
                Some(Err(error)) => return self.fail(error),
                None => {
                    if let Err(source) = self.end() {
                        return self.fail(BodyError::Gzip { source });
                    }
                }
            }
        }
    }

    fn poll_arriving(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Poll::Ready(Some(Ok(bytes))),
                    // Empty frames and trailers say nothing Kubernetes uses.
                    _ => continue,
                },
                Poll::Ready(Some(Err(source))) => return Poll::Ready(Some(Err(BodyError::Lost { source }))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {}
            }
            let Some(deadline) = &mut self.deadline else {
                return Poll::Pending;
            };
            std::task::ready!(deadline.as_mut().poll(cx));
            return Poll::Ready(Some(Err(BodyError::Deadline)));
        }
    }

    /// The last byte is here: the connection is free for others while we unpack.
    fn end(&mut self) -> std::io::Result<()> {
        self.state = State::Ended;
        if let Connection::Single(lease) = std::mem::replace(&mut self.connection, Connection::Free) {
            lease.give_back();
        }
        self.gunzip.as_mut().map_or(Ok(()), |gunzip| gunzip.finish())
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.state = State::Ended;
        self.gunzip = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        (self.show)(&self.seen);
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}
