//! Logs one line per request at `-v=3`, as kube-apiserver does: the request, the user agent, the result and the
//! duration. A watch is logged when its stream starts.

use std::fmt::{self, Write as _};

use http::StatusCode;

use crate::filter::Call;

/// The verbosity at which requests are logged, as in kube-apiserver.
const VERBOSITY: i32 = 3;

/// Formatted only if the line is written.
struct UpperCase<'a>(&'a str);

impl fmt::Display for UpperCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .chars()
            .try_for_each(|letter| f.write_char(letter.to_ascii_uppercase()))
    }
}

/// Logs an answered request.
pub(crate) fn note(call: &Call, status: StatusCode) {
    let source = call.source.map(tracing::field::display);
    tracing::info!(
        v = VERBOSITY,
        verb = %UpperCase(&call.info.verb),
        URI = %call.head.uri,
        latency = ?call.began.elapsed(),
        userAgent = call.user_agent(),
        "audit-ID" = call.audit_id.to_str().unwrap_or_default(),
        srcIP = source,
        resp = status.as_u16(),
        "HTTP"
    );
}
