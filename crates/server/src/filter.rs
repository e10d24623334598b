//! The filters of every request, in one visible order.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, request};
use hyper::body::{Body as _, Incoming};
use rustls::pki_types::CertificateDer;
use tokio::time::Instant;
use watchkeeper_meta::Status;

use crate::access_log;
use crate::audit::{self, Audited};
use crate::authenticate::{Credentials, credentials};
use crate::authorize::{attributes, permit};
use crate::body::{RequestBody, discard};
use crate::deadline::deadline;
use crate::faults::{Cut, RequestFaults, Requester};
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

/// The peer of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// The user of a verified client certificate.
    pub certified: Option<User>,
    /// Set if the client certificate is that of a trusted front proxy, which may name a user.
    pub front_proxy: Option<Arc<FrontProxy>>,
    /// The server certificate of the connection, if the operator provided it.
    pub shown: Option<CertificateDer<'static>>,
    /// True for a socket, false for an in-process pipe.
    pub over_socket: bool,
    /// The peer's address; `None` in-process.
    pub address: Option<SocketAddr>,
    /// Closes the connection.
    pub hangup: Hangup,
}

/// A request on its way through the filters and to its handler. Boxed once, because futures would move it with them.
pub(crate) struct Call {
    pub server: Arc<Shared>,
    pub head: request::Parts,
    pub info: RequestInfo,
    /// The user, once authenticated.
    pub user: User,
    /// True if JSON is indented.
    pub pretty: bool,
    /// True if the request came over a socket.
    pub over_socket: bool,
    /// The injected cut of the response.
    pub cut: Option<Cut>,
    /// The time of arrival.
    pub began: Instant,
    /// The deadline; `None` for streams.
    pub deadline: Option<Instant>,
    /// The id of the request in logs.
    pub audit_id: HeaderValue,
    /// The client's address, if known.
    pub source: Option<SocketAddr>,
    /// The audit event, if the policy wants one.
    pub audited: Option<Box<Audited>>,
    /// The flow of the request, once classified.
    pub classified: Option<Classified>,
    /// The seat of the request, once granted.
    pub seat: Option<Seat>,
}

impl Call {
    /// The raw query.
    pub(crate) fn query(&self) -> &str {
        self.head.uri.query().unwrap_or_default()
    }

    /// The `Accept` header; several lines are joined.
    pub(crate) fn accept(&self) -> Cow<'_, str> {
        header_list(&self.head.headers, ACCEPT)
    }

    /// The `Content-Type` of the body.
    pub(crate) fn content_type(&self) -> Option<&str> {
        self.head
            .headers
            .get(CONTENT_TYPE)
            .map(|value| value.to_str().unwrap_or("?"))
    }

    /// The `User-Agent`.
    pub(crate) fn user_agent(&self) -> &str {
        user_agent(&self.head.headers)
    }

    /// The user and the user agent.
    pub(crate) fn requester(&self) -> Requester {
        Requester {
            user: self.user.name.clone(),
            user_agent: self.user_agent().to_owned(),
        }
    }
}

/// Answers a request; it always returns a response.
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
    let find = || Route::of_decoded(&server.catalog(), &head.method, &info.path, query);
    let mut route = find();
    if let Err(Refusal::NoSuchPage | Refusal::NoSuchResource) = route {
        server.registry.custom_kinds_served().await;
        route = find();
    }
    let labels = Labels::of(route.as_ref().ok(), query);
    let _in_flight = server.metrics.begin(&info);
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

    // A panic ends one request, not its connection.
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
        Some(audited) => audit::log(audited, answer),
        None => answer,
    };
    let answer = server.metrics.answered(labels, answer, began.elapsed());
    if answer.status() == StatusCode::OK {
        let bytes = answer.body().size_hint().exact();
        server
            .flow_control
            .learn(&call.info, bytes.map(|bytes| bytes as usize));
    }
    let mut answer = respond::finish(answer, takes_gzip, call.audit_id.clone());
    if let Some(classified) = &call.classified {
        classified.add_headers(answer.headers_mut());
    }
    if let Some(cut) = call.cut {
        answer = peer.hangup.interrupts(answer, cut);
    }
    // In flight until it is written. Deadlines of peers do not follow time that a test moves.
    let deadline = call.deadline.unwrap_or(began + MAX_REQUEST_TIMEOUT);
    let terms = Terms {
        seat: call.seat.take(),
        deadline: (!server.has_movable_clock()).then_some(deadline),
        peer: peer.hangup.clone(),
    };
    answer = server
        .unwritten
        .hold(answer, terms, &server.tasks, &server.draining);
    // Answered before its body was read. On HTTP/2 a client that is still sending may treat the end of the stream as
    // an error and ignore the response; on HTTP/1.1 the next request would start inside this body.
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
    // DNS rebinding: a page that reaches this server under a foreign name gets nothing, not even errors.
    check_host(&server.hosts, peer.shown.as_ref(), &head.uri, &head.headers)?;
    // An invalid timeout is an error for every user.
    let limit = deadline(info, call.query())?;
    let deadline = limit.map(|limit| call.began + limit);
    call.deadline = deadline;
    // Invalid credentials are rejected even where anonymous access is allowed.
    call.user = match credentials(peer, &head.headers, &server.tokens) {
        Credentials::Known(user) => user,
        Credentials::Token(token) => {
            let holder = server.issued_to(&token, &server.audiences()).await;
            holder.ok_or_else(Status::unauthorized)?
        }
    };
    let mut impersonator = None;
    // From here on, the impersonated user counts; without permission the request is rejected.
    if let Some(asked) = impersonation(&head.headers)? {
        let modes = &server.impersonation_modes;
        let user = asked.permitted(&server.registry, &call.user, info, modes).await?;
        impersonator = Some(std::mem::replace(&mut call.user, user));
    }
    if let Some(audit) = &server.audit {
        call.audited = audit.begin(call, impersonator.as_ref());
    }
    let (server, info) = (&call.server, &call.info);
    // Under load, a request waits or is rejected before it costs anything.
    let patience = limit.unwrap_or(MAX_REQUEST_TIMEOUT) / QUEUEING_PART;
    let classified = &mut call.classified;
    let seat = server
        .flow_control
        .admit(&server.registry, &call.user, info, patience, classified);
    call.seat = seat.await.map_err(Failure::Busy)?;
    // Without permission, a user does not learn what exists.
    let decision = server.registry.may(&call.user, attributes(info)).await?;
    if let Some(audited) = &mut call.audited {
        audited.decided(&decision);
    }
    permit(&call.user, info, &decision)?;
    server.write_log.asked(&call.user.name, info);
    // Injected faults affect the handling of a request, not the checks before it.
    let request_faults = server.faults.on_request(|| call.requester(), info);
    let handled = handle(peer, call, route, body, request_faults);
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, handled)
            .await
            .map_err(|_| late())?,
        None => handled.await,
    }
}

/// Handles a request, with its injected faults.
async fn handle(
    peer: &Peer,
    call: &mut Call,
    route: &Result<Route, Refusal>,
    body: &mut RequestBody,
    request_faults: Option<Box<RequestFaults>>,
) -> Result<Answer, Failure> {
    let is_logged = call.server.write_log.wants(&call.info) && !is_dry_run(call.query());
    match request_faults {
        None if !is_logged => {
            let route = route.as_ref().map_err(|refusal| Failure::from(refusal.clone()))?;
            handlers::answer(call, route, body).await
        }
        request_faults => {
            let request_faults = request_faults.unwrap_or_default();
            handle_with_faults(peer, call, route, body, request_faults, is_logged).await
        }
    }
}

/// Handles a request that has injected faults or is recorded in the log of writes.
fn handle_with_faults<'a>(
    peer: &'a Peer,
    call: &'a mut Call,
    route: &'a Result<Route, Refusal>,
    body: &'a mut RequestBody,
    request_faults: Box<RequestFaults>,
    is_logged: bool,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        if !request_faults.delay.is_zero() {
            tokio::time::sleep(request_faults.delay).await;
        }
        if request_faults.cut == Some(Cut::BeforeHandling) {
            peer.hangup.now().await;
        }
        request_faults.refuse(&call.user, &call.info)?;
        if request_faults.compacts {
            let store = call.server.registry.store();
            let compacted = store.compact(store.current_revision()).await;
            compacted.map_err(Status::internal_error)?;
        }
        let scope = request_faults.scope(&call.server.registry, &call.info);
        let found = route.as_ref().map_err(|refusal| Failure::from(refusal.clone()))?;
        let answered = handlers::answer(call, found, body);
        let (answer, written) = match request_faults.webhooks_down {
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
        match request_faults.cut {
            Some(Cut::BeforeAnswer) => peer.hangup.now().await,
            cut => call.cut = cut,
        }
        answer
    })
}

/// True if a request is a dry run.
fn is_dry_run(query: &str) -> bool {
    query_value(query, "dryRun").is_some()
}

fn late() -> Failure {
    let text = "request did not complete within requested timeout - context deadline exceeded";
    Status::timeout(text, 0).into()
}

/// The id of a request in logs: the client's, or a new one.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    match headers.get(AUDIT_ID) {
        Some(id) if !id.is_empty() && id.len() <= 64 => id.clone(),
        _ => random_id(),
    }
}

/// A version 4 UUID. It identifies a request and is not secret, so any generator will do.
fn random_id() -> HeaderValue {
    let mut bytes = [0u8; 16];
    fastrand::fill(&mut bytes);
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    let mut id = HeaderValue::from_str(text).expect("hex digits and hyphens");
    // Not secret, but always different: it must not fill the HPACK tables of both ends.
    id.set_sensitive(true);
    id
}

/// The lines of a header as one list. Nearly all have one line, which is not copied.
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
