//! One handler per verb: a [`Call`] and its route in, an answer out.

mod discovery;
mod documents;

use hyper::body::Incoming;
use watchkeeper_meta::Status;

use crate::filter::Call;
use crate::respond::{Answer, Failure};
use crate::route::Route;

/// Answers a request that has passed the filters.
pub(crate) async fn answer(call: Call, route: Route, _body: Incoming) -> Result<Answer, Failure> {
    match route {
        Route::Root => documents::root(&call),
        Route::Version => Ok(documents::version()),
        Route::Metrics => Ok(documents::metrics(&call)),
        Route::Health(probe, check) => Ok(documents::health(&call, probe, check.as_deref())),
        Route::CoreVersions => discovery::core_versions(&call),
        Route::Groups => discovery::groups(&call),
        Route::Group(group) => discovery::group(&call, &group),
        Route::Resources(group, version) => discovery::resources(&call, &group, &version),
        Route::OpenApiV2 | Route::OpenApiV3Index | Route::OpenApiV3(_) => Err(Failure::NoSuchPage),
        Route::Resource(_) => Err(Status::service_unavailable("objects are not served yet").into()),
    }
}
