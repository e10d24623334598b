//! Builds HTTP responses from encoded bytes and a form.
//!
//! Every response of the resource API passes through here, so that pretty printing, compression and standard headers
//! are decided once.

use std::io::Write as _;

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compression, Crc};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use watchkeeper_meta::Status;
use watchkeeper_registry::{Format, JSON};

use crate::body::{FrameStream, Pieces, ResponseBody, StreamCut};
use crate::flow_control::Rejected;
use crate::limits::{
    GZIP_PIECE_THRESHOLD_BYTES, GZIP_THRESHOLD_BYTES, MAX_CHARACTERS_OF_MANY, MAX_WARNING_BYTES,
};
use crate::negotiate::{Accepted, Unacceptable, Unsupported};
use crate::route::Refusal;
use crate::{pretty, status_bytes};

/// `text/plain` as in Go's HTTP library.
const TEXT: &str = "text/plain; charset=utf-8";

/// The header with the id of a request in logs.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The failure of a request.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A `Status` in the negotiated form.
    Status(Box<Status>),
    /// Nothing is served at this path: a line of text.
    NoSuchPage,
    /// A failure with warnings.
    Warned(Box<Failure>, Vec<String>),
    /// Rejected by API Priority and Fairness: a line of text, and `Retry-After`.
    Busy(Rejected),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoSuchPage => Self::NoSuchPage,
            Refusal::NoSuchResource => Status::path_not_found().into(),
            Refusal::NoSuchPart(resource, name) => {
                Status::not_found(&resource.resource.group_resource(), &name).into()
            }
            Refusal::MethodNotAllowed => Status::method_not_allowed().into(),
        }
    }
}

impl From<Unacceptable> for Failure {
    fn from(refusal: Unacceptable) -> Self {
        let status = Status::not_acceptable(refusal.to_string());
        match refusal {
            // Errors of the router have empty details, those of handlers have none.
            Unacceptable::Router(_) => with_empty_details(status).into(),
            Unacceptable::Handler(_) => status.into(),
        }
    }
}

impl From<Unsupported> for Failure {
    fn from(refusal: Unsupported) -> Self {
        let status = Status::unsupported_media_type(refusal.to_string());
        match refusal {
            Unsupported::Patch => with_empty_details(status).into(),
            Unsupported::Body(_) => status.into(),
        }
    }
}

fn with_empty_details(mut status: Status) -> Status {
    status.details = Some(Default::default());
    status
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// A response.
pub(crate) type Answer = Response<ResponseBody>;

/// An encoded object, list or other document.
pub(crate) fn encoded(code: StatusCode, accepted: Accepted, bytes: Bytes) -> Answer {
    let bytes = match (accepted.format, accepted.pretty) {
        (Format::Json, true) => pretty::indent(&bytes).into(),
        _ => bytes,
    };
    with_type(code, accepted.format.media_type(), bytes)
}

/// A large document whose first piece is built. An error in a later piece truncates the response.
pub(crate) fn in_pieces(
    accepted: Accepted,
    first: Bytes,
    rest: impl Iterator<Item = Result<Bytes, Status>> + Send + 'static,
) -> Answer {
    let rest = rest.map(|piece| {
        piece.map_err(|status| {
            tracing::error!(message = status.message, "a response is truncated");
            StreamCut
        })
    });
    let pieces = std::iter::once(Ok(first)).chain(rest);
    let mut answer = Response::new(ResponseBody::Pieces(Box::new(pieces)));
    let media_type = HeaderValue::from_static(accepted.format.media_type());
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// A document of this server as JSON with a final newline, as Go writes it.
pub(crate) fn json(document: &impl Serialize, pretty: bool) -> Answer {
    let mut bytes = to_json(document);
    if pretty {
        bytes = pretty::indent(&bytes);
    }
    with_type(StatusCode::OK, JSON, bytes)
}

/// A line of text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    with_type(code, TEXT, text.into())
}

/// A line of text that browsers must not interpret as anything else.
pub(crate) fn plain_text(code: StatusCode, line: impl Into<Bytes>) -> Answer {
    let mut answer = text(code, line);
    answer
        .headers_mut()
        .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// A stream of events: the head is sent at once, each frame as it comes.
pub(crate) fn stream(encoding: Format, frames: FrameStream) -> Answer {
    let mut answer = Response::new(ResponseBody::Stream {
        frames,
        is_copied: encoding == Format::Protobuf,
        unwritten: None,
    });
    let media_type = HeaderValue::from_static(encoding.stream_media_type());
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// A stream of events whose frames are compressed.
pub(crate) fn gzip_stream(encoding: Format, frames: FrameStream) -> Answer {
    let mut answer = stream(encoding, frames);
    if let ResponseBody::Stream { is_copied, .. } = answer.body_mut() {
        *is_copied = false;
    }
    mark_gzip(answer.headers_mut());
    answer
}

/// Bytes of any type.
pub(crate) fn with_type(code: StatusCode, media_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(ResponseBody::from(bytes));
    *answer.status_mut() = code;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// The response of a failure, in the requested form.
pub(crate) fn failure(failure: Failure, accepted: Accepted) -> Answer {
    match failure {
        Failure::Status(failure) => status(&failure, accepted),
        Failure::NoSuchPage => plain_text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Failure::Warned(failure, warnings) => warned(self::failure(*failure, accepted), &warnings),
        Failure::Busy(rejected) => {
            let line = "Too many requests, please try again later.\n";
            let mut answer = plain_text(StatusCode::TOO_MANY_REQUESTS, line);
            answer
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(rejected.retry_after_seconds));
            answer
        }
    }
}

/// Adds warnings to a response, before those of lower layers.
pub(crate) fn warned(mut answer: Answer, warnings: &[String]) -> Answer {
    let headers = answer.headers_mut();
    let below: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    let above = warnings.iter().filter_map(|warning| {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        HeaderValue::try_from(format!("299 - \"{quoted}\"")).ok()
    });
    let all: Vec<HeaderValue> = above.chain(below).collect();
    for warning in within_limit(all) {
        headers.append(WARNING, warning);
    }
    answer
}

/// Shortens too many warnings, then drops some, so that every client accepts the head.
fn within_limit(warnings: Vec<HeaderValue>) -> Vec<HeaderValue> {
    let total = |warnings: &[HeaderValue]| warnings.iter().map(HeaderValue::len).sum::<usize>();
    if total(&warnings) <= MAX_WARNING_BYTES {
        return warnings;
    }
    let mut kept = Vec::new();
    for warning in warnings {
        let short = shortened(&warning).unwrap_or(warning);
        if total(&kept) + short.len() > MAX_WARNING_BYTES {
            break;
        }
        kept.push(short);
    }
    kept
}

/// A shortened warning; `None` if it is short enough.
fn shortened(warning: &HeaderValue) -> Option<HeaderValue> {
    let text = std::str::from_utf8(warning.as_bytes()).ok()?;
    let text = text.strip_prefix("299 - \"")?.strip_suffix('"')?;
    let (end, _) = text.char_indices().nth(MAX_CHARACTERS_OF_MANY)?;
    // An escape sequence is not split.
    let kept = text[..end].trim_end_matches('\\');
    HeaderValue::try_from(format!("299 - \"{kept}\"")).ok()
}

/// Adds warnings to a response or a failure.
pub(crate) fn with_warnings(
    answer: Result<Answer, Failure>,
    warnings: Vec<String>,
) -> Result<Answer, Failure> {
    match answer {
        answer if warnings.is_empty() => answer,
        Ok(answer) => Ok(warned(answer, &warnings)),
        Err(failure) => Err(Failure::Warned(Box::new(failure), warnings)),
    }
}

/// A `Status` in the requested form.
pub(crate) fn status(status: &Status, accepted: Accepted) -> Answer {
    let bytes = status_bytes::encode(status, accepted.format);
    let mut answer = encoded(status.http_status(), accepted, bytes);
    let headers = answer.headers_mut();
    let retry_after = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    if retry_after > 0 {
        headers.insert(RETRY_AFTER, HeaderValue::from(retry_after));
    }
    if status.http_status() == StatusCode::FORBIDDEN {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    answer
}

/// Adds the standard headers unless the handler set them, and compresses large responses.
pub(crate) fn finish(mut answer: Answer, takes_gzip: bool, audit_id: HeaderValue) -> Answer {
    let headers = answer.headers_mut();
    headers.insert(AUDIT_ID, audit_id);
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    match takes_gzip {
        true => compressed(answer),
        false => answer,
    }
}

/// Compresses a large response. Streams are compressed where they are made, if at all.
fn compressed(answer: Answer) -> Answer {
    let (mut head, body) = answer.into_parts();
    let body = match body {
        ResponseBody::Whole(Some(bytes)) if bytes.len() > GZIP_THRESHOLD_BYTES => match gzip(&bytes) {
            Some(small) => ResponseBody::from(small),
            None => return Response::from_parts(head, ResponseBody::from(bytes)),
        },
        ResponseBody::Pieces(pieces) => ResponseBody::Pieces(Box::new(GzipPieces::new(pieces))),
        body => return Response::from_parts(head, body),
    };
    mark_gzip(&mut head.headers);
    Response::from_parts(head, body)
}

fn mark_gzip(headers: &mut HeaderMap) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// Level 1, as in kube-apiserver: lists shrink tenfold, and higher levels gain little.
const GZIP_LEVEL: u32 = 1;

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let room = Vec::with_capacity(bytes.len() / 8);
    let mut encoder = GzEncoder::new(room, Compression::new(GZIP_LEVEL));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// A piece of a stream as a gzip member, so that it can be decoded at once. As in kube-apiserver, the members of a
/// stream follow each other.
///
/// Before its end, a member has the mark of a flush. Go's decoder hands over what it has at such a mark, but at the end
/// of a member only when the next one begins.
pub(crate) fn gzip_piece(bytes: Bytes) -> Bytes {
    match u16::try_from(bytes.len()) {
        Ok(length) if bytes.len() <= GZIP_PIECE_THRESHOLD_BYTES => stored_gzip(&bytes, length),
        _ => flushed_gzip(&bytes).expect("memory takes every byte").into(),
    }
}

fn flushed_gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
    encoder.write_all(bytes)?;
    encoder.flush()?;
    encoder.finish()
}

/// A gzip member with one block that is not compressed.
fn stored_gzip(bytes: &[u8], length: u16) -> Bytes {
    const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
    const STORED: u8 = 0;
    const FLUSH: [u8; 5] = [0, 0, 0, 0xff, 0xff];
    const LAST: [u8; 5] = [1, 0, 0, 0xff, 0xff];
    let mut checksum = Crc::new();
    checksum.update(bytes);
    let mut member = Vec::with_capacity(bytes.len() + 33);
    member.extend_from_slice(&HEAD);
    member.push(STORED);
    member.extend_from_slice(&length.to_le_bytes());
    member.extend_from_slice(&(!length).to_le_bytes());
    member.extend_from_slice(bytes);
    member.extend_from_slice(&FLUSH);
    member.extend_from_slice(&LAST);
    member.extend_from_slice(&checksum.sum().to_le_bytes());
    member.extend_from_slice(&u32::from(length).to_le_bytes());
    member.into()
}

/// The pieces of a document, compressed as one stream.
struct GzipPieces {
    pieces: Pieces,
    /// `None` once the end is written.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl GzipPieces {
    fn new(pieces: Pieces) -> Self {
        let encoder = Some(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL)));
        Self { pieces, encoder }
    }
}

impl Iterator for GzipPieces {
    type Item = Result<Bytes, StreamCut>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut encoder = self.encoder.take()?;
        loop {
            let piece = match self.pieces.next() {
                None => return Some(encoder.finish().map(Bytes::from).map_err(|_| StreamCut)),
                Some(piece) => piece,
            };
            if piece
                .and_then(|piece| encoder.write_all(&piece).map_err(|_| StreamCut))
                .is_err()
            {
                return Some(Err(StreamCut));
            }
            // Several pieces may be needed before the encoder produces output.
            let small = std::mem::take(encoder.get_mut());
            if !small.is_empty() {
                self.encoder = Some(encoder);
                return Some(Ok(small.into()));
            }
        }
    }
}

/// True if a client accepts gzip.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let mut wishes = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|wish| wish.to_str().ok());
    wishes.any(|wish| {
        let mut codings = wish
            .split(',')
            .map(|coding| coding.split(';').next().unwrap_or_default().trim());
        codings.any(|coding| coding == "gzip")
    })
}

/// JSON as Go writes it: with a final newline, and markup characters escaped.
pub(crate) fn to_json(document: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_string(document).expect("documents of the server have text keys");
    let mut bytes = status_bytes::escape_markup(text).into_bytes();
    bytes.push(b'\n');
    bytes
}
