//! Validation of status counts: none is negative, and none exceeds the number of pods.

use crate::kind::Change;
use crate::rules::place::{Errors, Place};

/// The counts of a kind, in the order in which Kubernetes checks them.
pub(crate) struct Counts {
    /// Counts that must not be negative.
    pub(crate) all: &'static [&'static str],
    /// Counts that must not exceed `replicas`.
    pub(crate) of_replicas: &'static [&'static str],
    /// The name, in error texts, of the count that available pods must not exceed.
    pub(crate) ready: &'static str,
}

impl Counts {
    /// Validates a changed status.
    pub(crate) fn check_change(&self, change: &Change<'_>, errors: &mut Errors) {
        let (status, live) = (change.new.field("status"), change.live.field("status"));
        self.check(&status, errors);
        let (count, before) = (status.field("collisionCount"), live.field("collisionCount"));
        if before.is_set() && count.number() < before.number() {
            errors.push(count.invalid_for(count.number(), "cannot be decremented"));
        }
    }

    fn check(&self, status: &Place<'_, '_>, errors: &mut Errors) {
        for name in self.all {
            status.field(name).must_not_be_negative(errors);
        }
        let replicas = status.field("replicas").number();
        for name in self.of_replicas {
            let count = status.field(name);
            if count.number() > replicas {
                errors.push(count.invalid("cannot be greater than status.replicas"));
            }
        }
        let (available, ready) = (status.field("availableReplicas"), status.field("readyReplicas"));
        if available.number() > ready.number() {
            errors.push(available.invalid(format!("cannot be greater than {}", self.ready)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::rules::place::Place;

    #[test]
    fn counts_do_not_exceed_the_number_of_replicas() {
        let counts = super::Counts {
            all: &["replicas", "readyReplicas", "availableReplicas"],
            of_replicas: &["readyReplicas", "availableReplicas"],
            ready: "readyReplicas",
        };
        for (status, wanted) in [
            (
                json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 1}),
                vec![],
            ),
            (
                json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}),
                vec![
                    "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                    "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                    "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
                ],
            ),
            (
                json!({"replicas": 0, "readyReplicas": -1, "availableReplicas": -1}),
                vec![
                    "status.readyReplicas: Invalid value: -1: must be greater than or equal to 0",
                    "status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
        ] {
            let mut found = watchkeeper_meta::FieldErrors::new();
            let object = json!({"status": status});
            counts.check(&Place::object(&object).field("status"), &mut found);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, wanted, "{status}");
        }
    }
}
