//! Discovery documents, legacy and aggregated.

use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;
use watchkeeper_meta::Status;
use watchkeeper_registry::Format;

use crate::body::ResponseBody;
use crate::discovery::{Aggregated, ApiVersions, Group, GroupList, ResourceList, etag};
use crate::filter::Call;
use crate::forms;
use crate::negotiate::{Accepted, Offer, Transform, accept};
use crate::respond::{Answer, Failure, encoded, to_json, with_type};

/// The content type of an aggregated document.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `GET /api`.
pub(super) fn core_versions(call: &Call) -> Result<Answer, Failure> {
    let catalog = call.server.catalog();
    let form = form(call, Offer::Discovery)?;
    match form.transform {
        Transform::AggregatedDiscovery => Ok(aggregated(call, &Aggregated::core(&catalog))),
        _ => document(&ApiVersions::of(&catalog, call.server.address.clone()), form),
    }
}

/// `GET /apis`.
pub(super) fn groups(call: &Call) -> Result<Answer, Failure> {
    let catalog = call.server.catalog();
    let form = form(call, Offer::Discovery)?;
    match form.transform {
        Transform::AggregatedDiscovery => Ok(aggregated(call, &Aggregated::groups(&catalog))),
        _ => document(&GroupList::of(&catalog), form),
    }
}

/// `GET /apis/{group}`.
pub(super) fn group(call: &Call, name: &str) -> Result<Answer, Failure> {
    let catalog = call.server.catalog();
    let group = catalog.group(name).ok_or(Failure::NoSuchPage)?;
    document(&Group::of(group), form(call, Offer::Plain)?)
}

/// `GET /api/{version}`, `GET /apis/{group}/{version}`.
pub(super) fn resources(call: &Call, group: &str, version: &str) -> Result<Answer, Failure> {
    let catalog = call.server.catalog();
    let version = catalog.version(group, version).ok_or(Failure::NoSuchPage)?;
    document(&ResourceList::of(group, version), form(call, Offer::Plain)?)
}

fn form(call: &Call, offer: Offer) -> Result<Accepted, Failure> {
    let accepted = accept(&call.accept(), offer)?;
    Ok(Accepted {
        pretty: accepted.pretty || call.pretty,
        ..accepted
    })
}

/// A document in the requested encoding.
fn document(document: &impl Serialize, form: Accepted) -> Result<Answer, Failure> {
    let bytes = match form.format {
        Format::Json => to_json(document).into(),
        Format::Yaml => forms::yaml(&tree(document)?).into(),
        Format::Protobuf => forms::meta_value(&tree(document)?)?,
    };
    Ok(encoded(StatusCode::OK, form, bytes))
}

fn tree(document: &impl Serialize) -> Result<Value, Status> {
    serde_json::to_value(document).map_err(Status::internal_error)
}

/// The aggregated document, or 304 if the client has it.
fn aggregated(call: &Call, document: &Aggregated<'_>) -> Answer {
    let bytes = to_json(document);
    let tag = etag(&bytes);
    let mut answer = match is_known(call, &tag) {
        true => not_modified(),
        false => with_type(StatusCode::OK, AGGREGATED, bytes),
    };
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(ETAG, HeaderValue::try_from(tag).expect("hex digits and quotes"));
    answer
}

pub(super) fn not_modified() -> Answer {
    let mut answer = Answer::new(ResponseBody::empty());
    *answer.status_mut() = StatusCode::NOT_MODIFIED;
    answer
}

/// True if the request's `If-None-Match` has this tag.
pub(super) fn is_known(call: &Call, tag: &str) -> bool {
    let known = call
        .head
        .headers
        .get(IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok());
    known.is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag))
}
