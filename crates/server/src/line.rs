//! A separate connection source for one program under test, with a known user, which a test can cut.
//!
//! A crashed program must not reach the server any more, whatever tasks it leaves behind. Its tasks cannot all be
//! found, but its line can be closed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;

use crate::User;
use crate::connector::Connector;
use crate::filter::Peer;
use crate::hangup::Hangup;

/// The time until a connection fails while the server is unreachable. Not zero: in paused time, a program that
/// retries at once would never let time pass.
const UNREACHABLE: Duration = Duration::from_secs(1);

/// Opens connections for one program. Clones are the same line.
#[derive(Clone, Debug)]
pub struct Line {
    connector: Connector,
    user: User,
    state: Arc<Mutex<State>>,
}

/// The reachability of a server on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Connections are opened.
    Open,
    /// New connections fail after a second.
    Down,
    /// New connections wait forever: the program is gone.
    Gone,
}

#[derive(Debug)]
struct State {
    reach: Reach,
    /// Closes the connections that are open now.
    open: CancellationToken,
}

impl Connector {
    /// A line for one program, which acts as this user and can be cut off.
    pub fn line(&self, user: User) -> Line {
        let state = State {
            reach: Reach::Open,
            open: CancellationToken::new(),
        };
        Line {
            connector: self.clone(),
            user,
            state: Arc::new(Mutex::new(state)),
        }
    }
}

impl Line {
    /// Opens a connection, like [`Connector::connect`]. Its requests need no credentials.
    pub async fn connect(&self) -> io::Result<DuplexStream> {
        let (reach, open) = {
            let state = self.state.lock();
            (state.reach, state.open.clone())
        };
        match reach {
            Reach::Open => {}
            Reach::Down => {
                tokio::time::sleep(UNREACHABLE).await;
                let why = "the server cannot be reached";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Reach::Gone => std::future::pending().await,
        }
        let peer = Peer {
            certified: Some(self.user.clone()),
            hangup: Hangup::within(&open),
            ..Peer::default()
        };
        self.connector.connect_as(peer).await
    }

    /// Closes all connections without sending pending bytes. New ones can be opened.
    pub fn cut(&self) {
        let open = std::mem::take(&mut self.state.lock().open);
        open.cancel();
    }

    /// Sets the reachability. Unless it is `Open`, open connections are closed.
    pub fn set_reach(&self, reach: Reach) {
        self.state.lock().reach = reach;
        if reach != Reach::Open {
            self.cut();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::Server;

    const WHO: &[u8] =
        b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nhost: localhost\r\n\
        content-type: application/json\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";

    async fn ask(pipe: &mut DuplexStream) -> String {
        pipe.write_all(WHO).await.unwrap();
        let mut answer = String::new();
        pipe.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn requests_on_a_line_have_its_user() {
        let server = Server::builder().start().await.unwrap();
        let line = server
            .connector()
            .line(User::authenticated("robot", "", Vec::new()));
        let answer = ask(&mut line.connect().await.unwrap()).await;
        assert!(answer.contains(r#""username":"robot""#), "{answer}");
        server.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_can_go_down_and_come_back() {
        let server = Server::builder().start().await.unwrap();
        let line = server.connector().line(User::default());
        let mut open = line.connect().await.unwrap();
        line.set_reach(Reach::Down);
        assert_eq!(open.read(&mut [0]).await.unwrap(), 0);
        let refused = line.connect().await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        line.set_reach(Reach::Open);
        let mut open = line.connect().await.unwrap();
        assert_ne!(ask(&mut open).await, "");
        line.set_reach(Reach::Gone);
        let waited = tokio::time::timeout(Duration::from_secs(3600), line.connect()).await;
        assert!(waited.is_err());
        server.shutdown().await;
    }
}
