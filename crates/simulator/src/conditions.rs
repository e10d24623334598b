//! Conditions in a status: one of each type, with its last transition time.

use serde_json::{Value, json};

use crate::time;

/// The condition of replica sets and deployments whose pods cannot be created or deleted.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// A condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    /// `None` if it is unknown.
    pub(crate) holds: Option<bool>,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

#[cfg(test)]
impl<'a> Condition<'a> {
    /// A condition without reason and message.
    fn plain(kind: &'a str, holds: bool) -> Self {
        Self {
            kind,
            holds: Some(holds),
            reason: "",
            message: "",
        }
    }
}

/// The conditions with this one set. It keeps the last transition time if the status is unchanged, and the whole
/// entry if nothing has changed.
pub(crate) fn with(conditions: &[Value], new: Condition<'_>) -> Vec<Value> {
    let mut all = conditions.to_vec();
    match all.iter_mut().find(|known| known["type"] == new.kind) {
        Some(known) => update(known, new),
        None => {
            let mut first = json!({"type": new.kind});
            update(&mut first, new);
            all.push(first);
        }
    }
    all
}

fn update(condition: &mut Value, new: Condition<'_>) {
    let status = match new.holds {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    if condition["status"] != status {
        condition["status"] = json!(status);
        condition["lastTransitionTime"] = json!(time::timestamp());
    }
    for (name, text) in [("reason", new.reason), ("message", new.message)] {
        match (text, condition.as_object_mut()) {
            ("", Some(fields)) => drop(fields.remove(name)),
            _ => condition[name] = json!(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_answer_is_the_same() {
        let before =
            [json!({"type": "Ready", "status": "True", "lastTransitionTime": "2008-01-01T01:01:01Z"})];
        let same = with(&before, Condition::plain("Ready", true));
        assert_eq!(same, before);
        let other = with(&before, Condition::plain("Ready", false));
        assert_ne!(other[0]["lastTransitionTime"], before[0]["lastTransitionTime"]);
        let two = with(&before, Condition::plain("Initialized", true));
        assert_eq!(two.len(), 2);
    }
}
