//! A byte stream that yields after a fixed number of bytes, so that the bytes are used while the rest arrives.
//!
//! An HTTP/2 connection reads as long as there is input. A long list would fill its stream's window before its reader
//! runs: the server would then stall, and the bytes would have left the CPU caches. After [`TURN`] bytes the
//! connection's task yields.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of bytes read before the task yields.
const TURN: usize = 256 << 10;

/// A byte stream; writes are passed through.
pub(super) struct ReadTurns<IO> {
    io: IO,
    /// Bytes left in this turn.
    left: usize,
}

impl<IO> ReadTurns<IO> {
    pub(super) fn new(io: IO) -> Self {
        Self { io, left: TURN }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for ReadTurns<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.left == 0 {
            this.left = TURN;
            // Polled again after the ready tasks of this thread. Waking the task directly could move it to another
            // thread.
            let _ = pin!(tokio::task::yield_now()).poll(context);
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        this.left = match read {
            Poll::Ready(_) => this.left.saturating_sub(buffer.filled().len() - before),
            Poll::Pending => TURN,
        };
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for ReadTurns<IO> {
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Reads until the stream is pending; returns the bytes read.
    async fn read_turn(stream: &mut ReadTurns<&[u8]>) -> usize {
        let mut count = 0;
        poll_fn(|context| {
            loop {
                let mut bytes = [0; 8 << 10];
                let mut buffer = ReadBuf::new(&mut bytes);
                match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                    Poll::Ready(read) => read.unwrap(),
                    Poll::Pending => return Poll::Ready(()),
                }
                match buffer.filled().len() {
                    0 => return Poll::Ready(()),
                    read => count += read,
                }
            }
        })
        .await;
        count
    }

    #[tokio::test]
    async fn a_long_response_is_read_in_turns() {
        let bytes = vec![0; 2 * TURN + 1];
        let mut stream = ReadTurns::new(&bytes[..]);
        assert_eq!(read_turn(&mut stream).await, TURN);
        assert_eq!(read_turn(&mut stream).await, TURN);
        assert_eq!(read_turn(&mut stream).await, 1);
    }

    #[tokio::test]
    async fn a_reader_that_yields_is_polled_again() {
        let mut stream = ReadTurns::new(tokio::io::repeat(0));
        let mut bytes = vec![0; 2 * TURN];
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut bytes)
            .await
            .unwrap();
    }
}
