//! One task for a connection and for the request it has brought last: bytes in, an answer worked out, bytes out.
//!
//! HTTP/2 wants a task for every request. Most requests take less time than handing them over does: a task that is
//! woken while another one runs wakes a thread, and so does the answer that wakes the connection. Therefore the last
//! request that has arrived is begun here, and gets a task of its own only if it has to wait. Those that have arrived
//! together with it get theirs at once, so that many requests on one connection use many processors.
//!
//! ```text
//!   socket ▶ connection ─┬▶ GET a  ▶ a task
//!                        ├▶ GET b  ▶ a task
//!                        └▶ PATCH c ▶ here ▶ connection ▶ socket
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use hyper::rt::Executor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use watchkeeper_wake::Bell;

type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the requests of one connection, and knows when they are done.
#[derive(Clone)]
pub(crate) struct Requests {
    tasks: TaskTracker,
    /// Cancelled when waiting for requests has taken too long.
    end: CancellationToken,
    /// The request that has arrived last and has not begun.
    last: Arc<Mutex<Option<Request>>>,
}

impl Requests {
    pub(crate) fn new(tasks: TaskTracker, end: CancellationToken) -> Self {
        let last = Arc::default();
        Self { tasks, end, last }
    }

    /// Begins the last request. If it has to wait, it goes on in a task of its own, which is polled at once: that
    /// is why nobody needs to be woken before.
    fn begin_last(&self) {
        if let Some(mut request) = self.replace_last(None)
            && request
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        {
            self.spawn(request);
        }
    }

    fn spawn_last(&self) {
        if let Some(request) = self.replace_last(None) {
            self.spawn(request);
        }
    }

    fn replace_last(&self, request: Option<Request>) -> Option<Request> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut last, request)
    }

    fn spawn(&self, request: Request) {
        let end = self.end.clone();
        self.tasks.spawn(async move {
            end.run_until_cancelled(without_waking_itself(request))
                .await
                .is_some()
        });
    }
}

impl<F> Executor<F> for Requests
where
    F: Future + Send + 'static,
{
    fn execute(&self, future: F) {
        let request = Box::pin(async move { drop(future.await) });
        if let Some(earlier) = self.replace_last(Some(request)) {
            self.spawn(earlier);
        }
    }
}

/// Drives a connection whose executor is `requests` to its end.
pub(crate) async fn drive<C: Future>(mut connection: Pin<&mut C>, requests: &Requests) -> C::Output {
    let driving = poll_fn(|context| {
        let progress = connection.as_mut().poll(context);
        match progress.is_pending() {
            true => requests.begin_last(),
            // It has arrived, so it is done, even if nobody hears the answer.
            false => requests.spawn_last(),
        }
        progress
    });
    without_waking_itself(driving).await
}

/// Polls a future again if something has happened to it while it was polled: an answer worked out on the
/// connection's task, or room for a frame of a watch. As a wake-up of the task, that would put it into the queue of a
/// thread and wake another thread to look at that queue.
async fn without_waking_itself<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    poll_fn(|task| bell.poll(task, &waker, |context| future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Poll;

    use tokio::sync::oneshot;

    use super::*;

    /// More often than a connection is polled before other tasks get their turn.
    const MANY_POLLS: usize = 24;

    fn requests() -> Requests {
        Requests::new(TaskTracker::new(), CancellationToken::new())
    }

    /// A connection that brings all of this the first time it is polled, and has ended the second time.
    async fn serve(requests: &Requests, brought: Vec<Request>) {
        let mut brought = Some(brought);
        let connection = poll_fn(|context| match brought.take() {
            Some(brought) => {
                brought.into_iter().for_each(|request| requests.execute(request));
                // As an answer does.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(()),
        });
        drive(std::pin::pin!(connection), requests).await;
        requests.tasks.close();
        requests.tasks.wait().await;
    }

    #[tokio::test]
    async fn the_last_request_is_answered_at_once_and_the_others_by_tasks() {
        let requests = requests();
        let (answer, answers) = mpsc::channel();
        let brought = ["a", "b", "c"].map(|name| -> Request {
            let answer = answer.clone();
            Box::pin(async move { answer.send((name, tokio::task::try_id())).unwrap() })
        });
        let (serving, here) = (serve(&requests, brought.into()), tokio::task::try_id());
        serving.await;
        let answered: Vec<_> = answers
            .try_iter()
            .map(|(name, task)| (name, task == here))
            .collect();
        assert_eq!(answered, [("c", true), ("a", false), ("b", false)]);
    }

    #[tokio::test]
    async fn a_request_that_waits_goes_on_in_a_task() {
        let requests = requests();
        let (release, released) = oneshot::channel();
        let (answer, answers) = mpsc::channel();
        let waits: Request = Box::pin(async move {
            released.await.unwrap();
            answer.send("waited").unwrap();
        });
        let free: Request = Box::pin(async move { release.send(()).unwrap() });
        let serving = serve(&requests, vec![waits]);
        let _ = tokio::join!(serving, free);
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), ["waited"]);
    }

    #[tokio::test]
    async fn what_happens_while_the_connection_is_driven_is_seen() {
        let requests = requests();
        let mut polls = 0;
        let connection = poll_fn(|context| {
            polls += 1;
            match polls <= MANY_POLLS {
                true => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                false => Poll::Ready(()),
            }
        });
        drive(std::pin::pin!(connection), &requests).await;
    }
}
