//! Opens a TCP connection: resolves the name, tries its addresses, sets socket options.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::TransportError;
use super::connector::Opening;

/// The delay before the next address is tried in parallel (RFC 8305; Go uses the same).
const HEAD_START: Duration = Duration::from_millis(300);

/// The idle time before the first TCP keep-alive probe.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The interval of probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// The number of unanswered probes after which the connection is closed. A dead HTTP/1.1 or WebSocket peer is
/// detected within 45 seconds; HTTP/2 also has its own pings.
const PROBES: u32 = 3;

/// The time after which unacknowledged data closes the connection. The kernel alone would retransmit for 15 minutes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(45);

/// Connects to the first address that answers, and records addresses and timings.
pub(super) async fn dial(host: &str, port: u16, opening: &mut Opening) -> Result<TcpStream, TransportError> {
    let begun = Instant::now();
    let addresses = resolve(host, port).await?;
    opening.look_up = begun.elapsed();
    opening.addresses.extend(addresses.iter().map(SocketAddr::ip));
    let stream = first_to_answer(addresses).await.and_then(tune);
    opening.dial = begun.elapsed() - opening.look_up;
    opening.peer = stream.as_ref().ok().and_then(|stream| stream.peer_addr().ok());
    stream.map_err(|source| TransportError::Dial {
        address: format!("{host}:{port}"),
        source: source.into(),
    })
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, TransportError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::net::lookup_host((bare, port)).await {
        Ok(addresses) => Ok(addresses.collect()),
        Err(source) => Err(TransportError::Resolve {
            host: bare.to_owned(),
            source: source.into(),
        }),
    }
}

/// Tries the next address when one fails, or after [`HEAD_START`]. Attempts already started continue.
async fn first_to_answer(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut last_error = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(last_error),
            None => {}
        }
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => return Ok(stream),
                Err(error) => last_error = error,
            },
            () = tokio::time::sleep(HEAD_START), if waiting.len() > 0 => {}
        }
    }
}

fn tune(stream: TcpStream) -> io::Result<TcpStream> {
    // Requests are small and expect an answer: Nagle's algorithm would only delay them.
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new()
        .with_time(KEEP_ALIVE)
        .with_interval(PROBE_INTERVAL)
        .with_retries(PROBES);
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&keep_alive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn sockets_have_nodelay_and_keep_alive_probes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut opening = Opening::default();
        let stream = dial("127.0.0.1", port, &mut opening).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEP_ALIVE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_INTERVAL);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
        assert_eq!((KEEP_ALIVE + PROBE_INTERVAL * PROBES).as_secs(), 45);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED_TIMEOUT));
        assert_eq!(opening.peer, Some(listener.local_addr().unwrap()));
    }
}
