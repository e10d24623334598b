//! A stream of events: passes on frames until the source ends, the server drains, or a fault ends it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt as _;
use tokio::time::Sleep;

use crate::body::{FrameStream, StreamCut};
use crate::faults::{Faults, Flow, Requester, StreamFlow};
use crate::request_info::RequestInfo;

/// A stream registered for fault injection and draining, until it is dropped.
pub(crate) struct Opened {
    flow: Arc<StreamFlow>,
    registration: Registration,
}

impl Opened {
    /// Registers a stream.
    pub(crate) fn new(faults: Arc<Faults>, requester: Requester, info: RequestInfo) -> Self {
        let (id, flow) = faults.open_stream(requester, info);
        let registration = Registration { id, faults };
        Self { flow, registration }
    }

    /// The number of the stream.
    pub(crate) fn id(&self) -> u64 {
        self.registration.id
    }

    /// True while frames are sent at once. A fault that delays each frame must receive them one by one.
    pub(crate) fn is_running(&self) -> impl Fn() -> bool + Send + 'static {
        let flow = self.flow.clone();
        move || flow.now() == Flow::Running
    }
}

/// Sends the frames of a source until it ends, the server drains, or a fault ends it.
pub(crate) fn guarded(source: impl Stream<Item = Bytes> + Send + 'static, opened: Opened) -> FrameStream {
    Box::pin(Guarded {
        source: source.boxed(),
        flow: opened.flow,
        held: None,
        is_cutting: false,
        _registration: opened.registration,
    })
}

struct Guarded {
    source: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
    flow: Arc<StreamFlow>,
    /// A delayed frame.
    held: Option<(Bytes, Pin<Box<Sleep>>)>,
    /// True if the stream is cut with the next poll.
    is_cutting: bool,
    _registration: Registration,
}

/// Unregisters the stream when it is dropped.
struct Registration {
    id: u64,
    faults: Arc<Faults>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.faults.close_stream(self.id);
    }
}

impl Stream for Guarded {
    type Item = Result<Bytes, StreamCut>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        match this.flow.follow(context) {
            // HTTP/2 drops pending bytes when a stream is reset: the connection first gets a turn to send them.
            Flow::Cut if !std::mem::replace(&mut this.is_cutting, true) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Flow::Cut => Poll::Ready(Some(Err(StreamCut))),
            Flow::Ended => Poll::Ready(None),
            Flow::Stalled => Poll::Pending,
            Flow::Slow(delay) => this.poll_slow(delay, context),
            Flow::Running => match this.held.take() {
                Some((bytes, _)) => Poll::Ready(Some(Ok(bytes))),
                None => this.source.as_mut().poll_next(context).map(|bytes| bytes.map(Ok)),
            },
        }
    }
}

impl Guarded {
    fn poll_slow(
        &mut self,
        delay: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, StreamCut>>> {
        if self.held.is_none() {
            match self.source.as_mut().poll_next(context) {
                Poll::Ready(Some(bytes)) => self.held = Some((bytes, Box::pin(tokio::time::sleep(delay)))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        let Some((_, timer)) = &mut self.held else {
            return Poll::Pending;
        };
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(self.held.take().map(|(bytes, _)| Ok(bytes))),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verb;
    use crate::faults::RequestMatch;
    use futures_util::stream;
    use http::Method;

    fn numbers() -> (FrameStream, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let info = RequestInfo::read(&Method::GET, "/api/v1/pods", "watch=1");
        let source = stream::iter(["1", "2", "3"])
            .map(Bytes::from)
            .chain(stream::pending());
        let frames = guarded(source, Opened::new(faults.clone(), Requester::default(), info));
        (frames, faults)
    }

    fn pods() -> RequestMatch {
        RequestMatch::new(Verb::Watch, "pods")
    }

    #[tokio::test]
    async fn draining_ends_a_stream_cleanly() {
        let (mut frames, faults) = numbers();
        assert_eq!(frames.next().await.unwrap().unwrap(), "1");
        faults.end_streams();
        // It would otherwise wait for ever.
        faults.set_flow(&pods(), Flow::Stalled);
        assert!(frames.next().await.is_none());
        drop(frames);
        assert_eq!(faults.open_streams(&pods()), 0);
    }

    #[tokio::test]
    async fn a_stream_opened_while_draining_ends_and_a_waiting_one_is_woken() {
        let (mut frames, faults) = numbers();
        faults.set_flow(&pods(), Flow::Stalled);
        let waiting = tokio::spawn(async move { frames.next().await.is_none() });
        tokio::task::yield_now().await;
        faults.end_streams();
        assert!(waiting.await.unwrap());
        let info = RequestInfo::read(&Method::GET, "/api/v1/pods", "watch=1");
        let opened = Opened::new(faults, Requester::default(), info);
        assert!(guarded(stream::pending(), opened).next().await.is_none());
    }

    #[test]
    fn a_delayed_stream_takes_frames_one_by_one() {
        let faults = Arc::new(Faults::default());
        let info = RequestInfo::read(&Method::GET, "/api/v1/pods", "watch=1");
        let opened = Opened::new(faults.clone(), Requester::default(), info);
        let is_running = opened.is_running();
        assert!(is_running());
        faults.set_flow(&pods(), Flow::Slow(Duration::from_secs(1)));
        assert!(!is_running());
        faults.set_flow(&pods(), Flow::Running);
        assert!(is_running());
    }

    #[tokio::test]
    async fn a_cut_stream_breaks_off() {
        let (mut frames, faults) = numbers();
        faults.set_flow(&pods(), Flow::Cut);
        assert!(frames.next().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_stream_loses_nothing() {
        let (mut frames, faults) = numbers();
        faults.set_flow(&pods(), Flow::Stalled);
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, frames.next()).await.is_err());
        faults.set_flow(&pods(), Flow::Slow(hour));
        let before = tokio::time::Instant::now();
        assert_eq!(frames.next().await.unwrap().unwrap(), "1");
        assert_eq!(before.elapsed(), hour);
        faults.set_flow(&pods(), Flow::Running);
        assert_eq!(frames.next().await.unwrap().unwrap(), "2");
    }
}
