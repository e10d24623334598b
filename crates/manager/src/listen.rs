//! The address or socket of a server.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};

use tokio::net::TcpListener;

use crate::error::ManagerError;

/// An address to bind when the manager starts, or a socket that is already bound: to know the port in advance, or to
/// take over one opened by the system.
///
/// ```
/// use std::net::TcpListener;
/// use watchkeeper_manager::Listen;
///
/// let address = Listen::from(([0, 0, 0, 0], 8080));
/// let socket: Listen = TcpListener::bind("127.0.0.1:0")?.into();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Listen(Kind);

#[derive(Debug)]
enum Kind {
    Address(SocketAddr),
    Socket(StdListener),
}

impl Listen {
    /// Binds the address; `what` names the server in the error.
    pub(crate) async fn bind(self, what: &'static str) -> Result<TcpListener, ManagerError> {
        let address = match &self.0 {
            Kind::Address(address) => Some(*address),
            Kind::Socket(socket) => socket.local_addr().ok(),
        };
        self.open().await.map_err(|source| ManagerError::Listen {
            what,
            address: address.map_or_else(|| "a socket".to_owned(), |address| address.to_string()),
            source,
        })
    }

    async fn open(self) -> io::Result<TcpListener> {
        match self.0 {
            Kind::Address(address) => TcpListener::bind(address).await,
            Kind::Socket(socket) => {
                socket.set_nonblocking(true)?;
                TcpListener::from_std(socket)
            }
        }
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self(Kind::Address(address))
    }
}

impl From<StdListener> for Listen {
    fn from(socket: StdListener) -> Self {
        Self(Kind::Socket(socket))
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for Listen {
    fn from(address: (I, u16)) -> Self {
        SocketAddr::from(address).into()
    }
}
