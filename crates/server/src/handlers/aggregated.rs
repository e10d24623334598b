//! Proxies a request to an aggregated API server, with the user's identity. Bodies are streamed both ways, and
//! upgraded connections (WebSocket, SPDY) are joined.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::header::{
    CONNECTION, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyDataStream, Either, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use watchkeeper_meta::Status;

use crate::aggregation::{OutgoingBody, identify};
use crate::body::{RequestBody, ResponseBody, StreamCut};
use crate::filter::Call;
use crate::respond::{Answer, Failure, plain_text};
use crate::stream::{Opened, guarded};

/// Hop-by-hop headers, which are not forwarded.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
];

/// Answers a request below `/apis/{group}/{version}`, or for that group version's OpenAPI document.
pub(super) fn answer<'a>(
    call: &'a mut Call,
    (group, version): (&'a str, &'a str),
    body: &'a mut RequestBody,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let remote = call.server.aggregator.find(group, version);
        let remote = remote.ok_or(Failure::NoSuchPage)?;
        let count = remote.addresses.len();
        let usable = remote.is_available && count > 0;
        if !usable {
            return Ok(unavailable("service unavailable"));
        }
        let address = &remote.addresses[fastrand::usize(..count)];
        let request = outgoing(call, remote.backend.host(), body)?;
        let is_upgrade = request.headers().contains_key(UPGRADE);
        match remote.backend.send(address, request).await {
            Err(why) => Ok(unavailable(&format!("error trying to reach service: {why}"))),
            Ok(answer) if is_upgrade && answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                Ok(upgraded(call, answer))
            }
            Ok(answer) => Ok(passed_back(call, answer)),
        }
    })
}

/// The response of kube-aggregator: a line of text.
fn unavailable(line: &str) -> Answer {
    plain_text(StatusCode::SERVICE_UNAVAILABLE, format!("{line}\n"))
}

/// The request as sent to the other server.
fn outgoing(call: &Call, host: &str, body: &mut RequestBody) -> Result<Request<OutgoingBody>, Status> {
    let path = call.head.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri: Uri = path.parse().map_err(Status::internal_error)?;
    let body = match body.take() {
        Some(body) => Either::Left(body),
        None => Either::Right(Full::default()),
    };
    let mut request = Request::new(body);
    *request.method_mut() = call.head.method.clone();
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    *headers = call.head.headers.clone();
    let upgrade = asked_upgrade(headers);
    remove_connection_headers(headers);
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    let host = HeaderValue::try_from(host).map_err(Status::internal_error)?;
    headers.insert(HOST, host);
    identify(headers, &call.user);
    Ok(request)
}

/// The protocol that the client wants to upgrade to.
fn asked_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut options = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok());
    let is_asked = options.any(|options| {
        let mut options = options.split(',');
        options.any(|option| option.trim().eq_ignore_ascii_case("upgrade"))
    });
    headers.get(UPGRADE).filter(|_| is_asked).cloned()
}

/// Removes hop-by-hop headers: the known ones and those that `Connection` names.
fn remove_connection_headers(headers: &mut HeaderMap) {
    let lines = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok());
    let named = lines.flat_map(|line| line.split(','));
    let named: Vec<HeaderName> = named.filter_map(|name| name.trim().parse().ok()).collect();
    for name in named.iter().chain(&HOP_BY_HOP).chain([&UPGRADE]) {
        headers.remove(name);
    }
}

/// The response, whose body is streamed. An endless stream ends when the server drains.
fn passed_back(call: &Call, answer: Response<Incoming>) -> Answer {
    let (mut head, body) = answer.into_parts();
    remove_connection_headers(&mut head.headers);
    let frames = BodyDataStream::new(body);
    let frames = match call.info.is_long_running() {
        true => {
            let opened = Opened::new(call.server.faults.clone(), call.requester(), call.info.clone());
            let until_broken = frames.take_while(|frame| std::future::ready(frame.is_ok()));
            let frames = until_broken.filter_map(async |frame: Result<Bytes, _>| frame.ok());
            guarded(frames, opened)
        }
        false => Box::pin(frames.map_err(|_| StreamCut)),
    };
    let body = ResponseBody::Stream {
        frames,
        is_copied: false,
        unwritten: None,
    };
    let mut answer = Answer::new(body);
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    answer
}

/// Both connections were upgraded: copies bytes between them.
fn upgraded(call: &mut Call, mut answer: Response<Incoming>) -> Answer {
    let mut asked = Request::new(());
    *asked.extensions_mut() = std::mem::take(&mut call.head.extensions);
    let (client, backend) = (hyper::upgrade::on(&mut asked), hyper::upgrade::on(&mut answer));
    let draining = call.server.draining.clone();
    call.server
        .tasks
        .spawn(draining.run_until_cancelled_owned(async move {
            if let (Ok(client), Ok(backend)) = tokio::join!(client, backend) {
                let (mut client, mut backend) = (TokioIo::new(client), TokioIo::new(backend));
                // If one side closes, the other sees the end.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut backend).await;
            }
        }));
    let mut passed = Answer::new(ResponseBody::empty());
    *passed.status_mut() = answer.status();
    *passed.headers_mut() = answer.headers().clone();
    passed
}
