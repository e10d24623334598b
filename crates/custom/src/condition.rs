//! Conditions: a controller's statements about an object, for people and programs to wait for.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watchkeeper_meta::Time;

/// An entry of `status.conditions`, as in all Kubernetes kinds.
///
/// The list in the status should have `#[schemars(extend("x-kubernetes-list-type" = "map",
/// "x-kubernetes-list-map-keys" = ["type"]))]`, so that several controllers can each apply their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type: `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status.
    pub status: ConditionStatus,
    /// The reason, one word for programs: `PagesPublished`.
    pub reason: String,
    /// The message, for people.
    #[serde(default)]
    pub message: String,
    /// The `metadata.generation` it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time `status` last changed.
    pub last_transition_time: Time,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Unknown.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        match holds {
            true => Self::True,
            false => Self::False,
        }
    }
}

impl Condition {
    /// A condition with the current time as its last transition.
    pub fn new(
        kind: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: now(),
        }
    }

    /// Sets the message.
    pub fn message(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }

    /// Sets the observed `metadata.generation`.
    pub fn observed(self, generation: Option<i64>) -> Self {
        Self {
            observed_generation: generation,
            ..self
        }
    }
}

/// The current time in whole seconds, as servers write it.
fn now() -> Time {
    let since = watchkeeper_clock::now().duration_since(SystemTime::UNIX_EPOCH);
    Time::from_seconds(since.map_or(0, |since| since.as_secs() as i64))
}

/// Sets a condition in the list, replacing the one of its type. The last transition time is kept if the status is
/// unchanged. Returns true if anything has changed: otherwise there is nothing to write.
///
/// ```
/// use watchkeeper_custom::{Condition, set_condition};
///
/// let mut conditions = Vec::new();
/// let ready = Condition::new("Ready", false, "Publishing").message("3 of 7 pages");
/// assert!(set_condition(&mut conditions, ready.clone()));
/// assert!(!set_condition(&mut conditions, ready));
/// assert!(set_condition(&mut conditions, Condition::new("Ready", true, "Published")));
/// assert_eq!(conditions.len(), 1);
/// ```
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(known) = conditions.iter_mut().find(|known| known.kind == condition.kind) else {
        conditions.push(condition);
        return true;
    };
    if known.status == condition.status {
        condition.last_transition_time = known.last_transition_time;
    }
    let changed = *known != condition;
    *known = condition;
    changed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_condition_is_written_at_the_time_that_a_test_has_moved_to() {
        let before = Condition::new("Ready", true, "Published");
        tokio::time::advance(Duration::from_secs(3600)).await;
        let after = Condition::new("Ready", true, "Published");
        let seconds = |condition: &Condition| condition.last_transition_time.seconds;
        assert_eq!(seconds(&after) - seconds(&before), 3600);
    }

    #[test]
    fn the_time_of_a_transition_is_that_of_the_status() {
        let (early, late) = (Time::default(), now());
        let ready = |status: bool, reason: &str, at: Time| Condition {
            last_transition_time: at,
            ..Condition::new("Ready", status, reason)
        };
        let mut conditions = vec![ready(false, "Waiting", early)];
        assert!(set_condition(&mut conditions, ready(false, "Publishing", late)));
        assert_eq!(conditions, [ready(false, "Publishing", early)]);
        assert!(set_condition(&mut conditions, ready(true, "Published", late)));
        assert_eq!(conditions, [ready(true, "Published", late)]);
        assert!(!set_condition(&mut conditions, ready(true, "Published", early)));
        assert!(set_condition(
            &mut conditions,
            Condition::new("Stalled", false, "Never")
        ));
        assert_eq!(conditions.len(), 2);
    }

    #[test]
    fn a_condition_is_written_as_kubernetes_writes_it() {
        let condition = Condition {
            last_transition_time: "2026-01-02T03:04:05Z".parse().unwrap(),
            ..Condition::new("Ready", true, "Published")
        };
        assert_eq!(
            serde_json::to_value(condition.observed(Some(3))).unwrap(),
            serde_json::json!({
                "type": "Ready", "status": "True", "reason": "Published", "message": "",
                "observedGeneration": 3, "lastTransitionTime": "2026-01-02T03:04:05Z",
            })
        );
    }
}
