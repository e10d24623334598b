//! Logs requests by verbosity, with client-go's texts.
//!
//! Events carry their level in the field `v` and are emitted only if the client's verbosity includes it:
//!
//! | level | shows |
//! |---|---|
//! | 6 | method, URL, status, time |
//! | 7 | request headers |
//! | 8 | response headers, the first 1 KiB of bodies |
//! | 9 | a curl line, name look-up, dial and TLS times, 10 KiB of bodies |
//! | 10 | whole bodies |
//!
//! Of `Authorization` only the scheme is shown.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use tokio::time::Instant;
use watchkeeper_meta::error_chain;

use crate::transport::{Body, Obtained, Opening, TransportError};

/// The limit of a "whole" body: lists are shown, endless watches do not fill the memory.
const WHOLE_BODY: usize = 16 << 20;

/// The log of one request.
pub(crate) struct Trace {
    verbosity: u8,
    line: String,
    url: String,
    begun: Instant,
}

macro_rules! log {
    ($level:literal, $($text:tt)*) => {
        tracing::info!(v = $level, $($text)*)
    };
}

impl Trace {
    /// Formats nothing if nothing is shown.
    pub(crate) fn begin(verbosity: u8, request: &Request<Bytes>, url: impl FnOnce() -> String) -> Self {
        let (mut line, mut shown_url) = (String::new(), String::new());
        if verbosity >= 6 {
            shown_url = url();
            line = format!("{} {shown_url}", request.method());
        }
        let (url, body) = (shown_url, request.body());
        let trace = Self {
            verbosity,
            line,
            url,
            begun: Instant::now(),
        };
        if verbosity >= 9 {
            log!(9, "{}", curl(request, &trace.url));
        }
        if (7..9).contains(&verbosity) {
            log!(7, "{}", trace.line);
            log!(7, "Request Headers:");
            for (name, value) in request.headers() {
                log!(7, "    {}", shown(name, value));
            }
        }
        if verbosity >= 8 && !body.is_empty() {
            let start = &body[..body.len().min(body_limit(verbosity))];
            log!(8, "Request Body: {}", excerpt(start, body.len()));
        }
        trace
    }

    pub(crate) fn failed(&self, error: &TransportError) {
        if self.verbosity >= 6 {
            let milliseconds = self.begun.elapsed().as_millis();
            log!(
                6,
                "{} failed in {milliseconds} milliseconds: {}",
                self.line,
                error_chain(error)
            );
        }
    }

    pub(crate) fn answered(&self, response: &mut Response<Body>, obtained: Option<&Obtained>) {
        if self.verbosity < 6 {
            return;
        }
        let duration = self.begun.elapsed();
        if self.verbosity >= 9
            && let Some(Obtained::Opened(opening)) = obtained
        {
            self.show_opening(opening);
        }
        log!(
            6,
            "{} {} in {} milliseconds",
            self.line,
            response.status(),
            duration.as_millis()
        );
        if self.verbosity >= 9 {
            log!(9, "HTTP Statistics: {}", statistics(obtained, duration));
        }
        if self.verbosity >= 8 {
            show_headers(response.headers());
            let limit = body_limit(self.verbosity);
            response.body_mut().tap(limit, |seen, length| {
                log!(8, "Response Body: {}", excerpt(seen, length))
            });
        }
    }

    /// In-process connections have no address.
    fn show_opening(&self, opening: &Opening) {
        let Some(peer) = opening.peer else { return };
        let host = self.url.split('/').nth(2).unwrap_or_default();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let addresses: Vec<String> = opening.addresses.iter().map(|ip| format!("{{{ip} }}")).collect();
        log!(
            9,
            "HTTP Trace: DNS Lookup for {name} resolved to [{}]",
            addresses.join(" ")
        );
        log!(9, "HTTP Trace: Dial to tcp:{peer} succeed");
    }
}

/// The timings: opening a connection or waiting for one, then the server.
fn statistics(obtained: Option<&Obtained>, duration: Duration) -> String {
    let (words, connecting) = match obtained {
        Some(Obtained::Reused(waited)) => (format!("GetConnection {} ms", waited.as_millis()), *waited),
        Some(Obtained::Opened(Opening {
            look_up, dial, tls, ..
        })) => {
            let (a, b, c) = (look_up.as_millis(), dial.as_millis(), tls.as_millis());
            let words = format!("DNSLookup {a} ms Dial {b} ms TLSHandshake {c} ms");
            (words, *look_up + *dial + *tls)
        }
        None => (String::new(), Duration::ZERO),
    };
    let server = duration.saturating_sub(connecting).as_millis();
    format!(
        "{words} ServerProcessing {server} ms Duration {} ms",
        duration.as_millis()
    )
}

fn show_headers(headers: &HeaderMap) {
    log!(8, "Response Headers:");
    for (name, value) in headers {
        log!(8, "    {}", shown(name, value));
    }
}

/// A command that repeats the request, once the token is filled in.
fn curl<B>(request: &Request<B>, url: &str) -> String {
    let mut line = format!("curl -v -X{} ", request.method());
    for (name, value) in request.headers() {
        line.push_str(&format!(" -H \"{}\"", shown(name, value).replace('"', "\\\"")));
    }
    line.push_str(&format!(" '{url}'"));
    line
}

/// `Content-Type: application/json`, secrets masked.
fn shown(name: &HeaderName, value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    let text = match *name {
        header::AUTHORIZATION | header::PROXY_AUTHORIZATION => {
            let scheme = text.split_ascii_whitespace().next().unwrap_or_default();
            format!("{scheme} <masked>")
        }
        header::COOKIE | header::SET_COOKIE => "<masked>".to_owned(),
        _ if value.is_sensitive() => "<masked>".to_owned(),
        _ => text.into_owned(),
    };
    format!("{}: {text}", title_case(name.as_str()))
}

/// `user-agent` → `User-Agent`, as Go prints it.
fn title_case(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| {
            first.to_ascii_uppercase().to_string() + letters.as_str()
        })
    };
    name.split('-').map(capital).collect::<Vec<_>>().join("-")
}

fn body_limit(verbosity: u8) -> usize {
    match verbosity {
        ..9 => 1 << 10,
        9 => 10 << 10,
        _ => WHOLE_BODY,
    }
}

/// The start of a body of `length` bytes: text as it is, anything else in hexadecimal.
fn excerpt(start: &[u8], length: usize) -> String {
    let mut text = match std::str::from_utf8(start) {
        Ok(text) => text.to_owned(),
        // Text cut within a character is still text.
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&start[..error.valid_up_to()]).into()
        }
        Err(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if start.len() < length {
        text.push_str(&format!(" [truncated {} bytes]", length - start.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curl_line_masks_the_token() {
        let request = Request::get("/version")
            .header("accept", "application/json, */*")
            .header("authorization", "Bearer hunter2")
            .body(())
            .unwrap();
        assert_eq!(
            curl(&request, "https://kube:6443/version"),
            "curl -v -XGET  -H \"Accept: application/json, */*\" -H \"Authorization: Bearer <masked>\" \
             'https://kube:6443/version'"
        );
    }

    #[test]
    fn statistics_tell_a_new_connection_from_a_used_one() {
        let ms = Duration::from_millis;
        let opened = Obtained::Opened(Opening {
            look_up: ms(7),
            dial: ms(1),
            tls: ms(8),
            ..Default::default()
        });
        assert_eq!(
            statistics(Some(&opened), ms(18)),
            "DNSLookup 7 ms Dial 1 ms TLSHandshake 8 ms ServerProcessing 2 ms Duration 18 ms"
        );
        assert_eq!(
            statistics(Some(&Obtained::Reused(ms(0))), ms(3)),
            "GetConnection 0 ms ServerProcessing 3 ms Duration 3 ms"
        );
    }

    #[test]
    fn bodies_are_shown_in_part() {
        assert_eq!(excerpt(b"hello", 11), "hello [truncated 6 bytes]");
        assert_eq!(excerpt(&"ä".as_bytes()[..1], 2), " [truncated 1 bytes]");
        assert_eq!(excerpt(b"k8s\0\xff", 5), "6b387300ff");
    }
}
