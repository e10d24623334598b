//! One server, one identity, any request: the core on which every other client stands.
//!
//! ```text
//! send ▶ rate limit ▶ credential ▶ transport ▶ warnings ▶ 401? renew once ▶ Retry-After? wait and repeat ▶ answer
//! ```
//! In flows an `http::Request` whose URI is a path and query, out flows a response with a 2xx status whose body is
//! still arriving, or an [`Error`] that says what was asked of whom.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};
use watchkeeper_meta::{GroupResource, Status};

use crate::auth::{Auth, Proof};
use crate::config::{Config, ConfigError, Credentials};
use crate::dynamic::{encoding, read_status};
use crate::error::{Error, ErrorKind, chain};
use crate::rate_limit::{Bucket, RateLimit};
use crate::retry::{self, MAX_RETRIES};
use crate::trace::Trace;
use crate::transport::{Body, Connector, InProcess, Io, Lane, Pool};
use crate::warning::{Warning, warnings};

/// The most of a failure's body that is read.
const MAX_STATUS: usize = 1 << 20;

/// The beginning of an answer that is no `Status`, shown in errors, as client-go.
const MAX_PLAIN: usize = 2048;

/// A client of one API server. Clones share connections, credentials and the rate limit.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    pool: Pool,
    auth: Auth,
    bucket: Option<Bucket>,
    /// Scheme and authority of the server.
    origin: String,
    /// What stands in front of every path.
    prefix: String,
    namespace: String,
    /// Ask for compressed answers.
    gzip: bool,
    options: ClientOptions,
}

/// Receives the warnings of every response.
pub type WarningHandler = Arc<dyn Fn(&Warning) + Send + Sync>;

/// How a client behaves, whatever its server.
#[derive(Clone)]
pub struct ClientOptions {
    /// The `User-Agent` of every request; servers name field managers after its first part.
    pub user_agent: String,
    /// The most any request but a watch may take, retries included; also sent to the server. `None`: no limit.
    pub timeout: Option<Duration>,
    /// How fast to ask; watches are exempt. `None`: no limit.
    pub rate_limit: Option<RateLimit>,
    /// Who hears of warnings; by default they are logged.
    pub warnings: WarningHandler,
    /// How much of each request is logged, as client-go's `-v`: 6 status and time, 7 request headers, 8 response
    /// headers and the start of bodies, 9 a curl line and timings, 10 whole bodies. Secrets are masked.
    pub verbosity: u8,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            user_agent: default_user_agent(),
            timeout: None,
            rate_limit: Some(RateLimit::default()),
            warnings: Arc::new(|warning| tracing::warn!("{}", warning.text)),
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
            .field("verbosity", &self.verbosity)
            .finish_non_exhaustive()
    }
}

/// How one request is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendOptions {
    /// The most this request may take; overrides the client's.
    pub timeout: Option<Duration>,
    /// A stream without end: exempt from the rate limit and from the client's timeout.
    pub watch: bool,
}

impl Client {
    /// Reads certificates and checks settings; opens no connection.
    pub fn new(config: &Config, options: ClientOptions) -> Result<Self, ConfigError> {
        // Credentials go over TLS only, as in client-go: on plain HTTP anyone could read them.
        let https = config.server.scheme_str() == Some("https");
        let credentials = if https {
            &config.credentials
        } else {
            &Credentials::Anonymous
        };
        let auth = Auth::new(credentials, &config.impersonate)?;
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
        let auth = Auth::new(&config.credentials, &config.impersonate)?;
        Ok(Self::build(Connector::InProcess(server), auth, config, options))
    }

    fn build(connector: Connector, auth: Auth, config: &Config, options: ClientOptions) -> Self {
        // Packing and unpacking only pays where the wire is slower than the processors.
        let near = matches!(connector, Connector::InProcess(_)) || is_loopback(&config.server);
        let authority = config.server.authority().map(|authority| authority.as_str());
        Self(Arc::new(Inner {
            auth,
            bucket: options.rate_limit.map(Bucket::new),
            origin: format!(
                "{}://{}",
                config.server.scheme_str().unwrap_or("http"),
                authority.unwrap_or_default()
            ),
            prefix: config.server.path().trim_end_matches('/').to_owned(),
            namespace: config.namespace.clone(),
            gzip: config.compression && !near,
            pool: Pool::new(connector, config.server.clone()),
            options,
        }))
    }

    /// The namespace used when none is asked for.
    pub fn default_namespace(&self) -> &str {
        &self.0.namespace
    }

    /// Connections open now: watches share one until its streams run out.
    pub fn open_connections(&self) -> usize {
        self.0.pool.open_connections()
    }

    /// Sends a request whose URI is a path and query; returns a 2xx answer whose body is still arriving.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        options: &SendOptions,
    ) -> Result<Response<Body>, Error> {
        let mut call = Call::new(&self.0, request, options)?;
        let limit = options
            .timeout
            .or(self.0.options.timeout.filter(|_| !options.watch));
        let Some(limit) = limit else {
            return call.run(None).await;
        };
        let deadline = Instant::now() + limit;
        match timeout_at(deadline, call.run(Some(deadline))).await {
            Ok(result) => result,
            Err(_) => {
                let previous = call.previous.take();
                Err(call.error(ErrorKind::Deadline(limit)).after(previous))
            }
        }
    }

    /// `GET` of a path; the whole body, but no more than `limit` bytes.
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
        format!("{}{}{path}", self.0.origin, self.0.prefix)
    }

    /// Sends a request on an HTTP/1.1 connection of its own that leaves HTTP with the answer.
    pub async fn upgrade(&self, request: Request<Bytes>) -> Result<Response<Box<dyn Io>>, Error> {
        let mut call = Call::new(
            &self.0,
            request,
            &SendOptions {
                watch: true,
                timeout: None,
            },
        )?;
        call.lane = Lane::Upgrade;
        let (mut response, _) = call.attempt().await?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {}
            status if status.is_success() => {
                return Err(call.error(ErrorKind::Upgrade(format!("it answered {status}"))));
            }
            _ => return Err(call.failure(response).await),
        }
        let upgraded = hyper::upgrade::on(&mut response).await;
        let upgraded = upgraded.map_err(|error| call.error(ErrorKind::Upgrade(chain(&error))))?;
        Ok(response.map(|_| Box::new(TokioIo::new(upgraded)) as Box<dyn Io>))
    }
}

/// One request on its way through the attempts.
struct Call<'a> {
    client: &'a Inner,
    request: Request<Bytes>,
    url: String,
    lane: Lane,
    watch: bool,
    previous: Option<String>,
}

impl<'a> Call<'a> {
    fn new(client: &'a Inner, mut request: Request<Bytes>, options: &SendOptions) -> Result<Self, Error> {
        let mut path = format!("{}{}", client.prefix, request.uri());
        // A request that brings its own limit for the server keeps it.
        let sent = path.contains("?timeout=") || path.contains("&timeout=");
        if let Some(timeout) = client.options.timeout.filter(|_| !options.watch && !sent) {
            let joint = if path.contains('?') { '&' } else { '?' };
            path = format!("{path}{joint}timeout={}", go_duration(timeout));
        }
        let url = format!("{}{path}", client.origin);
        *request.uri_mut() = path
            .parse()
            .map_err(|error| Error::new(request.method(), &*url, ErrorKind::Request(format!("{error}"))))?;
        client.prepare(request.headers_mut());
        Ok(Self {
            client,
            request,
            url,
            lane: Lane::Multiplexed,
            watch: options.watch,
            previous: None,
        })
    }

    async fn run(&mut self, deadline: Option<Instant>) -> Result<Response<Body>, Error> {
        let mut renewed = false;
        let mut retries = 0;
        loop {
            self.throttle().await;
            let (wait, error) = match self.attempt().await {
                Ok((mut response, proof)) => {
                    if response.status().is_success() || self.is_unchanged(&response) {
                        if let Some(deadline) = deadline {
                            response.body_mut().set_deadline(deadline);
                        }
                        return Ok(response);
                    }
                    // A 401 came before anything was done, so any verb may be repeated with a new credential.
                    if response.status() == StatusCode::UNAUTHORIZED
                        && !std::mem::replace(&mut renewed, true)
                        && self.client.auth.rejected(&proof).await
                    {
                        continue;
                    }
                    let wait = retry::after_answer(response.status(), response.headers(), Timestamp::now());
                    (wait, self.failure(response).await)
                }
                Err(error) => (self.wait_after(&error), error),
            };
            let Some(wait) = wait.filter(|_| retries < MAX_RETRIES) else {
                return Err(error.after(self.previous.take()));
            };
            retries += 1;
            self.previous = Some(chain(&error));
            tracing::debug!(error = %chain(&error), ?wait, "asking again");
            tokio::time::sleep(wait).await;
        }
    }

    /// Who asks "only if it has changed" is glad to hear that it has not.
    fn is_unchanged(&self, response: &Response<Body>) -> bool {
        response.status() == StatusCode::NOT_MODIFIED
            && self.request.headers().contains_key(header::IF_NONE_MATCH)
    }

    async fn throttle(&self) {
        if let Some(bucket) = self.client.bucket.as_ref().filter(|_| !self.watch) {
            let waited = bucket.wait().await;
            if waited > Duration::from_secs(1) {
                tracing::info!(?waited, url = %self.url, "waited for the client's own rate limit");
            }
        }
    }

    /// Sends once. The answer may be of any status.
    async fn attempt(&self) -> Result<(Response<Body>, Proof), Error> {
        let proof = self
            .client
            .auth
            .proof()
            .await
            .map_err(|error| self.error(error))?;
        let mut request = self.request.clone().map(Full::new);
        self.client.auth.apply(&proof, request.headers_mut());
        let trace = Trace::begin(
            self.client.options.verbosity,
            &request,
            &self.url,
            self.request.body(),
        );
        let mut opened = None;
        let identity = proof.identity.as_ref();
        let sent = self
            .client
            .pool
            .send(request, self.lane, identity, &mut opened)
            .await;
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => {
                trace.failed(&error);
                return Err(self.error(error));
            }
        };
        trace.answered(&mut response, opened.as_ref());
        self.client.receive(&mut response);
        Ok((response, proof))
    }

    fn wait_after(&self, error: &Error) -> Option<Duration> {
        match error.kind() {
            ErrorKind::Transport(error) => retry::after_loss(self.request.method(), error),
            _ => None,
        }
    }

    /// What an answer that is no success means.
    async fn failure(&self, response: Response<Body>) -> Error {
        let (head, mut body) = response.into_parts();
        if head.status.is_redirection() {
            let location = head
                .headers
                .get(header::LOCATION)
                .map(|value| value.as_bytes())
                .unwrap_or_default();
            return self.error(ErrorKind::Redirect(
                String::from_utf8_lossy(location).into_owned(),
            ));
        }
        // A body that breaks off still leaves the status code, which says most of it.
        let bytes = body.collect(MAX_STATUS).await.unwrap_or_default();
        let status = encoding(&head.headers).and_then(|encoding| read_status(encoding, &bytes));
        let mut status = status.unwrap_or_else(|| self.plain(head.status, &bytes));
        if status.code == 0 {
            status.code = i32::from(head.status.as_u16());
        }
        self.error(ErrorKind::Status(status))
    }

    fn plain(&self, status: StatusCode, bytes: &[u8]) -> Status {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_PLAIN)]);
        let resource = GroupResource::default();
        Status::from_plain_answer(
            status.as_u16(),
            self.request.method().as_str(),
            &resource,
            "",
            text.trim(),
        )
    }

    fn error(&self, kind: impl Into<ErrorKind>) -> Error {
        Error::new(self.request.method(), &*self.url, kind)
    }
}

impl Inner {
    /// The headers every request has.
    fn prepare(&self, headers: &mut HeaderMap) {
        if !headers.contains_key(header::USER_AGENT)
            && let Ok(agent) = HeaderValue::from_str(&self.options.user_agent)
        {
            headers.insert(header::USER_AGENT, agent);
        }
        if self.gzip && !headers.contains_key(header::ACCEPT_ENCODING) {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }

    /// What every response goes through.
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

/// Whole seconds as `30s`, anything else in milliseconds: both are durations to Go.
fn go_duration(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}

fn is_loopback(server: &Uri) -> bool {
    let host = server
        .host()
        .unwrap_or_default()
        .trim_start_matches('[')
        .trim_end_matches(']');
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// `program/version (system/processor) watchkeeper/version`, in the form client-go has.
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
            .field("server", &self.0.origin)
            .finish_non_exhaustive()
    }
}
