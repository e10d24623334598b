//! A response body: chunks as they arrive, decompressed if necessary, within the request's deadline.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::BoxError;
use super::gzip::Gunzip;
use super::http2::StreamLease;
use super::pool::SingleLease;
use crate::metrics::Series;

/// Flow-control capacity is released in portions of this size. Smaller bodies end before the first release.
const RELEASED_AT_ONCE: usize = 64 << 10;

/// The body of a response, as it arrives.
///
/// Dropping it cancels the rest: on HTTP/2 the stream is reset, on HTTP/1.1 the connection is closed.
pub struct Body {
    source: Source,
    /// Boxed because it is large and rarely needed.
    gunzip: Option<Box<Gunzip>>,
    deadline: Option<Pin<Box<Sleep>>>,
    tap: Option<Tap>,
    counter: Option<Counter>,
}

/// Records the size of a complete body.
struct Counter {
    series: Arc<Series>,
    bytes: u64,
}

/// Keeps the first bytes of a body and logs them, with its size, when the body ends or is dropped.
struct Tap {
    limit: usize,
    seen: Vec<u8>,
    passed: usize,
    show: fn(&[u8], usize),
}

/// The source of the bytes, with the lease that is held until the last byte has arrived.
enum Source {
    Http2 {
        stream: RecvStream,
        lease: StreamLease,
        /// Bytes that were read but not yet released to the stream's window.
        unreleased: usize,
    },
    Http1(Incoming, SingleLease),
    /// The connection is free for other requests.
    Ended,
}

/// A body ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The connection or the stream broke.
    #[error("the connection was lost in the middle of the answer")]
    Lost {
        /// The error.
        source: BoxError,
    },
    /// The gzip data is invalid or truncated.
    #[error("the answer cannot be unpacked")]
    Gzip {
        /// The error.
        source: std::io::Error,
    },
    /// The request's deadline passed.
    #[error("the deadline passed in the middle of the answer")]
    Deadline,
    /// The body exceeds the caller's limit.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

impl Body {
    pub(super) fn shared(stream: RecvStream, lease: StreamLease) -> Self {
        Self::new(Source::Http2 {
            stream,
            lease,
            unreleased: 0,
        })
    }

    pub(super) fn single(incoming: Incoming, lease: SingleLease) -> Self {
        Self::new(Source::Http1(incoming, lease))
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            gunzip: None,
            deadline: None,
            tap: None,
            counter: None,
        }
    }

    /// Decompresses gzip.
    pub(crate) fn unpack(&mut self) {
        self.gunzip = Some(Box::new(Gunzip::new()));
    }

    /// Ends the body with an error at this time.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(Box::pin(tokio::time::sleep_until(deadline)));
    }

    /// Passes the first `limit` bytes and the body's size to `show` when the body ends.
    pub(crate) fn tap(&mut self, limit: usize, show: fn(&[u8], usize)) {
        self.tap = Some(Tap {
            limit,
            seen: Vec::new(),
            passed: 0,
            show,
        });
    }

    /// Records the body's size when it is complete.
    pub(crate) fn count_into(&mut self, series: Arc<Series>) {
        self.counter = Some(Counter { series, bytes: 0 });
    }

    /// The next chunk; `None` after a complete body.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The rest of the body in one piece, up to `limit` bytes.
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

    /// Like [`Body::chunk`], for streams.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let chunk = std::task::ready!(self.poll_plain(cx));
        if let (Some(tap), Some(Ok(bytes))) = (&mut self.tap, &chunk) {
            let room = tap.limit - tap.seen.len();
            tap.seen.extend_from_slice(&bytes[..bytes.len().min(room)]);
            tap.passed += bytes.len();
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
            if matches!(self.source, Source::Ended) {
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
            match self.source.poll_bytes(cx) {
                // Empty frames carry nothing.
                Poll::Ready(Some(Ok(bytes))) if bytes.is_empty() => continue,
                Poll::Ready(Some(Ok(bytes))) => return Poll::Ready(Some(Ok(bytes))),
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

    /// The last byte has arrived: frees the connection before decompression.
    fn end(&mut self) -> std::io::Result<()> {
        if let Source::Http1(_, lease) = std::mem::replace(&mut self.source, Source::Ended) {
            lease.give_back();
        }
        self.gunzip.as_mut().map_or(Ok(()), |gunzip| gunzip.finish())
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.source = Source::Ended;
        self.gunzip = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl Source {
    /// The next bytes of the connection. Trailers are ignored: Kubernetes sends none.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        match self {
            Self::Http2 {
                stream,
                lease,
                unreleased,
            } => match std::task::ready!(stream.poll_data(cx)) {
                Some(Ok(bytes)) => {
                    *unreleased += bytes.len();
                    if *unreleased >= RELEASED_AT_ONCE {
                        // A closed stream needs no capacity.
                        let _ = stream.flow_control().release_capacity(*unreleased);
                        *unreleased = 0;
                    }
                    Poll::Ready(Some(Ok(bytes)))
                }
                // The response is complete, and the server does not need the rest of the request.
                Some(Err(error)) if error.is_reset() && error.reason() == Some(h2::Reason::NO_ERROR) => {
                    Poll::Ready(None)
                }
                Some(Err(error)) => Poll::Ready(Some(Err(lease.cause(error)))),
                None => Poll::Ready(None),
            },
            Self::Http1(incoming, _) => {
                let frame = std::task::ready!(Pin::new(incoming).poll_frame(cx));
                Poll::Ready(frame.map(|frame| match frame {
                    Ok(frame) => Ok(frame.into_data().unwrap_or_default()),
                    Err(error) => Err(error.into()),
                }))
            }
            Self::Ended => Poll::Ready(None),
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        (self.show)(&self.seen, self.passed);
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}
