//! Carries reviews to webhooks, over HTTPS and HTTP/1.1.
//!
//! ```text
//! review ─▶ a connection that waits, or a new one (dial, TLS) ─▶ POST ─▶ answer ─▶ the connection waits again
//! ```
//!
//! A connection is driven only while a call is under way: between calls nothing runs on behalf of webhooks, and nothing
//! of them is left when the server is gone. That the other side has closed a connection is noticed by the next call,
//! which then makes another.
//!
//! A webhook may send its caller elsewhere, as Go's client follows: 307 and 308 ask for the same question there.

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

/// How a Kubernetes server names itself to webhooks.
const AGENT: &str = "kube-apiserver-admission";
const HTTPS: u16 = 443;
/// How often a webhook may send its caller elsewhere, as Go's client.
const MAX_REDIRECTS: usize = 10;

/// The connections to webhooks.
#[derive(Default)]
pub(crate) struct Webhooks {
    known: Mutex<HashMap<Peer, Known>>,
}

/// Whom a connection leads to. Connections are shared by calls that trust the same authorities.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Peer {
    /// Whom the certificate must name.
    host: String,
    /// Where to connect, with a port.
    address: String,
    authorities: Option<Vec<u8>>,
}

/// What is kept for the next call.
struct Known {
    tls: TlsConnector,
    /// Those that wait, and since when.
    waiting: Vec<(Connection, Instant)>,
}

/// Why a webhook could not be asked.
#[derive(Debug, thiserror::Error)]
enum CallError {
    /// As Go's HTTP client says it.
    #[error("Post {url:?}: {why}")]
    Unanswered { url: String, why: String },
    #[error("unable to load root certificates: {0}")]
    Authorities(String),
    #[error("{}", .0.message)]
    Refused(Box<Status>),
}

/// Why there is no answer.
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

/// Runs a future for which no webhook can be reached: nobody listens where they should be.
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
            // As Go's HTTP client says it.
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
        // As client-go.
        match (200..=206).contains(&answer.status.as_u16()) {
            true => Ok(answer.body),
            false => Err(CallError::Refused(Box::new(refused(answer.status, &answer.body)))),
        }
    }

    /// Asks, and asks again where the answer says.
    async fn follow(&self, call: &WebhookCall<'_>, mut uri: Uri, mut peer: Peer) -> Result<Answer, Failed> {
        for _ in 0..=MAX_REDIRECTS {
            let tls = self.tls(&peer).map_err(Failed::Authorities)?;
            let asked = self.ask(&peer, &tls, &uri, &call.body).await;
            let answer = asked.map_err(Failed::Unanswered)?;
            let Some(next) = answer.redirect(&uri) else {
                return Ok(answer);
            };
            // Who stands in for the host of the URL does not for another.
            let address = call.address.filter(|_| next.authority() == uri.authority());
            peer = Peer::of(&next, address, call.authorities);
            uri = next;
        }
        let why = format!("stopped after {MAX_REDIRECTS} redirects");
        Err(Failed::Unanswered(why))
    }

    /// Asks on a connection that waits; if that was closed meanwhile, or there is none, on a new one.
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

    /// How to trust a peer, worked out once.
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

/// What an answer says that is none.
fn refused(status: StatusCode, body: &[u8]) -> Status {
    let body = &body[..body.len().min(MAX_QUOTED_WEBHOOK_BYTES)];
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    Status::from_plain_answer(status.as_u16(), "POST", &GroupResource::default(), "", text)
}
