//! The client of one server with one identity: all other clients are built on it.
//!
//! ```text
//! send ▶ rate limit ▶ credential ▶ transport ▶ warnings ▶ 401? renew once ▶ Retry-After? wait and repeat ▶ answer
//! ```
//! It takes an `http::Request` whose URI is a path and query, and returns a response with a 2xx status whose body is
//! still arriving, or an [`Error`] that names the request.

mod attempts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use watchkeeper_meta::error_chain;

use crate::auth::Auth;
use crate::config::{Config, ConfigError, Credentials, LoadOptions};
use crate::error::{Error, ErrorKind};
use crate::learnt::Learnt;
use crate::metrics::RequestMetrics;
use crate::rate_limit::{Bucket, RateLimit};
use crate::transport::{Body, Connector, InProcess, Io, Lane, Pool};
use crate::warning::{Warning, warnings};
use crate::write::WriteObserver;
use attempts::Attempts;

/// A client of one API server. Clones share connections, credentials and the rate limit.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    /// Receives the acknowledged writes of the clients built on this one.
    writes: Option<WriteObserver>,
}

struct Inner {
    pool: Pool,
    auth: Auth,
    bucket: Option<Bucket>,
    /// Scheme and authority of the server.
    origin: String,
    /// Host and port, as labelled in metrics.
    host: String,
    /// The prefix of every path.
    prefix: String,
    namespace: String,
    /// `None` if it is not a valid header value.
    user_agent: Option<HeaderValue>,
    /// Request compressed answers.
    gzip: bool,
    learnt: Learnt,
    options: ClientOptions,
}

/// Receives the warnings of every response.
pub type WarningHandler = Arc<dyn Fn(&Warning) + Send + Sync>;

/// Options of a client, independent of its server.
#[derive(Clone)]
pub struct ClientOptions {
    /// The `User-Agent` of every request; servers derive field managers from its first part.
    pub user_agent: String,
    /// The time limit of any request but a watch, retries included; also sent to the server. `None`: no limit.
    pub timeout: Option<Duration>,
    /// The client-side rate limit; watches are exempt. By default none: servers have priority and fairness, and a
    /// limit here delays work. With client-go's five requests a second, the smallest operator spends most of its
    /// start waiting. `Some(RateLimit::default())` is client-go's limit.
    pub rate_limit: Option<RateLimit>,
    /// The handler of `Warning` headers, those about caches included; by default the others are logged.
    pub warnings: WarningHandler,
    /// The metrics of requests; by default none.
    pub metrics: Option<Arc<RequestMetrics>>,
    /// Sends a single request, other than a watch, to a server on this machine over HTTP/1.1 instead of the HTTP/2
    /// connection of the watches, which costs both ends a third less CPU time. On by default. Turn it off for a
    /// tunnel to a remote server, if an additional connection matters.
    pub loopback_http1: bool,
    /// The verbosity of the request log, as client-go's `-v`: 6 status and time, 7 request headers, 8 response
    /// headers and the start of bodies, 9 a curl line and timings, 10 whole bodies. Secrets are masked.
    pub verbosity: u8,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            user_agent: default_user_agent(),
            timeout: None,
            rate_limit: None,
            warnings: Arc::new(Warning::log),
            metrics: None,
            loopback_http1: true,
            verbosity: 0,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("user_agent", &self.user_agent)
            .field("timeout", &self.timeout)
            .field("rate_limit", &self.rate_limit)
            .field("loopback_http1", &self.loopback_http1)
            .field("verbosity", &self.verbosity)
            .finish_non_exhaustive()
    }
}

/// Options of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOptions {
    /// The time limit of this request; overrides the client's.
    pub timeout: Option<Duration>,
    /// An endless stream: exempt from the rate limit and from the client's timeout.
    pub watch: bool,
    /// Exempt from the rate limit, for a small burst of requests.
    pub unthrottled: bool,
}

impl Client {
    /// The client of this process, with the configuration that kubectl would use: the kubeconfig files of `$KUBECONFIG` or
    /// `~/.kube/config`, and in a pod its service account. Opens no connection.
    ///
    /// For another context, user or namespace, use [`new`](Self::new) with [`LoadOptions`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), watchkeeper_client::ConfigError> {
    /// use watchkeeper_client::Client;
    /// let client = Client::from_environment()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_environment() -> Result<Self, ConfigError> {
        Self::new(&Config::load(&LoadOptions::default())?, ClientOptions::default())
    }

    /// Reads certificates and checks the settings; opens no connection.
    pub fn new(config: &Config, options: ClientOptions) -> Result<Self, ConfigError> {
        // Credentials are sent over TLS only, as in client-go: plain HTTP would disclose them.
        let https = config.server.scheme_str() == Some("https");
        let credentials = if https {
            &config.credentials
        } else {
            &Credentials::Anonymous
        };
        let auth = Auth::new(credentials, &config.impersonate, options.metrics.clone())?;
        Ok(Self::build(Connector::network(config)?, auth, config, options))
    }

    /// A client of a server in this process.
    pub fn in_process(server: InProcess, options: ClientOptions) -> Self {
        Self::in_process_as(
            server,
            &Config::new(Uri::from_static("http://localhost")),
            options,
        )
        .unwrap_or_else(|_| unreachable!("a configuration without credentials is valid"))
    }

    /// A client of a server in this process with the credentials, namespace and path prefix of a configuration.
    pub fn in_process_as(
        server: InProcess,
        config: &Config,
        options: ClientOptions,
    ) -> Result<Self, ConfigError> {
        let auth = Auth::new(&config.credentials, &config.impersonate, options.metrics.clone())?;
        Ok(Self::build(Connector::InProcess(server), auth, config, options))
    }

    fn build(connector: Connector, auth: Auth, config: &Config, options: ClientOptions) -> Self {
        // Compression only pays if the network is slower than the CPUs.
        let gzip = config.compression && !connector.is_local();
        let authority = config.server.authority().map(|authority| authority.as_str());
        let authority = authority.unwrap_or_default();
        let inner = Inner {
            auth,
            bucket: options.rate_limit.map(Bucket::new),
            origin: format!("{}://{}", config.server.scheme_str().unwrap_or("http"), authority),
            host: authority.to_owned(),
            prefix: config.server.path().trim_end_matches('/').to_owned(),
            namespace: config.namespace.clone(),
            user_agent: HeaderValue::from_str(&options.user_agent).ok(),
            gzip,
            learnt: Learnt::default(),
            pool: Pool::new(connector, config.server.clone(), options.loopback_http1),
            options,
        };
        Self {
            inner: Arc::new(inner),
            writes: None,
        }
    }

    /// The same client, whose acknowledged writes are reported to `observer`. Dry runs and requests sent with
    /// [`Client::send`] are not reported.
    pub fn observing_writes(&self, observer: WriteObserver) -> Self {
        Self {
            inner: self.inner.clone(),
            writes: Some(observer),
        }
    }

    pub(crate) fn write_observer(&self) -> Option<&WriteObserver> {
        self.writes.as_ref()
    }

    /// The namespace used if none is given.
    pub fn default_namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// The URL of the server, without credentials.
    pub fn server_url(&self) -> String {
        self.url("")
    }

    /// The default time limit of a request.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.inner.options.timeout
    }

    pub(crate) fn learnt(&self) -> &Learnt {
        &self.inner.learnt
    }

    /// The number of open connections. Watches share one until its streams are used up.
    pub fn open_connections(&self) -> usize {
        self.inner.pool.open_connections()
    }

    /// Sends a request whose URI is a path and query; returns a 2xx answer whose body is still arriving.
    ///
    /// The future is boxed, so that programs that await it do not compile credentials, retries and transport again.
    pub fn send<'a>(
        &'a self,
        request: Request<Bytes>,
        options: &'a SendOptions,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        Box::pin(async move {
            let mut attempts = Attempts::new(&self.inner, request, options)?;
            let limit = options
                .timeout
                .or(self.inner.options.timeout.filter(|_| !options.watch));
            attempts.run(limit).await
        })
    }

    /// `GET` of a path; returns the whole body, up to `limit` bytes.
    pub async fn get_raw(&self, path: &str, limit: usize) -> Result<Bytes, Error> {
        let uri: Uri = path
            .parse()
            .map_err(|error| Error::new(&Method::GET, path, ErrorKind::Request(format!("{error}"))))?;
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = uri;
        request
            .headers_mut()
            .insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
        let response = self.send(request, &SendOptions::default()).await?;
        let url = self.url(path);
        response
            .into_body()
            .collect(limit)
            .await
            .map_err(|error| Error::new(&Method::GET, url, error))
    }

    /// The URL of a path, for errors.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{}{path}", self.inner.origin, self.inner.prefix)
    }

    /// Sends an upgrade request on its own HTTP/1.1 connection. The answer must come within 45 seconds.
    pub async fn upgrade(&self, request: Request<Bytes>) -> Result<Response<Box<dyn Io>>, Error> {
        let mut attempts = Attempts::new(
            &self.inner,
            request,
            &SendOptions {
                watch: true,
                ..SendOptions::default()
            },
        )?;
        attempts.lane = Lane::Upgrade;
        let mut response = attempts.run(None).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(attempts.error(ErrorKind::Upgrade(format!("it answered {}", response.status()))));
        }
        let upgraded = hyper::upgrade::on(&mut response).await;
        let upgraded = upgraded.map_err(|error| attempts.error(ErrorKind::Upgrade(error_chain(&error))))?;
        Ok(response.map(|_| Box::new(TokioIo::new(upgraded)) as Box<dyn Io>))
    }
}

impl Inner {
    /// The path to request, if it differs from the given one: with the prefix, and with the client's timeout unless
    /// the request has its own.
    fn path(&self, uri: &Uri, watch: bool) -> Option<String> {
        let query = uri.query().unwrap_or_default();
        let limited = query.split('&').any(|pair| pair.starts_with("timeout="));
        let timeout = self.options.timeout.filter(|_| !watch && !limited);
        if self.prefix.is_empty() && timeout.is_none() {
            return None;
        }
        let mut path = format!("{}{uri}", self.prefix);
        if let Some(timeout) = timeout {
            path.push(if uri.query().is_some() { '&' } else { '?' });
            path.push_str("timeout=");
            path.push_str(&go_duration(timeout));
        }
        Some(path)
    }

    /// The headers every request has.
    fn prepare(&self, headers: &mut HeaderMap) {
        if let Some(agent) = &self.user_agent
            && !headers.contains_key(header::USER_AGENT)
        {
            headers.insert(header::USER_AGENT, agent.clone());
        }
        if self.gzip && !headers.contains_key(header::ACCEPT_ENCODING) {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }

    /// Processes the headers of every response.
    fn receive(&self, response: &mut Response<Body>) {
        for warning in warnings(response.headers()) {
            (self.options.warnings)(&warning);
        }
        if response
            .headers()
            .get(header::CONTENT_ENCODING)
            .is_some_and(|value| value == "gzip")
        {
            response.headers_mut().remove(header::CONTENT_ENCODING);
            response.headers_mut().remove(header::CONTENT_LENGTH);
            response.body_mut().unpack();
        }
    }
}

/// Whole seconds as `30s`, anything else in milliseconds; Go parses both.
fn go_duration(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}

/// `program/version (system/processor) watchkeeper/version`, as in client-go.
fn default_user_agent() -> String {
    let program = std::env::args_os().next();
    let program = program
        .as_deref()
        .map(std::path::Path::new)
        .and_then(|path| path.file_name());
    let program = program.and_then(|name| name.to_str()).unwrap_or("watchkeeper");
    let version = env!("CARGO_PKG_VERSION");
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{program}/v{version} ({system}/{processor}) watchkeeper/v{version}")
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.inner.origin)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_has_the_form_of_client_go() {
        let agent = default_user_agent();
        let version = env!("CARGO_PKG_VERSION");
        let (program, rest) = agent.split_once('/').unwrap();
        assert!(program.starts_with("watchkeeper_client"), "{agent}");
        assert!(
            rest.starts_with(&format!("v{version} (linux/")) || !cfg!(target_os = "linux"),
            "{agent}"
        );
        assert!(rest.ends_with(&format!(" watchkeeper/v{version}")), "{agent}");
    }
}
