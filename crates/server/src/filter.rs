//! What every request passes on its way in and out, in one visible order.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, request};
use hyper::body::{Body as _, Incoming};
use rustls::pki_types::CertificateDer;
use tokio::time::Instant;
use watchkeeper_meta::Status;

use crate::access_log;
use crate::audit::{self, Audited};
use crate::authenticate::{Credentials, credentials};
use crate::authorize::{action, authorize, permit};
use crate::body::{RequestBody, discard};
use crate::deadline::deadline;
use crate::faults::{Cut, Requester, Trouble};
use crate::flow_control::{Classified, Seat};
use crate::front_proxy::FrontProxy;
use crate::handlers;
use crate::hangup::Hangup;
use crate::host::check_host;
use crate::impersonate::impersonation;
use crate::limits::{MAX_REQUEST_TIMEOUT, QUEUEING_PART};
use crate::metrics::Labels;
use crate::negotiate::{Accepted, accept_for_error, wants_pretty};
use crate::request_info::{RequestInfo, query_value};
use crate::respond::{self, AUDIT_ID, Answer, Failure};
use crate::route::{Refusal, Route};
use crate::shared::Shared;
use crate::unwritten::Terms;
use crate::webhooks;
use crate::write_log::Answering;
use watchkeeper_registry::User;

/// Who is at the other end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// Whom a verified client certificate speaks of.
    pub certified: Option<User>,
    /// A verified client certificate is one of a proxy that is believed when it names a user.
    pub front_proxy: Option<Arc<FrontProxy>>,
    /// The certificate that the connection was shown, if the operator has given it.
    pub shown: Option<CertificateDer<'static>>,
    /// The connection is a socket, not a pipe within this process.
    pub over_socket: bool,
    /// Where the connection comes from; `None` if from within the process.
    pub address: Option<SocketAddr>,
    /// Breaks the connection.
    pub hangup: Hangup,
}

/// A request on its way through the filters and to its handler. It has one place in memory: what all futures on the
/// way carry along is moved with each of them.
pub(crate) struct Call {
    pub server: Arc<Shared>,
    pub head: request::Parts,
    pub info: RequestInfo,
    /// Who asks, once that is known.
    pub user: User,
    /// Whether a person is reading.
    pub pretty: bool,
    /// The request came over a socket.
    pub over_socket: bool,
    /// Where the answer breaks off on purpose.
    pub cut: Option<Cut>,
    /// When the request came.
    pub began: Instant,
    /// When it must be answered; `None` for streams.
    pub deadline: Option<Instant>,
    /// The id under which the request can be found in logs.
    pub audit_id: HeaderValue,
    /// Where the request comes from, if that is known.
    pub source: Option<SocketAddr>,
    /// What the audit log is told, if it wants to know.
    pub audited: Option<Box<Audited>>,
    /// The flow that the request belongs to, once that is known.
    pub classified: Option<Classified>,
    /// What lets the request run, once it may.
    pub seat: Option<Seat>,
}

impl Call {
    /// The query as it stands in the URL.
    pub(crate) fn query(&self) -> &str {
        self.head.uri.query().unwrap_or_default()
    }

    /// What the client accepts; several header lines are one list.
    pub(crate) fn accept(&self) -> Cow<'_, str> {
        header_list(&self.head.headers, ACCEPT)
    }

    /// What the body says it is.
    pub(crate) fn content_type(&self) -> Option<&str> {
        self.head
            .headers
            .get(CONTENT_TYPE)
            .map(|value| value.to_str().unwrap_or("?"))
    }

    /// The program that asks.
    pub(crate) fn user_agent(&self) -> &str {
        user_agent(&self.head.headers)
    }

    /// Who asks, and with which program.
    pub(crate) fn requester(&self) -> Requester {
        Requester {
            user: self.user.name.clone(),
            user_agent: self.user_agent().to_owned(),
        }
    }
}

/// Answers a request, whatever happens.
pub(crate) async fn serve(server: Arc<Shared>, peer: Arc<Peer>, request: Request<Incoming>) -> Answer {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let mut body = RequestBody::new(body);
    let version = head.version;
    let takes_gzip = respond::takes_gzip(&head.headers);
    let audit_id = audit_id(&head.headers);
    let query = head.uri.query().unwrap_or_default();
    let info = RequestInfo::read(&head.method, head.uri.path(), query);
    let _busy = (!info.is_about_testing()).then(|| server.counts.begin(peer.over_socket));
    let pretty = wants_pretty(query, user_agent(&head.headers));
    let form = |call: &Call| Accepted {
        pretty,
        ..accept_for_error(&call.accept())
    };
    let route = Route::of_decoded(&server.catalog(), &head.method, &info.path, query);
    let labels = Labels::of(route.as_ref().ok());
    let mut call = Call {
        server: server.clone(),
        head,
        info,
        user: User::default(),
        pretty,
        over_socket: peer.over_socket,
        cut: None,
        began,
        audit_id,
        source: peer.address,
        audited: None,
        deadline: None,
        classified: None,
        seat: None,
    };

    // A panic ends one request, not the connection it shares with others.
    let answered = AssertUnwindSafe(answer(&peer, &mut call, &route, &mut body));
    let answer = match answered.catch_unwind().await {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => respond::failure(failure, form(&call)),
        Err(_) => respond::status(
            &Status::internal_error("the request's handler panicked"),
            form(&call),
        ),
    };

    access_log::note(&call, answer.status());
    let answer = match call.audited.take() {
        Some(audited) => audit::tell(audited, answer),
        None => answer,
    };
    server
        .metrics
        .answered(labels, answer.status().as_u16(), began.elapsed());
    if answer.status() == StatusCode::OK {
        let bytes = answer.body().size_hint().exact();
        server
            .flow_control
            .learn(&call.info, bytes.map(|bytes| bytes as usize));
    }
    let mut answer = respond::finish(answer, takes_gzip, call.audit_id.clone());
    if let Some(classified) = &call.classified {
        classified.tell(answer.headers_mut());
    }
    if let Some(cut) = call.cut {
        answer = peer.hangup.interrupts(answer, cut);
    }
    // In flight until it is written; time that a test moves is not the peer's.
    let deadline = call.deadline.unwrap_or(began + MAX_REQUEST_TIMEOUT);
    let terms = Terms {
        seat: call.seat.take(),
        deadline: (!server.is_moved_in_time()).then_some(deadline),
        peer: peer.hangup.clone(),
    };
    answer = server
        .unwritten
        .hold(answer, terms, &server.tasks, &server.draining);
    // Answered before its body was read. On HTTP/2 a client that is still sending may take the end of the stream for
    // a failure and never look at the answer; on HTTP/1.1 the next request would begin within this one's body.
    if !discard(&mut body).await && version < Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
    }
    answer
}

/// The filters, from the outside in.
async fn answer(
    peer: &Peer,
    call: &mut Call,
    route: &Result<Route, Refusal>,
    body: &mut RequestBody,
) -> Result<Answer, Failure> {
    let (server, head, info) = (&call.server, &call.head, &call.info);
    // A page that leads browsers here under a foreign name learns nothing, not even from errors.
    check_host(&server.hosts, peer.shown.as_ref(), &head.uri, &head.headers)?;
    // A time that cannot be read is the caller's mistake, whoever calls.
    let limit = deadline(info, call.query())?;
    let deadline = limit.map(|limit| call.began + limit);
    call.deadline = deadline;
    // Wrong credentials are refused even where none are needed.
    call.user = match credentials(peer, &head.headers, &server.tokens) {
        Credentials::Known(user) => user,
        Credentials::Token(token) => {
            let holder = server.issued_to(&token, &server.audiences()).await;
            holder.ok_or_else(Status::unauthorized)?
        }
    };
    let mut impersonator = None;
    // Whoever asks to be taken for someone else is, from here on, or is refused.
    if let Some(asked) = impersonation(&head.headers)? {
        for right in &asked.needed {
            authorize(&server.registry, &call.user, right).await?;
        }
        impersonator = Some(std::mem::replace(&mut call.user, asked.user));
    }
    if let Some(audit) = &server.audit {
        call.audited = audit.begin(call, impersonator.as_ref());
    }
    let (server, info) = (&call.server, &call.info);
    // A flood waits, or is turned away, before it costs anything.
    let patience = limit.unwrap_or(MAX_REQUEST_TIMEOUT) / QUEUEING_PART;
    let classified = &mut call.classified;
    let seat = server
        .flow_control
        .admit(&server.registry, &call.user, info, patience, classified);
    call.seat = seat.await.map_err(Failure::Busy)?;
    // Whoever may not ask does not learn what exists.
    let decision = server.registry.may(&call.user, action(info)).await?;
    if let Some(audited) = &mut call.audited {
        audited.decided(&decision);
    }
    permit(&call.user, info, &decision)?;
    server.write_log.asked(&call.user.name, info);
    // Planned faults trouble the handling of a request, not the checks before it.
    let trouble = server.faults.on_request(|| call.requester(), info);
    let handled = handle(peer, call, route, body, trouble);
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, handled)
            .await
            .map_err(|_| late())?,
        None => handled.await,
    }
}

/// Handles a request, with what happens to it on purpose on the way.
async fn handle(
    peer: &Peer,
    call: &mut Call,
    route: &Result<Route, Refusal>,
    body: &mut RequestBody,
    trouble: Option<Box<Trouble>>,
) -> Result<Answer, Failure> {
    let found = || route.as_ref().map_err(|refusal| Failure::from(refusal.clone()));
    let is_logged = call.server.write_log.wants(&call.info) && !is_dry_run(call.query());
    let trouble = match trouble {
        None if !is_logged => return handlers::answer(call, found()?, body).await,
        trouble => trouble.unwrap_or_default(),
    };
    if !trouble.delay.is_zero() {
        tokio::time::sleep(trouble.delay).await;
    }
    if trouble.cut == Some(Cut::BeforeHandling) {
        peer.hangup.now().await;
    }
    trouble.refuse(&call.user, &call.info)?;
    if trouble.compacts {
        let store = call.server.registry.store();
        let compacted = store.compact(store.current_revision()).await;
        compacted.map_err(Status::internal_error)?;
    }
    let scope = trouble.scope(&call.server.registry, &call.info);
    // In a box: who meets no trouble needs no room for it.
    let answered = Box::pin(handlers::answer(call, found()?, body));
    let (answer, written) = match trouble.webhooks_down {
        true => scope.run(webhooks::unreachable(answered)).await,
        false => scope.run(answered).await,
    };
    if is_logged {
        let kind = route.as_ref().map_or("", Route::kind);
        let log = &call.server.write_log;
        let answering = match &answer {
            Err(Failure::Status(status)) => log.refused(&call.user.name, &call.info, status),
            answer => log.note(call.requester(), &call.info, kind, answer.is_ok(), written),
        };
        if answering == Answering::Lost {
            peer.hangup.now().await;
        }
    }
    match trouble.cut {
        Some(Cut::BeforeAnswer) => peer.hangup.now().await,
        cut => call.cut = cut,
    }
    answer
}

/// Whether a request only asks what would become of it.
fn is_dry_run(query: &str) -> bool {
    query_value(query, "dryRun").is_some()
}

fn late() -> Failure {
    let text = "request did not complete within requested timeout - context deadline exceeded";
    Status::timeout(text, 0).into()
}

/// The id under which a request can be found in logs: the caller's own, or a new one.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    match headers.get(AUDIT_ID) {
        Some(id) if !id.is_empty() && id.len() <= 64 => id.clone(),
        _ => random_id(),
    }
}

/// A version 4 UUID. It tells requests apart and keeps no secret, so any generator will do.
fn random_id() -> HeaderValue {
    let mut bytes = [0u8; 16];
    fastrand::fill(&mut bytes);
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    let mut id = HeaderValue::from_str(text).expect("hex digits and hyphens");
    // No secret, but never the same: it need not push other headers out of the tables of both ends.
    id.set_sensitive(true);
    id
}

/// The lines of a header as one list. Nearly all have one line at most, which is not copied.
fn header_list(headers: &HeaderMap, name: HeaderName) -> Cow<'_, str> {
    let lines = headers.get_all(name).iter();
    let mut lines = lines.filter_map(|value| value.to_str().ok());
    let first = lines.next().unwrap_or_default();
    lines.fold(Cow::Borrowed(first), |list, line| match list.is_empty() {
        true => Cow::Borrowed(line),
        false => Cow::Owned([&*list, ",", line].concat()),
    })
}

fn user_agent(headers: &HeaderMap) -> &str {
    headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}
