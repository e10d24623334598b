//! Opens byte streams for HTTP: over the network (TCP, proxy, TLS), or in-process.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::{CONNECT_TIMEOUT, TLS_TIMEOUT, TransportError, dial, proxy};
use crate::config::{Config, ConfigError, Proxy, is_this_machine};
use crate::tls::{Current, Identity, Tls, for_proxy};

/// The size of a read from the socket below TLS. By default rustls reads 4 KiB at a time: five system calls per
/// record, thousands for a long list.
const READ_AHEAD: usize = 128 << 10;

/// A byte stream in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send>>;

/// Opens byte streams to a server in this process.
#[derive(Clone)]
pub struct InProcess(Arc<dyn Fn() -> Connecting + Send + Sync>);

impl InProcess {
    /// Calls `connect` for each connection. The server must accept HTTP/1.1 and HTTP/2 on it.
    pub fn new<F, Fut, S>(connect: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<S>> + Send + 'static,
        S: Io + 'static,
    {
        Self(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Io>) })
        }))
    }
}

/// The source of byte streams.
pub(crate) enum Connector {
    Network(Box<Network>),
    InProcess(InProcess),
}

/// A server at a network address.
pub(crate) struct Network {
    host: String,
    port: u16,
    proxy: Option<(Proxy, ProxyTls)>,
    tls: Option<(Tls, ServerName<'static>)>,
}

/// The TLS configuration of a proxy that is reached over TLS; `None` for others.
type ProxyTls = Option<Arc<ClientConfig>>;

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// A byte stream, its HTTP version, and the timings of its steps.
pub(crate) struct Connected {
    pub(crate) io: Box<dyn Io>,
    pub(crate) protocol: Protocol,
    pub(crate) opening: Opening,
}

/// The timings of opening a connection; available even if a later step failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    /// The resolved addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// The address that answered.
    pub(crate) peer: Option<SocketAddr>,
    /// The duration of name resolution.
    pub(crate) look_up: Duration,
    /// The duration of the TCP handshake.
    pub(crate) dial: Duration,
    /// The duration of the TLS handshake.
    pub(crate) tls: Duration,
}

/// The current TLS configuration for new connections. `None` without TLS.
pub(crate) struct Target(Option<Current>);

impl Target {
    /// Increases when certificates change; connections of an older generation take no new requests.
    pub(crate) fn generation(&self) -> u64 {
        self.0.as_ref().map_or(0, |current| current.generation)
    }
}

impl Connector {
    /// Reads certificates and names; opens no connection.
    pub(crate) fn network(config: &Config) -> Result<Self, ConfigError> {
        let host = config.server.host().unwrap_or_default().to_owned();
        let https = config.server.scheme_str() == Some("https");
        let tls = match https {
            true => Some((Tls::new(config.tls.clone())?, server_name(config, &host)?)),
            false => None,
        };
        Ok(Self::Network(Box::new(Network {
            port: config.server.port_u16().unwrap_or(if https { 443 } else { 80 }),
            proxy: config
                .proxy
                .as_ref()
                .map(|proxy| with_trust(proxy, config))
                .transpose()?,
            host,
            tls,
        })))
    }

    /// The configuration for connections opened now.
    pub(crate) fn target(&self, identity: Option<&Identity>) -> Target {
        match self {
            Self::Network(network) => Target(network.tls.as_ref().map(|(tls, _)| tls.current(identity))),
            Self::InProcess(_) => Target(None),
        }
    }

    /// Host and port, for errors.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Network(network) => network.address(),
            Self::InProcess(_) => "the in-process server".to_owned(),
        }
    }

    /// True if the server is in this process, or on this machine and not behind a proxy.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Network(network) => network.proxy.is_none() && is_this_machine(&network.host),
            Self::InProcess(_) => true,
        }
    }

    pub(super) fn has_tls(&self) -> bool {
        matches!(self, Self::Network(network) if network.tls.is_some())
    }

    /// Opens a byte stream for `best`, or for HTTP/1.1 if the server supports nothing better.
    pub(crate) async fn connect(&self, best: Protocol, target: &Target) -> Result<Connected, TransportError> {
        match self {
            Self::Network(network) => network.connect(best, target).await,
            Self::InProcess(InProcess(connect)) => Ok(Connected {
                io: connect().await.map_err(|source| TransportError::Dial {
                    address: self.address(),
                    source: source.into(),
                })?,
                protocol: best,
                opening: Opening::default(),
            }),
        }
    }
}

impl Network {
    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    async fn connect(&self, best: Protocol, target: &Target) -> Result<Connected, TransportError> {
        let mut opening = Opening::default();
        let io = self
            .limit("connect", CONNECT_TIMEOUT, self.reach(&mut opening))
            .await?;
        let (Some((_, name)), Some(current)) = (&self.tls, &target.0) else {
            // Without TLS there is no negotiation, and every plain HTTP server speaks HTTP/1.1.
            return Ok(Connected {
                io,
                protocol: Protocol::Http1,
                opening,
            });
        };
        let begun = Instant::now();
        let config = match best {
            Protocol::Http2 => &current.multiplexed,
            Protocol::Http1 => &current.http1,
        };
        let io = BufReader::with_capacity(READ_AHEAD, io);
        let handshake = TlsConnector::from(config.clone()).connect(name.clone(), io);
        let handshake = async { handshake.await.map_err(|source| self.tls_error(source)) };
        let io = self.limit("TLS handshake", TLS_TIMEOUT, handshake).await?;
        let protocol = match io.get_ref().1.alpn_protocol() {
            Some(b"h2") => Protocol::Http2,
            _ => Protocol::Http1,
        };
        opening.tls = begun.elapsed();
        Ok(Connected {
            io: Box::new(io),
            protocol,
            opening,
        })
    }

    /// A byte stream to the server's port, through the proxy if there is one.
    async fn reach(&self, opening: &mut Opening) -> Result<Box<dyn Io>, TransportError> {
        let Some((proxy, tls)) = &self.proxy else {
            return Ok(Box::new(dial::dial(&self.host, self.port, opening).await?));
        };
        let host = proxy.address.host().unwrap_or_default();
        let tcp = dial::dial(host, proxy_port(&proxy.address), opening).await?;
        let opened = match tls {
            Some(tls) => self.through_tls(tls, tcp, proxy).await,
            None => self.through(Box::new(tcp), proxy).await,
        };
        opened.map_err(|error| TransportError::Proxy {
            proxy: proxy
                .address
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            address: self.address(),
            reason: error.to_string(),
        })
    }

    async fn through(&self, mut io: Box<dyn Io>, proxy: &Proxy) -> io::Result<Box<dyn Io>> {
        let login = proxy.login.as_ref();
        if proxy.is_socks() {
            proxy::socks5(&mut *io, bare(&self.host), self.port, login).await?;
        } else {
            proxy::connect(&mut *io, &self.address(), login).await?;
        }
        Ok(io)
    }

    /// TLS to the proxy. The connection to the server has its own TLS inside it.
    async fn through_tls(
        &self,
        tls: &Arc<ClientConfig>,
        tcp: TcpStream,
        proxy: &Proxy,
    ) -> io::Result<Box<dyn Io>> {
        let host = bare(proxy.address.host().unwrap_or_default());
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let io = TlsConnector::from(tls.clone()).connect(name, tcp).await?;
        self.through(Box::new(io), proxy).await
    }

    fn tls_error(&self, source: io::Error) -> TransportError {
        TransportError::Tls {
            address: self.address(),
            source: source.into(),
        }
    }

    async fn limit<T>(
        &self,
        step: &'static str,
        limit: Duration,
        work: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        match timeout(limit, work).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::Timeout {
                step,
                address: self.address(),
                limit,
            }),
        }
    }
}

/// The name expected in the server's certificate.
fn server_name(config: &Config, host: &str) -> Result<ServerName<'static>, ConfigError> {
    let name = config.tls.server_name.as_deref().unwrap_or(host);
    ServerName::try_from(bare(name).to_owned()).map_err(|error| ConfigError::Tls {
        what: format!("server name {name:?}"),
        reason: error.to_string(),
    })
}

/// An IPv6 address without the brackets of a URL.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn with_trust(proxy: &Proxy, config: &Config) -> Result<(Proxy, ProxyTls), ConfigError> {
    let tls = match proxy.address.scheme_str() {
        Some("https") => Some(for_proxy(&config.tls)?),
        _ => None,
    };
    Ok((proxy.clone(), tls))
}

fn proxy_port(proxy: &Uri) -> u16 {
    proxy.port_u16().unwrap_or(match proxy.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => 1080,
    })
}
