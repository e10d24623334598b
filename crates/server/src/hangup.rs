//! Closes a connection on purpose: at once, or after pending bytes were sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http::HeaderValue;
use http::header::CONTENT_LENGTH;
use http_body::Body as _;
use tokio_util::sync::CancellationToken;

use crate::body::{ResponseBody, StreamCut};
use crate::faults::Cut;
use crate::respond::Answer;

/// Closes one connection. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hangup {
    now: CancellationToken,
    when_flushed: CancellationToken,
}

impl Hangup {
    /// A handle that also closes the connection when `open` is cancelled.
    pub(crate) fn within(open: &CancellationToken) -> Self {
        Self {
            now: open.child_token(),
            when_flushed: CancellationToken::new(),
        }
    }

    /// Closes the connection without sending pending bytes.
    pub(crate) fn break_now(&self) {
        self.now.cancel();
    }

    /// Closes the connection without sending pending bytes, and waits until it is closed.
    pub(crate) async fn now(&self) -> ! {
        self.break_now();
        std::future::pending().await
    }

    /// Waits until the connection should close at once.
    pub(crate) async fn is_due(&self) {
        self.now.cancelled().await;
    }

    /// Waits until the connection should close after pending bytes were sent.
    pub(crate) async fn is_due_when_flushed(&self) {
        self.when_flushed.cancelled().await;
    }

    /// A response whose connection closes within it or after it.
    pub(crate) fn interrupts(&self, answer: Answer, cut: Cut) -> Answer {
        let (mut head, body) = answer.into_parts();
        if let (Some(length), false) = (
            body.size_hint().exact(),
            head.headers.contains_key(CONTENT_LENGTH),
        ) {
            // The promised length, not the sent one.
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let keeps_half = cut == Cut::WithinAnswer;
        let interrupted = Interrupted {
            body,
            keeps_half,
            is_over: false,
            end: End(self.when_flushed.clone()),
        };
        let frames = ResponseBody::Stream {
            frames: Box::pin(interrupted),
            is_copied: false,
            unwritten: None,
        };
        Answer::from_parts(head, frames)
    }
}

/// Closes the connection when it is dropped.
struct End(CancellationToken);

impl Drop for End {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A body that closes its connection.
struct Interrupted {
    body: ResponseBody,
    /// Sends only half of the body's first frame.
    keeps_half: bool,
    is_over: bool,
    end: End,
}

impl Stream for Interrupted {
    type Item = Result<Bytes, StreamCut>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            this.end.0.cancel();
            return Poll::Pending;
        }
        let frame = std::task::ready!(Pin::new(&mut this.body).poll_frame(context));
        let data = frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()));
        if !this.keeps_half {
            return Poll::Ready(data);
        }
        this.is_over = true;
        let half = |mut bytes: Bytes| bytes.split_to(bytes.len() / 2);
        Poll::Ready(Some(data.unwrap_or_else(|| Ok(Bytes::new())).map(half)))
    }
}
