//! The signals that stop a process: `SIGTERM`, sent by Kubernetes, `SIGINT`, sent by a terminal, or a future.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// One signal, when a future completes: for a test, or a process that has its own reason to stop.
///
/// ```
/// # use watchkeeper_client::Client;
/// use watchkeeper_manager::{Manager, when};
///
/// # async fn test(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let running = tokio::spawn(Manager::new(client).run_until(when(stopped)));
/// drop(stop); // or send
/// running.await??;
/// # Ok(())
/// # }
/// ```
pub fn when(done: impl Future<Output: Send> + Send + 'static) -> impl Stream<Item = ()> + Send + 'static {
    stream::once(async { drop(done.await) })
}

/// Every `SIGTERM` and `SIGINT` from now on.
///
/// If the system refuses a handler, the signal keeps its default and ends the process.
pub fn signals() -> Signals {
    let listen = |kind: SignalKind| match signal(kind) {
        Ok(signal) => Some(signal),
        Err(error) => {
            tracing::error!(%error, "cannot install a signal handler: the signal will end the process");
            None
        }
    };
    let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
    Signals {
        listening: kinds.into_iter().filter_map(listen).collect(),
    }
}

/// A stream with one item for every signal; see [`signals`].
pub struct Signals {
    listening: Vec<Signal>,
}

impl Stream for Signals {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<()>> {
        let came = |signal: &mut Signal| signal.poll_recv(context).is_ready();
        match self.listening.iter_mut().any(came) {
            true => Poll::Ready(Some(())),
            false => Poll::Pending,
        }
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").finish_non_exhaustive()
    }
}
