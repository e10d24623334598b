//! Documents of the server itself: paths, version, health and metrics.

use http::StatusCode;
use serde::Serialize;
use watchkeeper_meta::{METRICS_CONTENT_TYPE, MetricsText};

use crate::HealthProbe;
use crate::filter::Call;
use crate::metrics::Moment;
use crate::respond::{Answer, Failure, json, text, with_type};
use crate::version::Version;

/// The notice on pages without a stable format.
const FOR_PEOPLE: &str = "For people: the form of this page may change.\n";

/// The paths at the root besides groups and health checks.
const PATHS: [&str; 13] = [
    "/.well-known/openid-configuration",
    "/api",
    "/apis",
    "/apis/",
    "/flagz",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/statusz",
    "/version",
];

/// `GET /`: the available paths.
pub(super) fn root(call: &Call) -> Result<Answer, Failure> {
    #[derive(Serialize)]
    struct Paths {
        paths: Vec<String>,
    }
    let mut paths: Vec<String> = PATHS.map(str::to_owned).to_vec();
    for group in call.server.catalog().groups() {
        let root = match &*group.name {
            "" => "/api".to_owned(),
            name => format!("/apis/{name}"),
        };
        paths.extend(
            group
                .versions
                .iter()
                .map(|version| format!("{root}/{}", version.name)),
        );
        paths.extend((!group.name.is_empty()).then_some(root));
    }
    for probe in HealthProbe::ALL {
        let root = format!("/{}", probe.as_str());
        paths.extend(probe.checks().map(|check| format!("{root}/{check}")));
        paths.push(root);
    }
    paths.sort();
    // Always indented, because people read it.
    Ok(json(&Paths { paths }, true))
}

/// `GET /version`. Always indented, as in a real server.
pub(super) fn version() -> Answer {
    json(&Version::current(), true)
}

/// `GET /metrics`.
pub(super) async fn metrics(call: &Call) -> Result<Answer, Failure> {
    let server = &call.server;
    let moment = Moment {
        streams: server.faults.stream_infos(),
        flow_control: server.flow_control.figures(),
        audit: server.audit.as_ref().map(|audit| audit.figures()),
        objects: server.registry.object_counts().await?,
    };
    let mut page = server.metrics.page(&moment);
    let mut text = MetricsText::default();
    server.registry.metrics().collect(&mut text);
    page.push_str(&text.into_string());
    Ok(with_type(StatusCode::OK, METRICS_CONTENT_TYPE, page))
}

/// `GET /metrics/slis`: every health check as a number.
pub(super) async fn health_metrics(call: &Call) -> Answer {
    let page = call.server.health().await.metrics();
    with_type(StatusCode::OK, METRICS_CONTENT_TYPE, page)
}

/// `GET /statusz`: the uptime.
pub(super) fn statusz(call: &Call) -> Answer {
    let page = format!(
        "watchkeeper statusz\n{FOR_PEOPLE}\nUp: {} s\nVersion: {}\n",
        call.server.started.elapsed().as_secs(),
        env!("CARGO_PKG_VERSION"),
    );
    text(StatusCode::OK, page)
}

/// `GET /flagz`: the start options.
pub(super) fn flagz(call: &Call) -> Answer {
    let server = &call.server;
    let page = format!(
        "watchkeeper flagz\n{FOR_PEOPLE}\naddress={}\ndebug-endpoints={}\n",
        server.address, server.debug_endpoints,
    );
    text(StatusCode::OK, page)
}

/// `GET /healthz`, `/livez`, `/readyz`, or one check of theirs.
pub(super) async fn health(call: &Call, probe: HealthProbe, check: Option<&str>) -> Answer {
    let health = call.server.health().await;
    match check {
        Some(check) => health.answer_check(probe, check),
        None => health.answer(probe, call.query()),
    }
}
