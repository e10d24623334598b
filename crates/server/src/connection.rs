//! One connection: the tasks that run its requests, and the timing of its writes.
//!
//! ```text
//!   socket ▶ connection's task ─┬▶ PATCH a ▶ its own task ──answer──┐
//!                               └▶ WATCH b ▶ its own task ──quiet──┐│
//!   socket ◀── cork ◀── connection's task ◀──frames── quiet streams ◀┘
//! ```
//!
//! - [`requests`]: every HTTP/2 request gets a task, so that the requests of one connection use many processors. A watch
//!   stays there while it has much to encode. When it waits for an event it is *quiet*, and the connection's task polls
//!   it: an event that concerns many watches is written by one task that wakes once. A watch whose frames are copies
//!   of stored bytes is quiet from its first frame on: the thread that copies them also encrypts them.
//! - [`cork`]: small writes are held until the connection's task has done everything there is to do. They leave as one
//!   TLS record and one system call.
//! - [`bell`]: a wake-up during a poll makes the task poll again. An ordinary wake-up would wake a thread.
//! - [`task`]: polls quiet streams, then the connection, then releases the cork.
//!
//! HTTP/1.1 uses only the cork and the bell: hyper polls its single request on the connection's task.
//!
//! Each part pays for itself. Without it, as measured on two busy cores (medians of eight to ten alternating runs):
//!
//! | without | figure | change |
//! |---|---|---|
//! | quiet streams | one write to 300 watches, p50 | 2.0 to 2.8 ms |
//! | cork | 4,000 gets, 16 at once: the server's CPU time | 85 to 103 ms |
//! | cork | writes to 16 pods at once: the server's CPU time | 93 to 111 ms |
//! | bell | a lone write to a pod until its subscriber is called, p50 | 0.18 to 0.20 ms |
//! | bell | … the server's CPU time for 350 of them | 45 to 60 ms |
//!
//! A part that stops paying can be deleted on its own: quiet streams with the handover in `requests` and `task`; the
//! cork by passing the stream through in `listener`; the bell by polling with the task's own waker.

mod bell;
mod cork;
mod requests;
mod task;

pub(crate) use cork::cork;
pub(crate) use requests::{Requests, note_quiet};
pub(crate) use task::ConnectionTask;
