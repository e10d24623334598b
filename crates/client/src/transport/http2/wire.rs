//! The wire of one HTTP/2 connection: whoever asks writes, and one task reads.
//!
//! A request that is only laid down for a task to write wakes that task and often a thread, which takes longer than
//! writing it. So whoever asks writes the request out, unless somebody else is at the wire and will do it. Reading
//! is left to the task: nobody who has a small question is made to carry other people's long answers.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::client::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use watchkeeper_wake::Bell;

use super::super::connector::Io;
use super::later::{Later, Waiter};

/// A connection that its task and those who ask share.
pub(super) struct Wire {
    state: Mutex<State>,
    /// Wakes the task when frames have been laid down, unless somebody is at the wire anyway.
    bell: Arc<Bell>,
    /// Rings the bell.
    waker: Waker,
    /// Whether reading is closed for the moment.
    reading_closed: Arc<AtomicBool>,
    /// Whether somebody has written since the task was last at the wire.
    written: AtomicBool,
    later: Arc<Later>,
}

enum State {
    Open(Box<Connection<Gate, Bytes>>),
    /// A writer has met the end; the task has not heard of it.
    Ended(Result<(), h2::Error>),
    Gone,
}

/// The byte stream under a connection, with a gate before its reading end.
pub(super) struct Gate {
    io: Box<dyn Io>,
    closed: Arc<AtomicBool>,
    /// Wakes the connection's task when there is something to read, whoever has looked last.
    reader: Waker,
}

/// What a new connection is made of: the gate goes into it, and the wire is made with the rest.
pub(super) struct Parts {
    bell: Arc<Bell>,
    reading_closed: Arc<AtomicBool>,
}

impl Parts {
    pub(super) fn new(io: Box<dyn Io>) -> (Gate, Self) {
        let (bell, closed) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
        let gate = Gate {
            io,
            closed: closed.clone(),
            reader: Waker::from(Arc::new(Readable(bell.clone()))),
        };
        let parts = Self {
            bell,
            reading_closed: closed,
        };
        (gate, parts)
    }

    pub(super) fn join(self, connection: Connection<Gate, Bytes>) -> Wire {
        Wire {
            state: Mutex::new(State::Open(Box::new(connection))),
            waker: Waker::from(self.bell.clone()),
            bell: self.bell,
            reading_closed: self.reading_closed,
            written: AtomicBool::new(false),
            later: Arc::default(),
        }
    }
}

impl Wire {
    /// Moves frames in both directions: the part of the task. `note` looks at the connection afterwards.
    pub(super) fn poll(
        &self,
        context: &mut Context<'_>,
        note: impl Fn(&Connection<Gate, Bytes>),
    ) -> Poll<Result<(), h2::Error>> {
        self.written.store(false, Ordering::Relaxed);
        self.later.wake_left();
        // The wire is free again before anybody is woken: they may have something to write.
        let (progress, leaves) = self.later.hold(|| {
            let mut state = self.lock();
            self.bell.poll(context, &self.waker, |context| {
                let State::Open(connection) = &mut *state else {
                    return Poll::Ready(state.take_end());
                };
                let progress = Pin::new(&mut **connection).poll(context);
                note(connection);
                progress
            })
        });
        if leaves {
            come_again(context);
        }
        progress
    }

    /// Somebody who waits for a stream.
    pub(super) fn waiter(&self) -> Waiter {
        self.later.waiter()
    }

    /// Lays frames down and writes them out, or leaves that to the task if others have just written: many requests at
    /// once go out together, in one piece.
    pub(super) fn write<T>(&self, lay_down: impl FnOnce() -> T) -> T {
        if self.written.swap(true, Ordering::Relaxed) {
            return lay_down();
        }
        let Ok(mut state) = self.state.try_lock() else {
            // Whoever is at the wire finds the bell rung when they leave.
            return lay_down();
        };
        self.bell.silence();
        let laid_down = lay_down();
        self.bell.silence();
        let ended = self.write_out(&mut state);
        drop(state);
        if ended || !self.bell.set() {
            self.bell.wake_task();
        }
        laid_down
    }

    /// Returns whether the connection has ended.
    fn write_out(&self, state: &mut State) -> bool {
        let State::Open(connection) = state else {
            return true;
        };
        self.reading_closed.store(true, Ordering::Relaxed);
        let progress = Pin::new(&mut **connection).poll(&mut Context::from_waker(&self.waker));
        self.reading_closed.store(false, Ordering::Relaxed);
        if let Poll::Ready(end) = progress {
            *state = State::Ended(end);
        }
        matches!(state, State::Ended(_))
    }

    /// Lets the connection go: its streams break.
    pub(super) fn close(&self) {
        let connection = std::mem::replace(&mut *self.lock(), State::Gone);
        drop(connection);
        self.later.wake_left();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_end(&mut self) -> Result<(), h2::Error> {
        match std::mem::replace(self, Self::Gone) {
            Self::Ended(end) => end,
            _ => Ok(()),
        }
    }
}

/// Has this task polled again when its thread has nothing else to do. To wake it would be to wake another thread.
fn come_again(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}

/// Wakes the connection's task whoever is at the wire: only the task reads.
struct Readable(Arc<Bell>);

impl Wake for Readable {
    fn wake(self: Arc<Self>) {
        self.0.wake_task();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_task();
    }
}

impl AsyncRead for Gate {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // The task has read until there was nothing left, and is woken when there is more.
        if this.closed.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut this.io).poll_read(&mut Context::from_waker(&this.reader), buffer)
    }
}

impl AsyncWrite for Gate {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
