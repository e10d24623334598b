//! POST of a token request: a service account gets a token.

use bytes::Bytes;
use http::StatusCode;
use watchkeeper_meta::CreateOptions;
use watchkeeper_registry::{Body, TokenIssuer};

use super::objects::{body_format, form, write_context};
use crate::filter::Call;
use crate::forms;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;
use crate::service_account_key::{ALGORITHM, ISSUER};

pub(super) async fn token(call: &Call, route: &ResourceRoute, bytes: Bytes) -> Result<Answer, Failure> {
    let form = form(call, Offer::Virtual)?.accepted;
    let options = CreateOptions::from_query(call.query())?;
    let body = Body {
        format: body_format(call)?,
        bytes: &bytes,
    };
    let context = write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    );
    let key = call.server.service_account_key();
    let issuer = TokenIssuer {
        name: ISSUER,
        algorithm: ALGORITHM,
        key_id: key.id(),
        sign: &|said| key.sign(said),
    };
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let name = route.name.as_deref().unwrap_or_default();
    let registry = &call.server.registry;
    let answer = registry
        .request_token(namespace, name, body, &issuer, &context)
        .await?;
    let bytes = forms::value(&answer, form.encoding)?;
    Ok(encoded(StatusCode::CREATED, form, bytes))
}
