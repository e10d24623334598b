//! What can be asked for below `/testing/v1/`: method, path and meaning of each operation, once. Requests are told apart
//! by it and the [OpenAPI document](super::openapi) is made of it, so neither has what the other has not.

use serde_json::{Value, json};

/// One thing that a test can ask for.
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

/// What an operation is called, wants and answers.
pub(super) struct Description {
    pub(super) method: &'static str,
    /// Below `/testing/v1/`; `{id}` stands for a number.
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// The schema of the body, if one is read, and a body that can be sent to any server.
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

    /// The operation behind a method and a path below `/testing/v1/`, and the number in the path, if there is one.
    pub(super) fn find<'a>(method: &str, path: &[&'a str]) -> Option<(Self, &'a str)> {
        Self::ALL.into_iter().find_map(|operation| {
            let described = operation.described();
            let number = match_path(described.path, path)?;
            (described.method == method).then_some((operation, number))
        })
    }

    /// What the operation is called, wants and answers.
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
            Self::ListFaults => ("GET", "faults", "listFaults", "The faults that are planned", "[PlannedFault]"),
            Self::AddFault => ("POST", "faults", "addFault", "Plans a fault", "FaultId"),
            Self::ClearFaults => ("DELETE", "faults", "clearFaults", "Takes all faults back, and lets streams and connections flow", "Done"),
            Self::RemoveFault => ("DELETE", "faults/{id}", "removeFault", "Takes a fault back", "Done"),
            Self::ListFired => ("GET", "fired", "listFired", "The faults that have happened", "[Fired]"),
            Self::ClearFired => ("DELETE", "fired", "clearFired", "Begins the record of faults anew", "Done"),
            Self::SetFlow => ("POST", "streams", "setFlow", "Changes how open watches flow", "Streams"),
            Self::Compact => ("POST", "compact", "compact", "Forgets all history", "Done"),
            Self::ListWrites => ("GET", "writes", "listWrites", "Who has written what", "[Write]"),
            Self::ClearWrites => ("DELETE", "writes", "clearWrites", "Begins the log of writes anew", "Done"),
            Self::KeepSnapshot => ("POST", "snapshots", "keepSnapshot", "Keeps all objects as they are", "Snapshot"),
            Self::RestoreSnapshot => ("POST", "snapshots/{id}", "restoreSnapshot", "Puts back what a snapshot holds; watches see the difference", "Restored"),
            Self::ForgetSnapshot => ("DELETE", "snapshots/{id}", "forgetSnapshot", "Forgets a snapshot", "Done"),
            Self::Reset => ("POST", "reset", "reset", "Puts back what the server began with; faults, record and log begin anew", "Restored"),
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

/// The number in a path that a template describes, empty if the template has none; `None` if it does not.
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
