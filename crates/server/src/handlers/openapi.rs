//! OpenAPI documents over HTTP: an index with hashes, and documents that clients may cache while the hash is the
//! same.

use http::header::{CACHE_CONTROL, ETAG, EXPIRES, LAST_MODIFIED, LOCATION, VARY};
use http::{HeaderValue, StatusCode};
use watchkeeper_registry::JSON;
use watchkeeper_wire::schema::Schema;

use super::discovery::{is_known, not_modified};
use crate::body::ResponseBody;
use crate::filter::Call;
use crate::openapi::{document, document_hash, document_v2, has_document, index, to_protobuf};
use crate::request_info::query_value;
use crate::respond::{Answer, Failure, to_json, with_type};

/// The `Last-Modified` date. Documents are generated from the program; no client relies on the date.
const LAST_MODIFIED_DATE: HeaderValue = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT");

/// The `Expires` date of a document requested by its hash, which never changes.
const EXPIRES_DATE: HeaderValue = HeaderValue::from_static("Fri, 31 Dec 2100 23:59:59 GMT");

/// The media types of the protobuf form of version 2: the current one, and the one client-go uses.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_BEFORE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// `GET /openapi/v3`. The content type is plain text, as in a real server.
pub(super) fn v3_index(call: &Call) -> Answer {
    let catalog = call.server.catalog();
    let bytes = catalog.documents.get("v3", || to_json(&index(&catalog)));
    let mut answer = with_type(StatusCode::OK, "text/plain; charset=utf-8", bytes);
    answer.headers_mut().insert(LAST_MODIFIED, LAST_MODIFIED_DATE);
    answer
}

/// The group version of a document, if another server serves it and its document.
pub(super) fn remote_version<'a>(call: &Call, path: &'a str) -> Option<(&'a str, &'a str)> {
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    let is_remote = call.server.catalog().is_remote(group, version);
    is_remote.then_some((group, version))
}

/// `GET /openapi/v3/{path}`.
pub(super) fn v3(call: &Call, path: &str) -> Result<Answer, Failure> {
    let catalog = call.server.catalog();
    if !has_document(&catalog, path) {
        return Ok(empty(StatusCode::NOT_FOUND));
    }
    let hash = catalog.documents.hash(path, || document_hash(&catalog, path));
    let asked = query_value(call.query(), "hash").filter(|asked| !asked.is_empty());
    if asked.as_ref().is_some_and(|asked| **asked != *hash) {
        return Ok(moved(path, &hash));
    }
    let tag = format!("\"{hash}\"");
    let mut answer = match is_known(call, &tag) {
        true => not_modified(),
        false => {
            let bytes = catalog.documents.get(&format!("v3/{path}"), || {
                to_json(&document(&catalog, Schema::builtin(), path))
            });
            with_type(StatusCode::OK, JSON, bytes)
        }
    };
    let headers = answer.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(ETAG, HeaderValue::try_from(&*tag).expect("hex digits and quotes"));
    headers.insert(LAST_MODIFIED, LAST_MODIFIED_DATE);
    if asked.is_some() {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        headers.insert(EXPIRES, EXPIRES_DATE);
    }
    Ok(answer)
}

/// `GET /openapi/v2`, as JSON or protobuf.
pub(super) fn v2(call: &Call) -> Result<Answer, Failure> {
    let Some(media_type) = v2_media_type(&call.accept()) else {
        return Ok(empty(StatusCode::NOT_ACCEPTABLE));
    };
    let catalog = call.server.catalog();
    let bytes = catalog.documents.get(media_type, || {
        let document = document_v2(&catalog, Schema::builtin());
        match media_type {
            V2_PROTOBUF => to_protobuf(&document),
            _ => to_json(&document),
        }
    });
    let tag = catalog
        .documents
        .hash(media_type, || crate::discovery::etag(&bytes));
    let mut answer = match is_known(call, &tag) {
        true => not_modified(),
        false => with_type(StatusCode::OK, media_type, bytes),
    };
    let headers = answer.headers_mut();
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.append(VARY, HeaderValue::from_static("Accept"));
    headers.insert(ETAG, HeaderValue::try_from(&*tag).expect("hex digits and quotes"));
    headers.insert(LAST_MODIFIED, LAST_MODIFIED_DATE);
    Ok(answer)
}

/// The first supported media type in an `Accept` header.
fn v2_media_type(accept: &str) -> Option<&'static str> {
    let mut wishes = accept
        .split(',')
        .map(|wish| wish.split(';').next().unwrap_or_default().trim());
    wishes.find_map(|wish| match wish {
        "" | "*/*" | "application/*" | JSON => Some(JSON),
        V2_PROTOBUF | V2_PROTOBUF_BEFORE => Some(V2_PROTOBUF),
        _ => None,
    })
}

/// Redirects a request with an outdated hash to the current document.
fn moved(path: &str, hash: &str) -> Answer {
    let mut answer = empty(StatusCode::MOVED_PERMANENTLY);
    let address = format!("/openapi/v3/{path}?hash={hash}");
    if let Ok(address) = HeaderValue::try_from(address) {
        answer.headers_mut().insert(LOCATION, address);
    }
    answer
}

fn empty(code: StatusCode) -> Answer {
    let mut answer = Answer::new(ResponseBody::empty());
    *answer.status_mut() = code;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_media_type_is_used() {
        let check = |accept, expected| assert_eq!(v2_media_type(accept), expected, "{accept}");
        check("", Some(JSON));
        check("text/html, */*;q=0.8", Some(JSON));
        check(
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            Some(V2_PROTOBUF),
        );
        check("text/html", None);
    }
}
