//! Answers with security headers.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde::Serialize;

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The content security policy: nothing from other origins, no inline script or style, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const ASSETS: [(&str, &str, &str); 7] = [
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/app.js"),
    ),
    (
        "/timeline.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/timeline.js"),
    ),
    (
        "/moment.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/moment.js"),
    ),
    (
        "/writes.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/writes.js"),
    ),
    (
        "/dom.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/dom.js"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("../../assets/style.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_str!("../../assets/icon.svg"),
    ),
];

const INDEX: &str = include_str!("../../assets/index.html");

pub(super) fn page_answer(title: &str, allows_writes: bool) -> Answer {
    let html = INDEX
        .replace("{{title}}", &escape(title))
        .replace("{{writes}}", if allows_writes { "true" } else { "false" });
    whole(StatusCode::OK, "text/html; charset=utf-8", html)
}

pub(super) fn asset(path: &str) -> Option<Answer> {
    let (_, kind, text) = ASSETS.iter().find(|(known, ..)| *known == path)?;
    Some(whole(StatusCode::OK, kind, *text))
}

pub(super) fn text_answer(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    whole(status, "text/plain; charset=utf-8", text)
}

pub(super) fn json_answer(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(json) => whole(StatusCode::OK, "application/json", json),
        Err(_) => text_answer(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the answer cannot be written as JSON",
        ),
    }
}

fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    dressed(status, kind, Full::new(body.into()).boxed_unsync())
}

pub(super) fn dressed(
    status: StatusCode,
    kind: &'static str,
    body: UnsyncBoxBody<Bytes, Infallible>,
) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            header::HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
