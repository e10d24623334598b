//! How long a request may take: `?timeout=` in Go's notation, at most [`MAX_REQUEST_TIMEOUT`].

use std::time::Duration;

use watchkeeper_meta::Status;

use crate::limits::MAX_REQUEST_TIMEOUT;
use crate::request_info::{RequestInfo, query_value};

/// The time a request gets; `None` for streams, which end by their own rules.
pub(crate) fn deadline(info: &RequestInfo, query: &str) -> Result<Option<Duration>, Status> {
    if info.is_long_running() {
        return Ok(None);
    }
    let asked = match query_value(query, "timeout").filter(|text| !text.is_empty()) {
        Some(text) => parse_go_duration(&text).map_err(|problem| {
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

/// Reads `1h30m`, `1.5s`, `250ms`: what Go's `time.ParseDuration` reads, except that time does not run backwards.
fn parse_go_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.strip_prefix('-').is_some_and(|rest| !rest.is_empty()) {
        return Err("timeout duration can not be negative".to_owned());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|char: char| !char.is_ascii_digit() && char != '.')
            .unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let unit = rest
            .find(|char: char| char.is_ascii_digit() || char == '.')
            .unwrap_or(rest.len());
        if unit == 0 {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        seconds += number * seconds_in(&rest[..unit]).ok_or_else(|| unknown_unit(&rest[..unit], text))?;
        rest = &rest[unit..];
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}

fn unknown_unit(unit: &str, text: &str) -> String {
    format!("time: unknown unit {unit:?} in duration {text:?}")
}

fn seconds_in(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
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
