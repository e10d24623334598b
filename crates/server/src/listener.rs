//! Accepts connections from a socket or in-process; a task serves each until its client leaves or the server drains.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{ConnectionTask, Requests, cork};
use crate::connector::Pipe;
use crate::filter::{self, Peer};
use crate::head_guard::HeadGuard;
use crate::limits::*;
use crate::open_requests::{OpenBody, OpenRequests};
use crate::shared::Shared;
use crate::stall_guard::StallGuard;
use crate::tls::{ListenerTls, Tls};

/// The pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The sources of connections.
pub(crate) struct Sources {
    /// The socket, if there is one, with its TLS configuration.
    pub socket: Option<(TcpListener, ListenerTls)>,
    /// In-process pipes.
    pub pipes: mpsc::Receiver<Pipe>,
}

/// Serves connections until the server drains, then waits for the open ones, up to a limit.
pub(crate) async fn run(mut sources: Sources, server: Arc<Shared>) {
    let connections = Connections {
        tasks: server.tasks.clone(),
        end: CancellationToken::new(),
        places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        server: server.clone(),
    };
    tokio::select! {
        // Draining first: a flood of connections must not delay it.
        biased;
        () = server.draining.cancelled() => {}
        () = connections.take_all(&mut sources) => {}
    }
    // New connections are refused from now on.
    drop(sources);
    connections.drain().await;
}

/// The connections of one server.
struct Connections {
    tasks: TaskTracker,
    /// Cancelled when draining has taken too long.
    end: CancellationToken,
    places: Arc<Semaphore>,
    server: Arc<Shared>,
}

impl Connections {
    async fn take_all(&self, sources: &mut Sources) {
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else {
                return;
            };
            tokio::select! {
                Some(pipe) = sources.pipes.recv() => {
                    if !self.server.faults.is_refusing_connections() {
                        self.spawn(place, serve(Stream::Left(pipe.stream), pipe.peer, Protocol::Either, self.context()));
                    }
                }
                socket = accept(&sources.socket) => {
                    if let Some((stream, tls)) = socket && !self.server.faults.is_refusing_connections() {
                        self.spawn(place, serve_tls(stream, tls, self.context()));
                    }
                }
            }
        }
    }

    fn context(&self) -> Context {
        Context {
            server: self.server.clone(),
            requests: Requests::new(self.tasks.clone(), self.end.clone()),
        }
    }

    fn spawn(&self, place: impl Send + 'static, serving: impl Future<Output = ()> + Send + 'static) {
        let server = self.server.clone();
        let end = self.end.clone();
        // Boxed, because a future moved into another takes its space twice; thousands of connections may be idle.
        let serving = Box::pin(serving);
        self.tasks.spawn(async move {
            server.metrics.connection_opened();
            let _ = end.run_until_cancelled(serving).await;
            server.metrics.connection_closed();
            drop(place);
        });
    }

    async fn drain(self) {
        self.tasks.close();
        if tokio::time::timeout(DRAIN_TIMEOUT, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("closing connections whose requests did not finish in {DRAIN_TIMEOUT:?}");
            self.end.cancel();
            self.tasks.wait().await;
        }
    }
}

/// The next connection of the socket; waits forever if there is none.
async fn accept(socket: &Option<(TcpListener, ListenerTls)>) -> Option<(TcpStream, Arc<Tls>)> {
    let Some((listener, tls)) = socket else {
        return std::future::pending().await;
    };
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, tls.current())),
        Err(error) => {
            tracing::warn!(%error, "cannot take a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// The parts of the server that a connection needs.
#[derive(Clone)]
struct Context {
    server: Arc<Shared>,
    requests: Requests,
}

/// The protocol of a connection.
#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
    /// Detected from the first bytes.
    Either,
}

/// The silence limits of a peer.
#[derive(Clone, Copy)]
struct Silence {
    /// During the TLS handshake.
    handshake: Option<Duration>,
    /// Between requests.
    idle: Option<Duration>,
    /// In the head of a request.
    head: Option<Duration>,
    /// Before an HTTP/2 peer is pinged.
    ping: Option<Duration>,
    /// While bytes wait to be written.
    stall: Option<Duration>,
}

impl Silence {
    const LIMITED: Self = Self {
        handshake: Some(HANDSHAKE_TIMEOUT),
        idle: Some(IDLE_TIMEOUT),
        head: Some(HEADER_TIMEOUT),
        ping: Some(PING_INTERVAL),
        stall: Some(WRITE_STALL_TIMEOUT),
    };
    const UNLIMITED: Self = Self {
        handshake: None,
        idle: None,
        head: None,
        ping: None,
        stall: None,
    };

    fn of_peers(server: &Shared) -> Self {
        match server.has_movable_clock() {
            true => Self::UNLIMITED,
            false => Self::LIMITED,
        }
    }
}

async fn serve_tls(stream: TcpStream, tls: Arc<Tls>, context: Context) {
    // Small watch frames must not wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let handshake = handshake(stream, &tls);
    let handshake = match Silence::of_peers(&context.server).handshake {
        Some(limit) => tokio::time::timeout(limit, handshake).await,
        None => Ok(handshake.await),
    };
    let Ok(Some(stream)) = handshake else {
        return;
    };
    let (_, session) = stream.get_ref();
    let protocol = match session.alpn_protocol() {
        Some(b"h2") => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let mut peer = tls.peer(session.peer_certificates());
    peer.address = stream.get_ref().0.peer_addr().ok();
    Box::pin(serve(Stream::Right(stream), peer, protocol, context)).await;
}

/// Go's answer to a request without TLS.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The connection after its TLS handshake. A client that speaks HTTP instead is told so.
async fn handshake(mut stream: TcpStream, tls: &Tls) -> Option<TlsStream<TcpStream>> {
    let mut first = [0];
    let peeked = stream.peek(&mut first).await;
    // A method; a handshake starts with 0x16.
    if peeked.is_ok_and(|count| count == 1) && first[0].is_ascii_uppercase() {
        // A socket that is closed before it was read is reset, and the answer is lost.
        let _ = stream.try_read(&mut [0; 4096]);
        let _ = stream.write_all(PLAIN_HTTP).await;
        return None;
    }
    tls.acceptor.accept(stream).await.ok()
}

/// The bytes of a connection: of a pipe or of a socket. One type for both, so that hyper is compiled once.
type Stream = Either<DuplexStream, TlsStream<TcpStream>>;

async fn serve<IO>(io: IO, peer: Peer, protocol: Protocol, context: Context)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Context { server, requests } = context;
    let (draining, hangup) = (server.draining.clone(), peer.hangup.clone());
    let silence = Silence::of_peers(&server);
    let peer = Arc::new(peer);
    let open = OpenRequests::default();
    let opened = open.clone();
    let service = service_fn(move |request| {
        let request_open = opened.open();
        // Boxed and dropped when the response has started: a watch streams for hours, and every surrounding future
        // would reserve space for the handler.
        let answer = Box::pin(filter::serve(server.clone(), peer.clone(), request));
        async move {
            let answer = answer.await.map(|body| OpenBody {
                body,
                _request: request_open,
            });
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let builder = http(protocol, requests.clone(), silence);
    let io = HeadGuard::new(io, silence.head, open.clone());
    let (io, outlet) = cork(StallGuard::new(io, silence.stall));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(io), service);
    let mut task = ConnectionTask::new(connection, requests, outlet);
    let served = async {
        tokio::select! {
            served = task.drive() => return report(served),
            () = draining.cancelled() => {}
            () = idle(&open, silence.idle) => {}
        }
        task.connection().graceful_shutdown();
        report(task.drive().await);
    };
    // Biased: a close at once precedes the connection, a close after flushing follows it.
    tokio::select! {
        biased;
        () = hangup.is_due() => {}
        () = served => {}
        () = hangup.is_due_when_flushed() => {}
    }
}

/// Waits until the client has been idle for too long.
async fn idle(open: &OpenRequests, limit: Option<Duration>) {
    match limit {
        Some(limit) => open.idle_for(limit).await,
        None => std::future::pending().await,
    }
}

/// Errors of connections are logged only at debug level.
fn report(served: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn http(protocol: Protocol, requests: Requests, silence: Silence) -> auto::Builder<Requests> {
    let mut builder = auto::Builder::new(requests);
    builder
        .http1()
        .timer(TokioTimer::new())
        // The head guard and the idle timeout distinguish a slow head from a quiet client; this timer cannot.
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .keep_alive_interval(silence.ping)
        .keep_alive_timeout(PING_TIMEOUT);
    match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_only(),
        Protocol::Either => builder,
    }
}
