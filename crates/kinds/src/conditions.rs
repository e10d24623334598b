//! Conditions in a status that the server itself writes.

use serde_json::{Value, json};

/// A condition, without its time.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// The type, unique within a status.
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// The reason, for programs.
    pub reason: &'a str,
    /// The message, for people.
    pub message: &'a str,
}

impl Condition<'_> {
    /// The status with this condition. `lastTransitionTime` changes only with the condition's status.
    pub fn added_to(&self, status: &Value, now: &str) -> Value {
        let mut status = status.clone();
        if !status["conditions"].is_array() {
            status["conditions"] = json!([]);
        }
        if let Value::Array(conditions) = &mut status["conditions"] {
            match conditions.iter_mut().find(|known| known["type"] == self.kind) {
                Some(known) => *known = self.following(Some(known), now),
                None => conditions.push(self.following(None, now)),
            }
        }
        status
    }

    /// The condition after its known state.
    pub fn following(&self, known: Option<&Value>, now: &str) -> Value {
        let same = known.filter(|known| known["status"] == self.status);
        let since = same.map_or_else(|| json!(now), |known| known["lastTransitionTime"].clone());
        json!({
            "type": self.kind,
            "status": self.status,
            "lastTransitionTime": since,
            "reason": self.reason,
            "message": self.message,
        })
    }

    /// True if a condition states the same.
    pub fn equals(&self, known: &Value) -> bool {
        known["status"] == self.status && known["reason"] == self.reason && known["message"] == self.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_is_equal() {
        let condition = |status, message| Condition {
            kind: "A",
            status,
            reason: "R",
            message,
        };
        let once = condition("True", "m").added_to(&json!({}), "1");
        assert_eq!(condition("True", "m").added_to(&once, "2"), once);
        let other = condition("True", "n").added_to(&once, "2");
        assert_eq!(other["conditions"][0]["lastTransitionTime"], "1");
        let turned = condition("False", "m").added_to(&once, "2");
        assert_eq!(turned["conditions"][0]["lastTransitionTime"], "2");
    }
}
