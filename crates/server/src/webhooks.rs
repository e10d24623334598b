//! The webhook transport: sends reviews over HTTPS and HTTP/1.1.
//!
//! ```text
//! review ─▶ an idle connection, or a new one (dial, TLS) ─▶ POST ─▶ response ─▶ the connection is idle again
//! ```
//!
//! A connection is driven only during a call: between calls no task runs for webhooks, and none remains after
//! shutdown. A connection closed by the webhook is detected by the next call, which opens another.
//!
//! Redirects 307 and 308 are followed, as Go's client does.

mod connection;

use std::collections::HashMap;
use std::error::Error;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use watchkeeper_meta::{GroupResource, Status};
use watchkeeper_registry::{WebhookCall, WebhookTransport};

use self::connection::{Answer, Connection};
use crate::limits::{
    MAX_QUOTED_WEBHOOK_BYTES, MAX_WAITING_WEBHOOK_CONNECTIONS, MAX_WEBHOOKS, WEBHOOK_IDLE_TIMEOUT,
};
use crate::outgoing::{Trust, connector};

/// The user agent of a Kubernetes server's admission webhooks.
const AGENT: &str = "kube-apiserver-admission";
const HTTPS: u16 = 443;
/// The limit on redirects, as in Go's client.
const MAX_REDIRECTS: usize = 10;

/// The connections to webhooks.
#[derive(Default)]
pub(crate) struct Webhooks {
    known: Mutex<HashMap<Peer, Known>>,
}

/// The peer of a connection. Calls with equal certificate authorities share connections.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Peer {
    /// The name expected in the certificate.
    host: String,
    /// The address, with port.
    address: String,
    authorities: Option<Vec<u8>>,
}

/// The state kept for the next call.
struct Known {
    tls: TlsConnector,
    /// The idle connections, and since when.
    waiting: Vec<(Connection, Instant)>,
}

/// The reason a call failed.
#[derive(Debug, thiserror::Error)]
enum CallError {
    /// With the text of Go's HTTP client.
    #[error("Post {url:?}: {why}")]
    Unanswered { url: String, why: String },
    #[error("unable to load root certificates: {0}")]
    Authorities(String),
    #[error("{}", .0.message)]
    Refused(Box<Status>),
}

/// The reason there is no response.
enum Failed {
    Authorities(String),
    Unanswered(String),
}

impl WebhookTransport for Webhooks {
    fn post<'c>(
        &'c self,
        call: WebhookCall<'c>,
    ) -> BoxFuture<'c, Result<Bytes, Box<dyn Error + Send + Sync>>> {
        async move { Ok(self.answer(&call).await?) }.boxed()
    }
}

tokio::task_local! {
    static UNREACHABLE: ();
}

/// Runs a future during which no webhook can be reached: connections are refused.
pub(crate) async fn unreachable<F: Future>(future: F) -> F::Output {
    UNREACHABLE.scope((), future).await
}

impl Webhooks {
    async fn answer(&self, call: &WebhookCall<'_>) -> Result<Bytes, CallError> {
        let unanswered = |why: String| CallError::Unanswered {
            url: call.url.to_owned(),
            why,
        };
        let uri: Uri = call
            .url
            .parse()
            .map_err(|_| unanswered("the URL cannot be read".to_owned()))?;
        let peer = Peer::of(&uri, call.address, call.authorities);
        if UNREACHABLE.try_with(|()| ()).is_ok() {
            // With the text of Go's HTTP client.
            let why = format!("dial tcp {}: connect: connection refused", peer.address);
            return Err(unanswered(why));
        }
        let late = |_| unanswered("context deadline exceeded".to_owned());
        let followed = self.follow(call, uri, peer);
        let answer = timeout(call.timeout, followed).await.map_err(late)?;
        let answer = answer.map_err(|failed| match failed {
            Failed::Authorities(why) => CallError::Authorities(why),
            Failed::Unanswered(why) => unanswered(why),
        })?;
        // As in client-go.
        match (200..=206).contains(&answer.status.as_u16()) {
            true => Ok(answer.body),
            false => Err(CallError::Refused(Box::new(refused(answer.status, &answer.body)))),
        }
    }

    /// Calls, and follows redirects.
    async fn follow(&self, call: &WebhookCall<'_>, mut uri: Uri, mut peer: Peer) -> Result<Answer, Failed> {
        for _ in 0..=MAX_REDIRECTS {
            let tls = self.tls(&peer).map_err(Failed::Authorities)?;
            let asked = self.ask(&peer, &tls, &uri, &call.body).await;
            let answer = asked.map_err(Failed::Unanswered)?;
            let Some(next) = answer.redirect(&uri) else {
                return Ok(answer);
            };
            // The given address applies only to the URL's own host.
            let address = call.address.filter(|_| next.authority() == uri.authority());
            peer = Peer::of(&next, address, call.authorities);
            uri = next;
        }
        let why = format!("stopped after {MAX_REDIRECTS} redirects");
        Err(Failed::Unanswered(why))
    }

    /// Calls on an idle connection; if it was closed meanwhile, or there is none, on a new one.
    async fn ask(&self, peer: &Peer, tls: &TlsConnector, uri: &Uri, body: &Bytes) -> Result<Answer, String> {
        if let Some(mut connection) = self.take_waiting(peer)
            && let Ok(answer) = connection.ask(request(uri, body)).await
        {
            self.keep(peer, connection);
            return Ok(answer);
        }
        let mut connection = Connection::open(&peer.address, &peer.host, tls).await?;
        let answer = connection.ask(request(uri, body)).await?;
        self.keep(peer, connection);
        Ok(answer)
    }

    /// The TLS connector of a peer, created once.
    fn tls(&self, peer: &Peer) -> Result<TlsConnector, String> {
        if let Some(known) = self.known.lock().get(peer) {
            return Ok(known.tls.clone());
        }
        let trust = peer
            .authorities
            .as_deref()
            .map_or(Trust::System, Trust::Authorities);
        let tls = connector(trust, None)?;
        let mut known = self.known.lock();
        if known.len() >= MAX_WEBHOOKS {
            known.clear();
        }
        let waiting = Vec::new();
        let new = Known {
            tls: tls.clone(),
            waiting,
        };
        known.insert(peer.clone(), new);
        Ok(tls)
    }

    fn take_waiting(&self, peer: &Peer) -> Option<Connection> {
        let mut known = self.known.lock();
        let waiting = &mut known.get_mut(peer)?.waiting;
        waiting.retain(|(_, since)| since.elapsed() < WEBHOOK_IDLE_TIMEOUT);
        waiting.pop().map(|(connection, _)| connection)
    }

    fn keep(&self, peer: &Peer, connection: Connection) {
        if !connection.can_be_kept() {
            return;
        }
        if let Some(known) = self.known.lock().get_mut(peer)
            && known.waiting.len() < MAX_WAITING_WEBHOOK_CONNECTIONS
        {
            known.waiting.push((connection, Instant::now()));
        }
    }
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Peer {
    fn of(uri: &Uri, address: Option<&str>, authorities: Option<&[u8]>) -> Self {
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16().unwrap_or(HTTPS);
        Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            address: address.map_or_else(|| format!("{host}:{port}"), str::to_owned),
            authorities: authorities.map(<[u8]>::to_vec),
        }
    }
}

fn request(uri: &Uri, body: &Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = http::Method::POST;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    let host = uri.authority().map_or("", |authority| authority.as_str());
    for (name, value) in [
        (HOST, host),
        (CONTENT_TYPE, "application/json"),
        (ACCEPT, "application/json, */*"),
        (USER_AGENT, AGENT),
    ] {
        if let Ok(value) = value.parse() {
            headers.insert(name, value);
        }
    }
    request
}

/// The error of an unsuccessful response.
fn refused(status: StatusCode, body: &[u8]) -> Status {
    let body = &body[..body.len().min(MAX_QUOTED_WEBHOOK_BYTES)];
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    Status::from_plain_answer(status.as_u16(), "POST", &GroupResource::default(), "", text)
}
