//! POST of a token request: issues a token of a service account.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use watchkeeper_registry::TokenIssuer;

use super::objects::{form, posted};
use crate::filter::Call;
use crate::forms;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;

pub(super) fn token<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    bytes: Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let form = form(call, route, Offer::Virtual)?.accepted;
        let (body, context) = posted(call, route, &bytes)?;
        let key = call.server.service_account_keys().signing();
        let issuer = TokenIssuer {
            name: call.server.issuer(),
            algorithm: key.public().algorithm.name(),
            key_id: &key.public().id,
            sign: &|said| key.sign(said),
        };
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let name = route.name.as_deref().unwrap_or_default();
        let registry = &call.server.registry;
        let answer = registry
            .request_token(namespace, name, body, &issuer, &context)
            .await?;
        let bytes = forms::value(&answer, form.format)?;
        Ok(encoded(StatusCode::CREATED, form, bytes))
    })
}
