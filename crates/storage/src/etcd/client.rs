//! An etcd client: several members, one connection at a time, and the next member if one does not answer.
//!
//! A call without a connection waits for one until its timeout. The caller decides whether a failed call may be sent
//! again, because only the caller knows whether it is idempotent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::EtcdOptions;
use super::error::CallError;
use super::grpc::{Answers, Connection, chain};
use super::messages::{
    CompactionRequest, CompactionResponse, LeaseGrantRequest, LeaseGrantResponse, RangeRequest,
    RangeResponse, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest,
};
use super::tls;
use crate::OpenError;

/// The timeout of a call, including the search for a working member. etcd's own is 7 s.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for connecting to one member.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection is pinged after this long without traffic, and closed if no answer comes for as long again.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The backoff after all members were tried: doubled with every round, with jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The flow control windows: a watch that catches up must not wait for every frame.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The retry policy of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The call is read-only or idempotent: retry in any case.
    Always,
    /// Retry only if no member has started it.
    IfUntried,
}

/// An etcd client. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: EtcdOptions,
    endpoints: Vec<Endpoint>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Endpoint {
    /// `https://host:port`.
    text: Arc<str>,
    host: String,
    port: u16,
    is_tls: bool,
}

#[derive(Debug)]
struct Current {
    connection: Option<Connection>,
    /// The index of the member to try next.
    next: usize,
    pause: Duration,
}

impl Client {
    /// Creates a client without connecting.
    pub(crate) fn new(options: EtcdOptions) -> Result<Self, OpenError> {
        let endpoints: Result<Vec<_>, _> = options.servers.iter().map(|text| Endpoint::parse(text)).collect();
        let endpoints = endpoints?;
        if endpoints.is_empty() {
            return Err(OpenError::etcd("no server is given"));
        }
        if endpoints.iter().any(|endpoint| endpoint.is_tls) {
            tls::config(&options).map_err(OpenError::etcd)?;
        }
        let current = Current {
            connection: None,
            next: 0,
            pause: FIRST_PAUSE,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                options,
                endpoints,
                current: Mutex::new(current),
            }),
        })
    }

    pub(crate) async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, CallError> {
        self.call("/etcdserverpb.KV/Range", request, Repeat::Always).await
    }

    pub(crate) async fn txn(&self, request: &TxnRequest, repeat: Repeat) -> Result<TxnResponse, CallError> {
        self.call("/etcdserverpb.KV/Txn", request, repeat).await
    }

    /// An unused lease expires, so a retry that grants a second one does no harm.
    pub(crate) async fn grant(&self, request: &LeaseGrantRequest) -> Result<LeaseGrantResponse, CallError> {
        self.call("/etcdserverpb.Lease/LeaseGrant", request, Repeat::Always)
            .await
    }

    pub(crate) async fn compact(&self, request: &CompactionRequest) -> Result<(), CallError> {
        let done: Result<CompactionResponse, _> = self
            .call("/etcdserverpb.KV/Compact", request, Repeat::Always)
            .await;
        done.map(drop)
    }

    /// Starts a watch. Its events, or its end, come out of the answers.
    pub(crate) async fn watch(&self, create: WatchCreateRequest) -> Result<Answers, CallError> {
        let request = WatchRequest {
            create: Some(create),
            ..Default::default()
        };
        let connection = self.connection().await?;
        let begun = connection.stream("/etcdserverpb.Watch/Watch", &request);
        let begun = timeout(CALL_TIMEOUT, begun).await;
        let begun = begun.unwrap_or_else(|_| Err(connection.lost("the watch did not start in time")));
        if begun.is_err() {
            self.leave(&connection).await;
        }
        begun
    }

    /// Abandons a connection: the next call tries the next member.
    pub(crate) async fn leave(&self, connection: &Connection) {
        let mut current = self.inner.current.lock().await;
        let is_current = current
            .connection
            .as_ref()
            .is_some_and(|current| current.is(connection));
        if is_current {
            current.connection = None;
            current.next += 1;
        }
    }

    async fn call<Q: Message, A: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        repeat: Repeat,
    ) -> Result<A, CallError> {
        let deadline = Instant::now() + CALL_TIMEOUT;
        let mut last = None;
        loop {
            let connection = match timeout_at(deadline, self.connection()).await {
                Ok(Ok(connection)) => connection,
                Ok(Err(error)) => {
                    last = Some(error);
                    continue;
                }
                Err(_) => return Err(last.unwrap_or_else(|| self.out_of_time())),
            };
            let error = match timeout_at(deadline, connection.unary(path, request)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => match (repeat, last.take()) {
                    // The earlier error says more.
                    (Repeat::Always, Some(last)) => last,
                    _ => connection.lost("there was no answer in time"),
                },
            };
            if error.is_passing() {
                self.leave(&connection).await;
            }
            let may_repeat = match repeat {
                Repeat::Always => error.is_passing(),
                Repeat::IfUntried => error.is_untried(),
            };
            if !may_repeat || Instant::now() >= deadline {
                return Err(error);
            }
            last = Some(error);
            // A member without a leader answers at once, for as long as the election lasts.
            let pause = tokio::time::sleep(FIRST_PAUSE.mul_f64(0.5 + fastrand::f64()));
            let _ = timeout_at(deadline, pause).await;
        }
    }

    fn out_of_time(&self) -> CallError {
        CallError::NotSent {
            endpoint: self.inner.endpoints[0].text.clone(),
            why: "there was no connection in time".to_owned(),
        }
    }

    /// The current connection, or a new one; tries every member once. It fails after a pause, so that retries do not
    /// spin.
    async fn connection(&self) -> Result<Connection, CallError> {
        let mut current = self.inner.current.lock().await;
        if let Some(connection) = &current.connection
            && !connection.sender.is_closed()
        {
            return Ok(connection.clone());
        }
        let endpoints = &self.inner.endpoints;
        let mut last = None;
        for _ in 0..endpoints.len() {
            let endpoint = &endpoints[current.next % endpoints.len()];
            match self.connect(endpoint).await {
                Ok(connection) => {
                    current.connection = Some(connection.clone());
                    current.pause = FIRST_PAUSE;
                    return Ok(connection);
                }
                Err(error) => last = Some(error),
            }
            current.next += 1;
        }
        let pause = current.pause;
        current.pause = (2 * pause).min(LONGEST_PAUSE);
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        Err(last.unwrap_or_else(|| self.out_of_time()))
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<Connection, CallError> {
        let connected = timeout(CONNECT_TIMEOUT, self.try_connect(endpoint)).await;
        let late = || Err(io::Error::from(io::ErrorKind::TimedOut).into());
        connected
            .unwrap_or_else(|_| late())
            .map_err(|error| CallError::NotSent {
                endpoint: endpoint.text.clone(),
                why: error.to_string(),
            })
    }

    async fn try_connect(
        &self,
        endpoint: &Endpoint,
    ) -> Result<Connection, Box<dyn std::error::Error + Send + Sync>> {
        let socket = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        socket.set_nodelay(true)?;
        if !endpoint.is_tls {
            return handshake(socket, endpoint).await;
        }
        let connector = tls::config(&self.inner.options)?;
        let name = endpoint.host.clone().try_into()?;
        handshake(connector.connect(name, socket).await?, endpoint).await
    }
}

async fn handshake(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    endpoint: &Endpoint,
) -> Result<Connection, Box<dyn std::error::Error + Send + Sync>> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(TokioIo::new(io))
        .await?;
    let (end, ended) = watch::channel(None);
    // Ends with the last sender or with the connection. Waiting calls get the reason.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            end.send_replace(Some(chain(&error)));
        }
    });
    Ok(Connection::new(sender, endpoint.text.clone(), ended))
}

impl Endpoint {
    fn parse(text: &str) -> Result<Self, OpenError> {
        let bad = |why: &str| OpenError::etcd(format!("server {text:?} {why}"));
        let uri: Uri = text.parse().map_err(|_| bad("is not an address"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("starts with neither http:// nor https://")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad("has a path"));
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| bad("has no host"))?;
        let port = uri.port_u16().unwrap_or(2379);
        Ok(Self {
            text: format!("{}://{host}:{port}", if is_tls { "https" } else { "http" }).into(),
            // An IPv6 address has brackets in a URL, but not in a lookup.
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            is_tls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_validated_before_connecting() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let parsed = Endpoint::parse(text).map(|endpoint| endpoint.text.to_string());
            let parsed = parsed.map_err(|error| error.to_string());
            assert_eq!(parsed.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("http://127.0.0.1:23", Ok("http://127.0.0.1:23"));
        check("https://etcd.example/", Ok("https://etcd.example:2379"));
        check("https://[::1]:1", Ok("https://[::1]:1"));
        check(
            "127.0.0.1:2379",
            Err("cannot use etcd: server \"127.0.0.1:2379\" starts with neither http:// nor https://"),
        );
        check(
            "http://a/b",
            Err("cannot use etcd: server \"http://a/b\" has a path"),
        );
        check("", Err("cannot use etcd: server \"\" is not an address"));
    }
}
