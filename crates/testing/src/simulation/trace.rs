//! The trace of a run, a line per step: writes with their versions, faults and crashes.
//!
//! ```text
//!      0.001s user      create Task default/a: created (version 40)
//!      0.002s runner#1  create Pod default/a-x7k2p: created (version 41)
//!      0.002s runner#1  never hears of it
//! ```

use std::fmt;

use tokio::time::Instant;
use watchkeeper_server::{Action, Fired, Outcome, Write};

/// The number of last lines in a report.
const SHOWN: usize = 200;

/// The lines of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(Vec<String>);

impl Trace {
    /// The lines, oldest first.
    pub fn lines(&self) -> &[String] {
        &self.0
    }

    pub(super) fn push(&mut self, since: Instant, who: &str, what: impl fmt::Display) {
        let at = since.elapsed().as_secs_f64();
        self.0.push(format!("{at:>10.3}s {who:<14} {what}"));
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.0.len().saturating_sub(SHOWN);
        if hidden > 0 {
            writeln!(f, "… {hidden} lines before")?;
        }
        self.0[hidden..].iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// A write with its versions.
pub(super) fn write_line(write: &Write) -> String {
    let text = write.to_string();
    let what = text.strip_prefix(&write.user).unwrap_or(&text).trim_start();
    match (write.previous, write.revision) {
        (Some(from), Some(to)) => format!("{what} (version {from} → {to})"),
        (None, Some(to)) => format!("{what} (version {to})"),
        _ => what.to_owned(),
    }
}

/// A fault that happened to a request or an event.
pub(super) fn fault_line(fired: &Fired) -> String {
    let what = match &fired.action {
        Action::Fail(status) => format!("is answered {}", status.code),
        Action::Cut(_) => "is never handled: the connection breaks".to_owned(),
        Action::Delay(by) => format!("is handled {by:?} late"),
        Action::DelayEvent(by) => format!("gets its next event {by:?} late"),
        Action::Flow(flow) => format!("is {flow:?}").to_lowercase(),
        Action::Stale(at) => format!("reads the past: {at:?}"),
        other => format!("{other:?}"),
    };
    match fired.object.as_str() {
        "" => format!("{} {} {what}", fired.verb, fired.path),
        object => format!("{} {} {what}, at {object}", fired.verb, fired.path),
    }
}

/// True if the renewal of a lease changes its holder.
pub(super) fn changes_holder(write: &Write) -> bool {
    match &write.outcome {
        Outcome::Created(_) | Outcome::Deleted(_) => true,
        Outcome::Changed(fields) => fields.iter().any(|field| field.path == "spec.holderIdentity"),
        Outcome::Unchanged => false,
    }
}
