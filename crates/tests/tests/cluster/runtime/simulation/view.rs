//! The events of one subscriber: checks and accumulates them.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use watchkeeper_runtime::delta::{Cause, Delta};
use watchkeeper_runtime::informer::{Informer, Notice, Resync, SubscribeOptions, Subscription};

use super::{TRANSFORMED, Versions};
use crate::runtime::support::IN_THE_END;

/// More events than any catch-up has, resyncs included.
const MANY: usize = 10_000;

pub(super) struct View {
    subscription: Subscription,
    /// True if objects are transformed before delivery.
    transformed: bool,
    seen: Versions,
}

impl View {
    pub(super) fn new(informer: &Informer, capacity: usize, transformed: bool, rng: &mut Rng) -> Self {
        let options = SubscribeOptions {
            capacity,
            resync: match rng.bool() {
                true => Resync::Every(Duration::from_secs(rng.u64(1..60))),
                false => Resync::Inherited,
            },
            split_recreated: rng.bool(),
            ..Default::default()
        };
        Self {
            subscription: informer.subscribe(options),
            transformed,
            seen: Versions::new(),
        }
    }

    /// Takes the available events.
    pub(super) async fn look(&mut self, deleted: &BTreeSet<String>) {
        while tokio::time::timeout(Duration::ZERO, self.take(deleted))
            .await
            .is_ok()
        {}
    }

    /// Takes events until they add up to the truth, in bounded time, and checks that they stay there.
    pub(super) async fn reaches(&mut self, truth: &Versions, deleted: &BTreeSet<String>) {
        for _ in 0..MANY {
            if self.seen == *truth {
                self.look(deleted).await;
                assert_eq!(self.seen, *truth, "was right, and then no more");
                return;
            }
            let more = tokio::time::timeout(IN_THE_END, self.take(deleted)).await;
            assert!(more.is_ok(), "stays at {:?} instead of {truth:?}", self.seen);
        }
        panic!(
            "is told without end and does not reach {truth:?}: {:?}",
            self.seen
        );
    }

    async fn take(&mut self, deleted: &BTreeSet<String>) {
        let Some(Notice::Change(delta)) = self.subscription.next().await else {
            return;
        };
        let marks = delta
            .object()
            .annotation(TRANSFORMED)
            .map_or(0, |marks| marks.len());
        assert_eq!(
            marks,
            usize::from(self.transformed),
            "transformed once: {delta:?}"
        );
        let key = delta.key().to_string();
        let version = delta.object().resource_version().to_owned();
        match delta {
            Delta::Added { .. } => assert_eq!(self.seen.insert(key, version), None, "added what was there"),
            Delta::Updated { old, cause, .. } => {
                let again = cause == Cause::Resync && version == old.resource_version();
                assert_eq!(again, cause == Cause::Resync, "a resync tells no news");
                let before = self.seen.insert(key, version);
                assert_eq!(
                    before.as_deref(),
                    Some(old.resource_version()),
                    "updated from another state"
                );
            }
            Delta::Deleted { .. } => {
                assert!(deleted.contains(&key), "{key} was never deleted");
                assert!(self.seen.remove(&key).is_some(), "deleted what was not there");
            }
        }
    }
}
