//! One TCP connection: look the name up, try its addresses, tune the socket.

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

/// A silent address gets this head start before the next one is tried beside it (RFC 8305; Go uses the same).
const HEAD_START: Duration = Duration::from_millis(300);

/// The kernel asks a silent peer after this time …
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// … and then this often …
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// … and gives up after as many questions. HTTP/2 has pings of its own; with these, a dead peer of HTTP/1.1 and of
/// WebSockets is noticed within 45 seconds, too.
const PROBES: u32 = 3;

/// The same for a peer that does not confirm what it was sent, which the kernel would repeat for a quarter of an hour.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNCONFIRMED: Duration = Duration::from_secs(45);

/// Connects to the first address that answers; notes what was found and how long it took.
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

/// A failing address gives way at once, a silent one after its head start; all that were tried stay in the race.
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
    // Requests are small and answered at once: waiting to fill a segment would only delay them.
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new()
        .with_time(KEEP_ALIVE)
        .with_interval(PROBE_INTERVAL)
        .with_retries(PROBES);
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&keep_alive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(UNCONFIRMED))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn sockets_send_at_once_and_ask_silent_peers() {
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
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNCONFIRMED));
        assert_eq!(opening.peer, Some(listener.local_addr().unwrap()));
    }
}
