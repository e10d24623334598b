//! One line per request at `-v=3`, as kube-apiserver's: what was asked, by which program, what came of it and how long that
//! took. A watch has its line when its stream begins.

use std::fmt::{self, Write as _};

use http::StatusCode;

use crate::filter::Call;

/// The verbosity from which on requests are logged, as kube-apiserver.
const VERBOSITY: i32 = 3;

/// Written only if the line is.
struct UpperCase<'a>(&'a str);

impl fmt::Display for UpperCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .chars()
            .try_for_each(|letter| f.write_char(letter.to_ascii_uppercase()))
    }
}

/// Logs a request that is answered.
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
