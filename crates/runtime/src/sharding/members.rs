//! The replicas of a sharded controller and the assignment of shards to them, without a server or a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use watchkeeper_meta::{Time, shard_hash};
use watchkeeper_wire::Object;

use super::{SHARDS_ANNOTATION, ShardOptions};

/// A dead replica's Lease is deleted after this many durations.
const LONG_DEAD: u32 = 20;

/// The replicas as observed here: clocks need not agree.
pub(super) struct Members {
    options: Arc<ShardOptions>,
    seen: BTreeMap<String, Member>,
}

/// A replica's Lease.
struct Member {
    lease: Object,
    identity: String,
    shards: u32,
    acquired: String,
    renewed: String,
    duration: Duration,
    /// The time this renewal was first observed.
    since: Instant,
}

impl Members {
    pub(super) fn new(options: Arc<ShardOptions>) -> Self {
        Self {
            options,
            seen: BTreeMap::new(),
        }
    }

    /// Takes all Leases of replicas as they are now. An unchanged one keeps the time it was first observed.
    pub(super) fn observe(&mut self, leases: &[Object], now: Instant) {
        let mut before = std::mem::take(&mut self.seen);
        for lease in leases {
            let mut member = Member::read(lease, &self.options, now);
            if let Some(known) = before
                .remove(lease.uid())
                .filter(|known| known.renewed == member.renewed)
            {
                member.since = known.since;
            }
            self.seen.insert(lease.uid().to_owned(), member);
        }
    }

    /// The shards of this replica.
    pub(super) fn mine(&self, now: Instant) -> BTreeSet<u32> {
        let live: Vec<&Member> = self.seen.values().filter(|member| member.is_live(now)).collect();
        // All replicas that see the same Leases agree on the number of shards: that of the oldest replica.
        let oldest = live
            .iter()
            .min_by_key(|member| (&member.acquired, &member.identity));
        if oldest.is_none_or(|oldest| oldest.shards != self.options.shards) {
            return BTreeSet::new();
        }
        let same = live.iter().filter(|member| member.shards == self.options.shards);
        let replicas = same.map(|member| &*member.identity).collect();
        let assigned = assignment(&replicas, self.options.shards);
        let mine = (0..)
            .zip(assigned)
            .filter(|(_, replica)| *replica == self.options.identity);
        mine.map(|(shard, _)| shard).collect()
    }

    /// The Leases of replicas that have been dead for long.
    pub(super) fn long_dead(&self, now: Instant) -> Vec<Object> {
        let dead =
            |member: &&Member| now.saturating_duration_since(member.since) >= member.duration * LONG_DEAD;
        self.seen
            .values()
            .filter(dead)
            .map(|member| member.lease.clone())
            .collect()
    }
}

impl Member {
    fn read(lease: &Object, options: &ShardOptions, now: Instant) -> Self {
        let value = lease.to_value().unwrap_or_default();
        let text = |path: &str| {
            value
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let seconds = value
            .pointer("/spec/leaseDurationSeconds")
            .and_then(Value::as_u64);
        // A day is far more than anybody waits, and far less than a duration can overflow with.
        let seconds = seconds.map(|seconds| Duration::from_secs(seconds.clamp(1, 86_400)));
        Self {
            identity: text("/spec/holderIdentity"),
            shards: lease
                .annotation(SHARDS_ANNOTATION)
                .and_then(|shards| shards.parse().ok())
                .unwrap_or_default(),
            acquired: text("/spec/acquireTime"),
            renewed: text("/spec/renewTime"),
            duration: seconds.unwrap_or(options.lease_duration),
            since: now,
            lease: lease.clone(),
        }
    }

    fn is_live(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < self.duration
    }
}

/// The time to write into a Lease.
pub(super) fn wall_clock() -> String {
    Time::from(watchkeeper_clock::now()).to_rfc3339_micro()
}

/// The replica of each shard; empty if there are no replicas. All have equally many shards, or one more.
///
/// Each shard goes to the replica with the largest hash of both, among those that have not yet their share
/// (rendezvous hashing with bounded loads), so few shards move when a replica comes or goes.
pub fn assignment<'a>(replicas: &BTreeSet<&'a str>, shards: u32) -> Vec<&'a str> {
    if replicas.is_empty() {
        return Vec::new();
    }
    let least = shards as usize / replicas.len();
    let mut one_more = shards as usize % replicas.len();
    let mut loads: BTreeMap<&str, usize> = replicas.iter().map(|replica| (*replica, 0)).collect();
    let mut pick = |shard: u32| {
        let has_room = |replica: &&&str| {
            let load = loads[**replica];
            load < least || load == least && one_more > 0
        };
        let weight = |replica: &&&str| mixed(shard_hash(&format!("{replica}/{shard}")));
        let replica = *replicas.iter().filter(has_room).max_by_key(weight)?;
        let load = loads.get_mut(replica)?;
        *load += 1;
        if *load > least {
            one_more -= 1;
        }
        Some(replica)
    };
    (0..shards).filter_map(&mut pick).collect()
}

/// FNV's upper bits hardly depend on the last bytes; these rounds spread them (the finalizer of SplitMix64).
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests;
