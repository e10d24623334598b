//! A byte stream that coalesces small writes.
//!
//! hyper writes every HTTP/2 frame separately, and each write is a TLS record and a system call on both sides.
//! [`Cork`] holds small writes until the connection's task has finished all available work ([`Outlet::release`]). The
//! response to a write and its event, or the events of many watches, then leave together. Nothing waits for work that
//! has not arrived yet.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The limit on held bytes: one TLS record. Larger writes are passed on, after the held bytes.
const MAX_HELD: usize = 16 << 10;

/// The initial buffer: a usual response and its event.
const FIRST_ROOM: usize = 8 << 10;

/// The byte stream of a connection.
pub(crate) struct Cork<IO>(Arc<Mutex<Held<IO>>>);

/// Releases the bytes that a [`Cork`] holds.
pub(crate) struct Release<IO>(Arc<Mutex<Held<IO>>>);

struct Held<IO> {
    io: IO,
    bytes: Vec<u8>,
    /// The number of bytes already written.
    written: usize,
    /// False while TLS below holds bytes because the socket is full.
    is_flushed: bool,
    /// True if writes are held.
    is_corked: bool,
    /// An error of [`Outlet::release`], which has no caller. The next read returns it.
    failure: Option<io::Error>,
}

/// Corks a byte stream.
pub(crate) fn cork<IO>(io: IO) -> (Cork<IO>, Release<IO>) {
    let held = Arc::new(Mutex::new(Held {
        io,
        bytes: Vec::new(),
        written: 0,
        is_flushed: true,
        is_corked: true,
        failure: None,
    }));
    (Cork(held.clone()), Release(held))
}

/// The connection task's side of a cork.
pub(crate) trait Outlet {
    /// Writes the held bytes as far as the peer accepts them; the rest follows with the next poll.
    fn release(&self, context: &mut Context<'_>);

    /// Stops holding: the byte stream has another user after an upgrade.
    fn open(&self);
}

impl<IO: AsyncWrite + Unpin> Outlet for Release<IO> {
    fn release(&self, context: &mut Context<'_>) {
        let mut held = self.0.lock();
        if !held.is_flushed
            && let Poll::Ready(Err(error)) = held.poll_flush(context)
        {
            held.failure = Some(error);
            context.waker().wake_by_ref();
        }
    }

    fn open(&self) {
        self.0.lock().is_corked = false;
    }
}

impl<IO: AsyncWrite + Unpin> Held<IO> {
    fn poll_release(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.bytes.len() {
            let rest = &self.bytes[self.written..];
            match ready!(Pin::new(&mut self.io).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        // Freed, because thousands of connections may be idle.
        self.bytes = Vec::new();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_release(context))?;
        ready!(Pin::new(&mut self.io).poll_flush(context))?;
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Holds these bytes if they fit.
    fn hold(&mut self, slices: &[IoSlice<'_>]) -> Option<usize> {
        let size: usize = slices.iter().map(|slice| slice.len()).sum();
        if !self.is_corked || self.bytes.len() + size > MAX_HELD {
            return None;
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(size.max(FIRST_ROOM));
        }
        slices
            .iter()
            .for_each(|slice| self.bytes.extend_from_slice(slice));
        self.is_flushed = false;
        Some(size)
    }
}

impl<IO> Cork<IO> {
    fn lock(&self) -> MutexGuard<'_, Held<IO>> {
        self.0.lock()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Cork<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut held = self.lock();
        match held.failure.take() {
            Some(failure) => Poll::Ready(Err(failure)),
            None => Pin::new(&mut held.io).poll_read(context, buffer),
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Cork<IO> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut held = self.lock();
        if let Some(size) = held.hold(slices) {
            return Poll::Ready(Ok(size));
        }
        ready!(held.poll_release(context))?;
        match held.hold(slices) {
            Some(size) => Poll::Ready(Ok(size)),
            None => Pin::new(&mut held.io).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.lock().io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.lock();
        match held.is_corked && !held.is_flushed {
            // `release` will flush.
            true => Poll::Ready(Ok(())),
            false => held.poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.lock();
        ready!(held.poll_release(context))?;
        Pin::new(&mut held.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    async fn release<IO: AsyncWrite + Unpin>(outlet: &Release<IO>) {
        std::future::poll_fn(|context| {
            outlet.release(context);
            Poll::Ready(())
        })
        .await;
    }

    /// Records its writes, and accepts them only after the second flush.
    #[derive(Default)]
    struct Pieces {
        pieces: Vec<Vec<u8>>,
        flushes: usize,
    }

    impl AsyncWrite for Pieces {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.pieces.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushes += 1;
            match self.flushes {
                1 => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            }
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn small_writes_are_coalesced_and_large_ones_follow() {
        let large = [b'x'; MAX_HELD + 1];
        let (mut stream, outlet) = cork(Pieces::default());
        stream.write_all(b"one ").await.unwrap();
        stream.flush().await.unwrap();
        stream.write_all(b"two").await.unwrap();
        release(&outlet).await;
        stream.write_all(b"three").await.unwrap();
        stream.write_all(&large).await.unwrap();
        let pieces = &outlet.0.lock().io.pieces;
        assert_eq!(pieces, &[&b"one two"[..], b"three", &large]);
    }

    #[tokio::test]
    async fn bytes_held_by_the_layer_below_are_flushed_again() {
        let (mut stream, outlet) = cork(Pieces::default());
        stream.write_all(b"one").await.unwrap();
        for _ in 0..3 {
            release(&outlet).await;
        }
        assert_eq!(outlet.0.lock().io.flushes, 2);
    }

    async fn receive(client: &mut DuplexStream, count: usize) -> Vec<u8> {
        let mut received = vec![0; count];
        client.read_exact(&mut received).await.unwrap();
        received
    }

    #[tokio::test]
    async fn no_byte_is_lost_after_a_partial_write_and_an_upgrade() {
        let (mut client, io) = tokio::io::duplex(4);
        let (mut stream, outlet) = cork(io);
        stream.write_all(b"12345678").await.unwrap();
        release(&outlet).await;
        assert_eq!(receive(&mut client, 4).await, b"1234");
        stream.write_all(b"9").await.unwrap();
        release(&outlet).await;
        assert_eq!(receive(&mut client, 4).await, b"5678");
        outlet.open();
        stream.write_all(b"abc").await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(receive(&mut client, 4).await, b"9abc");
    }

    #[tokio::test]
    async fn a_release_error_is_returned_by_the_next_read() {
        let (client, io) = tokio::io::duplex(4);
        let (mut stream, outlet) = cork(io);
        drop(client);
        stream.write_all(b"1").await.unwrap();
        release(&outlet).await;
        let failure = stream.read_u8().await.unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::BrokenPipe);
    }
}
