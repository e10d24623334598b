//! The time limit of a request: `?timeout=` as a Go duration, at most [`MAX_REQUEST_TIMEOUT`].

use std::time::Duration;

use watchkeeper_meta::Status;
use watchkeeper_wire::values::{self, ParseDurationError};

use crate::limits::MAX_REQUEST_TIMEOUT;
use crate::request_info::{RequestInfo, query_value};

/// The time limit; `None` for streams, which have their own rules.
pub(crate) fn deadline(info: &RequestInfo, query: &str) -> Result<Option<Duration>, Status> {
    if info.is_long_running() {
        return Ok(None);
    }
    let asked = match query_value(query, "timeout").filter(|text| !text.is_empty()) {
        Some(text) => parse(&text).map_err(|problem| {
            Status::bad_request(format!(
                "invalid timeout specified in the request URL - {problem}"
            ))
        })?,
        None => Duration::ZERO,
    };
    Ok(Some(match asked {
        Duration::ZERO => MAX_REQUEST_TIMEOUT,
        asked => asked.min(MAX_REQUEST_TIMEOUT),
    }))
}

/// Parses a Go duration; negative ones are rejected.
fn parse(text: &str) -> Result<Duration, String> {
    let span: values::Duration = text
        .parse()
        .map_err(|error: ParseDurationError| error.to_string())?;
    span.to_std()
        .ok_or_else(|| "timeout duration can not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    fn check(query: &str, expected: &str) {
        let info = RequestInfo::read(&Method::GET, "/api/v1/pods", query);
        let printed = match deadline(&info, query) {
            Ok(deadline) => format!("{deadline:?}"),
            Err(status) => status.message,
        };
        assert_eq!(printed, expected, "{query}");
    }

    #[test]
    fn timeouts_are_read_and_capped() {
        check("", "Some(60s)");
        check("timeout=0s", "Some(60s)");
        check("timeout=1m30s", "Some(60s)");
        check("timeout=250ms", "Some(250ms)");
        check("timeout=1.5s", "Some(1.5s)");
        check("timeout=x&watch=1", "None");
        let prefix = "invalid timeout specified in the request URL - ";
        check("timeout=abc", &format!("{prefix}time: invalid duration \"abc\""));
        check(
            "timeout=5",
            &format!("{prefix}time: missing unit in duration \"5\""),
        );
        check(
            "timeout=5x",
            &format!("{prefix}time: unknown unit \"x\" in duration \"5x\""),
        );
        check(
            "timeout=-5s",
            &format!("{prefix}timeout duration can not be negative"),
        );
    }
}
