//! The HTTP side of webhooks: reviews are posted to a path and answered.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::Instant;
use watchkeeper_meta::Collect;

use super::Route;
use super::metrics::RequestsMetric;
use crate::http_server::{Answer, Handler, text, typed};

/// The largest review. An admission review has an object twice, of at most 3 MiB each; a conversion review has all
/// objects of a list, which API servers send in pages or, to old clients, at once. A larger one gets 413.
pub(crate) const MAX_REVIEW_BYTES: usize = 64 * 1024 * 1024;

pub(super) struct Service {
    routes: BTreeMap<String, Route>,
    metrics: Arc<RequestsMetric>,
}

impl Service {
    pub(super) fn new(routes: BTreeMap<String, Route>) -> Self {
        let metrics = Arc::new(RequestsMetric::new(routes.keys()));
        Self { routes, metrics }
    }

    pub(super) fn metrics(&self) -> Arc<dyn Collect> {
        self.metrics.clone()
    }

    pub(super) fn handler(self) -> Handler {
        let service = Arc::new(self);
        Arc::new(move |request| {
            let service = service.clone();
            async move { service.answer(request).await }.boxed()
        })
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let Some(route) = self.routes.get(&path) else {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let begun = Instant::now();
        self.metrics.begun(&path);
        let answer = respond(route, request).await;
        self.metrics
            .answered(&path, answer.status().as_u16(), begun.elapsed());
        answer
    }
}

async fn respond(route: &Route, request: Request<Incoming>) -> Answer {
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "reviews are posted\n");
    }
    let body = match Limited::new(request.into_body(), MAX_REVIEW_BYTES)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(_) => return text(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large\n"),
    };
    let review: Value = match serde_json::from_slice(&body) {
        Ok(review) => review,
        Err(error) => {
            return text(
                StatusCode::BAD_REQUEST,
                format!("the review is not JSON: {error}\n"),
            );
        }
    };
    // A panic of a handler must not affect the others; the API server applies its failure policy.
    match AssertUnwindSafe(async { route(review).await })
        .catch_unwind()
        .await
    {
        Ok(Ok(review)) => typed(StatusCode::OK, "application/json", review.to_string()),
        Ok(Err(why)) => text(StatusCode::BAD_REQUEST, format!("{why}\n")),
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the handler panicked\n"),
    }
}
