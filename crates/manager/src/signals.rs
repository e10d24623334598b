//! The signals that stop a process: `SIGTERM`, sent by Kubernetes, and `SIGINT`, sent by a terminal.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
