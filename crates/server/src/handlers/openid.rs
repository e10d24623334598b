//! OpenID Connect discovery: the keys to verify service account tokens of this server.

use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use serde_json::json;
use watchkeeper_registry::JSON;

use crate::filter::Call;
use crate::respond::{Answer, to_json, with_type};

/// The cache time: an hour, as in kube-apiserver.
const KEEP: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// `GET /.well-known/openid-configuration`.
pub(super) fn configuration(call: &Call) -> Answer {
    let document = json!({
        "issuer": call.server.issuer(),
        "jwks_uri": format!("https://{}/openid/v1/jwks", call.server.address),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": call.server.service_account_keys().algorithms(),
    });
    kept(with_type(StatusCode::OK, JSON, to_json(&document)))
}

/// `GET /openid/v1/jwks`.
pub(super) fn keys(call: &Call) -> Answer {
    let keys = call.server.service_account_keys().to_json();
    kept(with_type(
        StatusCode::OK,
        "application/jwk-set+json",
        to_json(&keys),
    ))
}

fn kept(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CACHE_CONTROL, KEEP);
    answer
}
