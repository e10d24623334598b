//! The content of a lease and the decisions that follow from it, without a server or a clock.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_meta::Time;
use watchkeeper_wire::Object;

use super::LeaderOptions;

/// A lease as read: the whole object, so that a write keeps fields of others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LeaseRecord {
    lease: Value,
}

/// A lease and the time its content was first observed.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) record: LeaseRecord,
    since: Instant,
}

/// The action for a lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// Wait: another holds it.
    Wait,
    /// Create: there is none.
    Create(Value),
    /// Update: it is ours, free or expired.
    Update(Value),
}

impl LeaseRecord {
    pub(super) fn read(lease: &Object) -> Self {
        // A lease that cannot be decoded counts as free; writing it back will show the error.
        let lease = lease.to_value().unwrap_or_default();
        Self { lease }
    }

    /// Its holder.
    pub(super) fn holder(&self) -> Option<&str> {
        self.lease["spec"]["holderIdentity"]
            .as_str()
            .filter(|holder| !holder.is_empty())
    }

    /// The duration its holder asks for.
    fn duration(&self) -> Option<Duration> {
        self.lease["spec"]["leaseDurationSeconds"]
            .as_u64()
            .map(Duration::from_secs)
    }

    fn transitions(&self) -> i64 {
        self.lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0)
    }

    /// The lease without a holder.
    pub(super) fn released(&self, now: Time) -> Value {
        let mut lease = self.lease.clone();
        lease["spec"] = json!({
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now.to_rfc3339_micro(),
            "renewTime": now.to_rfc3339_micro(),
            "leaseTransitions": self.transitions(),
        });
        lease
    }
}

impl Observed {
    /// Updates the observation: an unchanged lease keeps the time it was first observed. Only the holder's fields
    /// count; a label does not renew it.
    pub(super) fn next(before: Option<Self>, record: LeaseRecord, now: Instant) -> Self {
        let same = before.filter(|before| before.record.lease["spec"] == record.lease["spec"]);
        let since = same.map_or(now, |before| before.since);
        Self { record, since }
    }
}

/// Decides from the observation. `wall` is only written, never compared.
pub(super) fn decide(
    observed: Option<&Observed>,
    options: &LeaderOptions,
    now: Instant,
    wall: Time,
) -> Decision {
    let Some(observed) = observed else {
        return Decision::Create(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": options.lease},
            "spec": spec(options, wall, &wall.to_rfc3339_micro(), 0),
        }));
    };
    let record = &observed.record;
    let mine = record.holder() == Some(&options.identity);
    // The duration in the lease counts, not the one configured here: the holder relies on it.
    let duration = record.duration().unwrap_or(options.lease_duration);
    let end = observed.since.checked_add(duration);
    let respected = end.is_none_or(|end| end > now);
    if record.holder().is_some() && !mine && respected {
        return Decision::Wait;
    }
    let acquired = match (mine, record.lease["spec"]["acquireTime"].as_str()) {
        (true, Some(acquired)) => acquired.to_owned(),
        _ => wall.to_rfc3339_micro(),
    };
    let transitions = record.transitions() + i64::from(!mine);
    let mut lease = record.lease.clone();
    lease["spec"] = spec(options, wall, &acquired, transitions);
    Decision::Update(lease)
}

fn spec(options: &LeaderOptions, now: Time, acquired: &str, transitions: i64) -> Value {
    json!({
        "holderIdentity": options.identity,
        "leaseDurationSeconds": whole_seconds(options.lease_duration),
        "acquireTime": acquired,
        "renewTime": now.to_rfc3339_micro(),
        "leaseTransitions": transitions,
    })
}

/// Rounded up: others must not see the lease expire early.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, renewed: &str, transitions: i64) -> LeaseRecord {
        LeaseRecord {
            lease: json!({
                "metadata": {"name": "l", "resourceVersion": "7"},
                "spec": {"holderIdentity": holder, "acquireTime": "then", "renewTime": renewed, "leaseTransitions": transitions},
            }),
        }
    }

    fn check(observed: Option<&Observed>, after: u64) -> Decision {
        let now = observed.map_or_else(Instant::now, |observed| observed.since) + Duration::from_secs(after);
        decide(
            observed,
            &LeaderOptions::new("l", "me"),
            now,
            Time::from_seconds(0),
        )
    }

    fn observed(record: LeaseRecord) -> Observed {
        Observed::next(None, record, Instant::now())
    }

    fn written(decision: Decision) -> Value {
        match decision {
            Decision::Update(lease) | Decision::Create(lease) => lease["spec"].clone(),
            Decision::Wait => panic!("waits"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_does_not_exist_is_created() {
        let spec = written(check(None, 0));
        assert_eq!(
            (
                spec["holderIdentity"].as_str(),
                spec["leaseDurationSeconds"].as_i64()
            ),
            (Some("me"), Some(15))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn anothers_lease_is_respected_for_its_duration_as_seen_here() {
        let theirs = observed(lease("other", "a", 3));
        assert_eq!(check(Some(&theirs), 14), Decision::Wait);
        let spec = written(check(Some(&theirs), 15));
        assert_eq!(
            (spec["holderIdentity"].as_str(), spec["leaseTransitions"].as_i64()),
            (Some("me"), Some(4))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn anothers_lease_is_respected_for_as_long_as_its_holder_has_promised() {
        let mut long = lease("other", "a", 3);
        long.lease["spec"]["leaseDurationSeconds"] = json!(60);
        let long = observed(long);
        assert_eq!(check(Some(&long), 59), Decision::Wait);
        assert!(matches!(check(Some(&long), 60), Decision::Update(_)));
        let mut odd = lease("other", "a", 3);
        odd.lease["spec"]["leaseDurationSeconds"] = json!(u64::MAX);
        assert_eq!(check(Some(&observed(odd)), 60), Decision::Wait);
    }

    #[test]
    fn a_lease_is_never_written_shorter_than_it_is() {
        let seconds = [0.5, 1.0, 15.0, 15.001].map(|seconds| whole_seconds(Duration::from_secs_f64(seconds)));
        assert_eq!(seconds, [1, 1, 15, 16]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_label_on_the_lease_renews_nothing() {
        let start = Instant::now();
        let first = Observed::next(None, lease("other", "a", 0), start);
        let mut labelled = lease("other", "a", 0);
        labelled.lease["metadata"]["labels"] = json!({"seen": "yes"});
        let same = Observed::next(Some(first), labelled.clone(), start + Duration::from_secs(10));
        assert_eq!((same.since, same.record), (start, labelled));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_seen_later_begins_a_new_duration() {
        let start = Instant::now();
        let first = Observed::next(None, lease("other", "a", 0), start);
        let same = Observed::next(
            Some(first),
            lease("other", "a", 0),
            start + Duration::from_secs(10),
        );
        assert_eq!(same.since, start);
        let renewed = Observed::next(
            Some(same),
            lease("other", "b", 0),
            start + Duration::from_secs(12),
        );
        assert_eq!(check(Some(&renewed), 14), Decision::Wait);
    }

    #[tokio::test(start_paused = true)]
    async fn ones_own_lease_is_renewed_and_keeps_its_beginning() {
        let spec = written(check(Some(&observed(lease("me", "a", 3))), 1));
        assert_eq!(
            (spec["acquireTime"].as_str(), spec["leaseTransitions"].as_i64()),
            (Some("then"), Some(3))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_lease_is_free_at_once() {
        let record = lease("me", "a", 3);
        let released = LeaseRecord {
            lease: record.released(Time::from_seconds(0)),
        };
        assert_eq!(released.holder(), None);
        assert!(matches!(check(Some(&observed(released)), 0), Decision::Update(_)));
    }
}
