//! The wire of one HTTP/2 connection: whoever asks writes, and one task reads.
//!
//! A request that is only laid down for a task to write wakes that task and often a thread, which takes longer than
//! writing it. So whoever asks writes the request out, unless somebody else is at the wire and will do it. Reading
//! is left to the task: nobody who has a small question is made to carry other people's long answers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::client::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use watchkeeper_wake::Bell;

use super::super::connector::Io;
use super::super::driver::come_again;
use super::later::{Later, Waiter};

/// As many bytes are read before those who wait for them get their turn, whether there are more or not: a long answer is
/// used while it is still in the processor's caches, and in a buffer that is free again for what comes next.
const READ_AT_ONCE: usize = 256 << 10;

/// A connection that its task and those who ask share.
pub(super) struct Wire {
    state: Mutex<State>,
    /// Wakes the task when frames have been laid down, unless somebody is at the wire anyway.
    bell: Arc<Bell>,
    /// Rings the bell.
    waker: Waker,
    reading: Arc<Reading>,
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
    reading: Arc<Reading>,
    /// Wakes the connection's task when there is something to read, whoever has looked last.
    reader: Waker,
}

/// What passes the gate at present.
#[derive(Default)]
struct Reading {
    /// Nothing: whoever is at the wire only writes.
    is_closed: AtomicBool,
    /// So much, until those who wait have been woken.
    room: AtomicUsize,
}

/// What a new connection is made of: the gate goes into it, and the wire is made with the rest.
pub(super) struct Parts {
    bell: Arc<Bell>,
    reading: Arc<Reading>,
}

impl Parts {
    pub(super) fn new(io: Box<dyn Io>) -> (Gate, Self) {
        let (bell, reading) = (Arc::new(Bell::default()), Arc::new(Reading::default()));
        reading.room.store(READ_AT_ONCE, Ordering::Relaxed);
        let gate = Gate {
            io,
            reading: reading.clone(),
            reader: Waker::from(Arc::new(Readable(bell.clone()))),
        };
        let parts = Self { bell, reading };
        (gate, parts)
    }

    pub(super) fn join(self, connection: Connection<Gate, Bytes>) -> Wire {
        Wire {
            state: Mutex::new(State::Open(Box::new(connection))),
            waker: Waker::from(self.bell.clone()),
            bell: self.bell,
            reading: self.reading,
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
        self.reading.room.store(READ_AT_ONCE, Ordering::Relaxed);
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
        let may_have_more = self.reading.room.load(Ordering::Relaxed) == 0;
        if progress.is_pending() && (leaves || may_have_more) {
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
        self.reading.is_closed.store(true, Ordering::Relaxed);
        let progress = Pin::new(&mut **connection).poll(&mut Context::from_waker(&self.waker));
        self.reading.is_closed.store(false, Ordering::Relaxed);
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
        if this.reading.is_closed.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let room = this.reading.room.load(Ordering::Relaxed);
        if room == 0 {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(&mut Context::from_waker(&this.reader), buffer);
        let count = buffer.filled().len() - before;
        this.reading
            .room
            .store(room.saturating_sub(count), Ordering::Relaxed);
        read
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
