//! A request that is sent when it is awaited, with optional options.
//!
//! ```no_run
//! # use watchkeeper_client::{Client, Error, ResourceType};
//! # use watchkeeper_meta::ListOptions;
//! # async fn example<Pod: ResourceType>(client: Client) -> Result<(), Error> {
//! let pods = client.api::<Pod>().namespace("default");
//! let all = pods.list().await?;
//! let some = pods.list().with(&ListOptions { limit: Some(10), ..Default::default() }).await?;
//! # Ok(())
//! # }
//! ```

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use watchkeeper_meta::ApplyOptions;

use crate::error::Error;

/// A request with options `O` and result `T`, sent when it is awaited.
#[must_use = "a request is sent when it is awaited"]
pub struct Call<'a, O: Clone, T, E = Error> {
    options: Option<Cow<'a, O>>,
    state: State<'a, O, T, E>,
}

/// Builds and sends the request.
type Sender<'a, O, T, E> = Box<dyn FnOnce(&O) -> BoxFuture<'a, Result<T, E>> + Send + 'a>;

enum State<'a, O, T, E> {
    Unsent(Sender<'a, O, T, E>),
    Sent(BoxFuture<'a, Result<T, E>>),
    Answered,
}

impl<'a, O: Clone + Default, T, E> Call<'a, O, T, E> {
    pub(crate) fn new(send: impl FnOnce(&O) -> BoxFuture<'a, Result<T, E>> + Send + 'a) -> Self {
        Self {
            options: None,
            state: State::Unsent(Box::new(send)),
        }
    }

    /// Sets the options; without this call the defaults apply.
    pub fn with(self, options: &'a O) -> Self {
        Self {
            options: Some(Cow::Borrowed(options)),
            ..self
        }
    }

    /// Converts the result.
    pub(crate) fn then<U>(
        self,
        answer: impl FnOnce(Result<T, E>) -> Result<U, E> + Send + 'a,
    ) -> Call<'a, O, U, E>
    where
        O: 'a,
        T: 'a,
        E: 'a,
    {
        let Self { options, state } = self;
        let State::Unsent(send) = state else {
            unreachable!("it was just made");
        };
        let send = move |options: &O| -> BoxFuture<'a, Result<U, E>> {
            let sent = send(options);
            Box::pin(async move { answer(sent.await) })
        };
        Call {
            options,
            state: State::Unsent(Box::new(send)),
        }
    }
}

impl<T> Call<'_, ApplyOptions, T> {
    /// Takes fields from other managers instead of reporting a conflict, as controllers usually do.
    pub fn force(mut self) -> Self {
        self.options.get_or_insert_default().to_mut().force = true;
        self
    }
}

impl<O: Clone + Default + Unpin, T, E> Future for Call<'_, O, T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Unsent(_) = &self.state
            && let State::Unsent(send) = std::mem::replace(&mut self.state, State::Answered)
        {
            let sent = match &self.options {
                Some(options) => send(options),
                None => send(&O::default()),
            };
            self.state = State::Sent(sent);
        }
        match &mut self.state {
            State::Sent(sent) => sent.as_mut().poll(cx),
            State::Unsent(_) | State::Answered => Poll::Pending,
        }
    }
}

impl<O: Clone + fmt::Debug, T, E> fmt::Debug for Call<'_, O, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
