//! One handler per verb: takes a [`Call`] and its route, returns an answer.

mod aggregated;
mod binding;
mod component_status;
mod create;
mod debug;
mod delete;
mod discovery;
mod documents;
mod eviction;
mod get;
mod kubelet;
mod list;
mod maintenance;
mod objects;
mod openapi;
mod openid;
mod options_body;
mod patch;
mod reviews;
mod scale;
mod simulated;
#[cfg(feature = "testing")]
pub(crate) mod testing;
mod token;
mod update;
mod watch;
mod websocket;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;
use watchkeeper_registry::Part;

use crate::Verb;
use crate::body::{RequestBody, collect};
use crate::filter::Call;
use crate::respond::{Answer, Failure, with_warnings};
use crate::route::{ResourceRoute, Route};

/// Answers a request that has passed the filters.
pub(crate) fn answer<'a>(
    call: &'a mut Call,
    route: &'a Route,
    body: &'a mut RequestBody,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        match route {
            Route::Root => documents::root(call),
            Route::Version => Ok(documents::version()),
            Route::Metrics => documents::metrics(call).await,
            Route::HealthMetrics => Ok(documents::health_metrics(call).await),
            Route::Statusz => Ok(documents::statusz(call)),
            Route::Flagz => Ok(documents::flagz(call)),
            Route::OpenIdConfiguration => Ok(openid::configuration(call)),
            Route::JsonWebKeys => Ok(openid::keys(call)),
            Route::Health(probe, check) => Ok(documents::health(call, *probe, check.as_deref()).await),
            Route::Maintenance(what) => maintenance::maintenance(call, what).await,
            Route::Debug(what) => debug::debug(call, what).await,
            #[cfg(feature = "testing")]
            Route::Testing(path) => {
                let path: Vec<_> = path.split('/').collect();
                testing::testing(call, &path, body).await
            }
            #[cfg(not(feature = "testing"))]
            Route::Testing(_) => Err(Failure::NoSuchPage),
            Route::CoreVersions => discovery::core_versions(call),
            Route::Groups => discovery::groups(call),
            Route::Group(group) => discovery::group(call, group),
            Route::Resources(group, version) => discovery::resources(call, group, version),
            Route::OpenApiV2 => openapi::v2(call),
            Route::OpenApiV3Index => Ok(openapi::v3_index(call)),
            Route::OpenApiV3(path) => match openapi::remote_version(call, path) {
                Some(version) => aggregated::answer(call, version, body).await,
                None => openapi::v3(call, path),
            },
            Route::Aggregated(group, version) => aggregated::answer(call, (group, version), body).await,
            Route::Resource(route) => {
                let custom = route.resource.custom_definition();
                let custom = custom.and_then(|custom| custom.deprecation());
                let warnings = deprecation(route).or(custom).map(str::to_owned);
                let warnings = warnings.into_iter().collect();
                with_warnings(resource(call, route, body).await, warnings)
            }
        }
    })
}

/// Answers a request for objects. Rare branches are boxed: a future reserves space for its largest branch, and that
/// space is moved with it.
async fn resource(call: &mut Call, route: &ResourceRoute, body: &mut RequestBody) -> Result<Answer, Failure> {
    let part = match route.subresource.as_ref().map(|subresource| &*subresource.name) {
        None => Part::Object,
        Some("status") => Part::Status,
        Some("approval") => Part::Approval,
        Some("ephemeralcontainers") => Part::EphemeralContainers,
        Some("resize") => Part::Resize,
        Some("finalize") => Part::Finalize,
        Some("binding") => return binding::bind(call, route, body).await,
        Some("eviction") => {
            let bytes = read_body(call, body).await?;
            return eviction::evict(call, route, bytes).await;
        }
        Some("token") => {
            let bytes = read_body(call, body).await?;
            return token::token(call, route, bytes).await;
        }
        Some("scale") => {
            let bytes = read_body(call, body).await?;
            return scale::scale(call, route, bytes).await;
        }
        Some(other) if kubelet::is_answered_by_node(other) => {
            return kubelet::answer(call, route, other).await;
        }
        Some(other) => return Err(not_served(route, other)),
    };
    match route.verb {
        Verb::Get | Verb::List if component_status::is_component_status(route) => {
            component_status::answer(call, route).await
        }
        Verb::Get => get::get(call, route).await,
        Verb::List => list::list(call, route).await,
        Verb::Watch => watch::watch(call, route).await,
        verb => {
            let bytes = read_body(call, body).await?;
            match verb {
                Verb::Create if binding::is_binding(route) => binding::create(call, route, bytes).await,
                Verb::Create if reviews::is_review(route) => reviews::review(call, route, &bytes).await,
                Verb::Create => create::create(call, route, bytes).await,
                Verb::Update => update::update(call, route, part, bytes).await,
                Verb::Delete => delete::delete(call, route, bytes).await,
                Verb::DeleteCollection => delete::delete_collection(call, route, bytes).await,
                _ => patch::patch(call, route, part, bytes).await,
            }
        }
    }
}

/// Reads the body of a request, and passes it to the audit log.
async fn read_body(call: &mut Call, body: &mut RequestBody) -> Result<Bytes, Failure> {
    let bytes = collect(&call.head.headers, body).await?;
    if let Some(audited) = &mut call.audited {
        audited.record_request_body(&bytes);
    }
    Ok(bytes)
}

/// The deprecation warning of a resource, sent with every response.
fn deprecation(route: &ResourceRoute) -> Option<&str> {
    let resource = &route.resource.resource;
    builtin::by_plural(&resource.group, &resource.plural)?.deprecation
}

/// The error for a known resource that is not implemented.
fn not_served(route: &ResourceRoute, what: &str) -> Failure {
    let resource = route.resource.resource.group_resource();
    Status::method_not_supported(&resource, what).into()
}
