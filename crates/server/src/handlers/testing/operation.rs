//! The operations below `/testing/v1/`: method, path and meaning, stated once. Routing and the [OpenAPI
//! document](super::openapi) are both derived from this, so they cannot differ.

use serde_json::{Value, json};

/// An operation of the testing API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Describe,
    ReadClock,
    MoveClock,
    WaitForQuiet,
    ListFaults,
    AddFault,
    ClearFaults,
    RemoveFault,
    ListFired,
    ClearFired,
    SetFlow,
    Compact,
    ListWrites,
    ClearWrites,
    KeepSnapshot,
    RestoreSnapshot,
    ForgetSnapshot,
    Reset,
}

/// The description of an operation.
pub(super) struct Description {
    pub(super) method: &'static str,
    /// Below `/testing/v1/`; `{id}` is a number.
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// The schema of the body, if there is one, and an example that any server accepts.
    pub(super) body: Option<(&'static str, Value)>,
    /// The schema of the answer; `[Name]` is a list.
    pub(super) answer: &'static str,
}

impl Operation {
    pub(super) const ALL: [Self; 18] = [
        Self::Describe,
        Self::ReadClock,
        Self::MoveClock,
        Self::WaitForQuiet,
        Self::ListFaults,
        Self::AddFault,
        Self::ClearFaults,
        Self::RemoveFault,
        Self::ListFired,
        Self::ClearFired,
        Self::SetFlow,
        Self::Compact,
        Self::ListWrites,
        Self::ClearWrites,
        Self::KeepSnapshot,
        Self::RestoreSnapshot,
        Self::ForgetSnapshot,
        Self::Reset,
    ];

    /// The operation of a method and a path below `/testing/v1/`, and the number in the path, if there is one.
    pub(super) fn find<'a>(method: &str, path: &[&'a str]) -> Option<(Self, &'a str)> {
        Self::ALL.into_iter().find_map(|operation| {
            let described = operation.described();
            let number = match_path(described.path, path)?;
            (described.method == method).then_some((operation, number))
        })
    }

    /// The description of the operation.
    pub(super) fn described(self) -> Description {
        let (method, path, id, summary, answer) = self.words();
        Description {
            method,
            path,
            id,
            summary,
            body: self.body(),
            answer,
        }
    }

    /// Method, path, name, summary and answer.
    #[rustfmt::skip]
    const fn words(self) -> (&'static str, &'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Describe => ("GET", "openapi.json", "describe", "This document", "Document"),
            Self::ReadClock => ("GET", "clock", "readClock", "The time of the server", "Clock"),
            Self::MoveClock => ("POST", "clock", "moveClock", "Moves the clock forward, freezes it, or lets it run", "Clock"),
            Self::WaitForQuiet => ("POST", "idle", "waitForQuiet", "Waits until no request is open and nothing happens for a while; watches may stay open", "Done"),
            Self::ListFaults => ("GET", "faults", "listFaults", "The active faults", "[PlannedFault]"),
            Self::AddFault => ("POST", "faults", "addFault", "Adds a fault", "FaultId"),
            Self::ClearFaults => ("DELETE", "faults", "clearFaults", "Removes all faults, and lets streams and connections run", "Done"),
            Self::RemoveFault => ("DELETE", "faults/{id}", "removeFault", "Removes a fault", "Done"),
            Self::ListFired => ("GET", "fired", "listFired", "The injected faults", "[Fired]"),
            Self::ClearFired => ("DELETE", "fired", "clearFired", "Clears the record of faults", "Done"),
            Self::SetFlow => ("POST", "streams", "setFlow", "Changes the flow of open watches", "Streams"),
            Self::Compact => ("POST", "compact", "compact", "Compacts all history", "Done"),
            Self::ListWrites => ("GET", "writes", "listWrites", "The log of writes", "[Write]"),
            Self::ClearWrites => ("DELETE", "writes", "clearWrites", "Clears the log of writes", "Done"),
            Self::KeepSnapshot => ("POST", "snapshots", "keepSnapshot", "Takes a snapshot of all objects", "Snapshot"),
            Self::RestoreSnapshot => ("POST", "snapshots/{id}", "restoreSnapshot", "Restores a snapshot; watches see the difference", "Restored"),
            Self::ForgetSnapshot => ("DELETE", "snapshots/{id}", "forgetSnapshot", "Deletes a snapshot", "Done"),
            Self::Reset => ("POST", "reset", "reset", "Restores the initial state; clears faults, record and log", "Restored"),
        }
    }

    fn body(self) -> Option<(&'static str, Value)> {
        let fault = || {
            json!({
                "request": {"verb": "create", "resource": "pods"},
                "nth": 2,
                "times": 1,
                "action": {"cut": "beforeAnswer"},
            })
        };
        match self {
            Self::MoveClock => Some(("ClockChange", json!({"advance": "10m"}))),
            Self::WaitForQuiet => Some(("Quiet", json!({"quiet": "50ms", "timeout": "30s"}))),
            Self::AddFault => Some(("Fault", fault())),
            Self::SetFlow => Some((
                "StreamsChange",
                json!({"request": {"resource": "pods"}, "flow": "stalled"}),
            )),
            _ => None,
        }
    }
}

/// The number in a path that matches a template, empty if the template has none; `None` if it does not match.
fn match_path<'a>(template: &str, path: &[&'a str]) -> Option<&'a str> {
    let mut number = "";
    let mut parts = path.iter();
    for wanted in template.split('/') {
        let part = parts.next()?;
        match wanted {
            "{id}" => number = part,
            wanted if wanted == *part => {}
            _ => return None,
        }
    }
    parts.next().is_none().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_method_and_path() {
        for operation in Operation::ALL {
            let described = operation.described();
            let path = described.path.replace("{id}", "7");
            let path: Vec<&str> = path.split('/').collect();
            let number = if described.path.contains("{id}") { "7" } else { "" };
            assert_eq!(
                Operation::find(described.method, &path),
                Some((operation, number))
            );
        }
        assert_eq!(Operation::find("PUT", &["clock"]), None);
        assert_eq!(Operation::find("GET", &["clock", "7"]), None);
        assert_eq!(Operation::find("GET", &[]), None);
    }
}
