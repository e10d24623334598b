//! In-process connections: an in-memory pipe per connection, served like a socket.

use std::io;

use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use crate::filter::Peer;
use crate::limits::PIPE_BYTES;

/// Opens connections to a server in the same process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Connector {
    pipes: mpsc::Sender<Pipe>,
}

/// The server's end of a pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub stream: DuplexStream,
    pub peer: Peer,
}

impl Connector {
    pub(crate) fn new(pipes: mpsc::Sender<Pipe>) -> Self {
        Self { pipes }
    }

    /// Opens a connection for plain HTTP/1.1, or HTTP/2 with prior knowledge.
    ///
    /// Waits while the server has many unserved connections; fails once it has shut down.
    pub async fn connect(&self) -> io::Result<DuplexStream> {
        self.connect_as(Peer::default()).await
    }

    pub(crate) async fn connect_as(&self, peer: Peer) -> io::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let pipe = Pipe { stream: theirs, peer };
        match self.pipes.send(pipe).await {
            Ok(()) => Ok(ours),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                "the server has shut down",
            )),
        }
    }
}
