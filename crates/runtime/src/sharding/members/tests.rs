//! The assignment of shards, and replicas that see the same Leases at different times.

use proptest::prelude::*;
use serde_json::json;
use watchkeeper_wire::ObjectOptions;

use super::*;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("replica-{number}")).collect()
}

fn assigned(names: &[String], shards: u32) -> Vec<&str> {
    let replicas = names.iter().map(String::as_str).collect();
    assignment(&replicas, shards)
}

proptest! {
    /// Every shard has exactly one replica, and no replica has two more than another.
    #[test]
    fn every_shard_is_assigned_and_the_work_is_even(count in 1_usize..20, shards in 1_u32..200) {
        let names = names(count);
        let assigned = assigned(&names, shards);
        prop_assert_eq!(assigned.len(), shards as usize);
        let loads = names.iter().map(|name| assigned.iter().filter(|replica| *replica == name).count());
        let (least, most) = loads.fold((usize::MAX, 0), |(least, most), load| (least.min(load), most.max(load)));
        prop_assert!(most - least <= 1, "{least} to {most}");
    }

    /// When a replica ends, its shards move, and few others.
    #[test]
    fn few_shards_move_when_a_replica_ends(count in 2_usize..12, gone in 0_usize..12) {
        let shards = 128;
        let before = names(count);
        let gone = format!("replica-{}", gone % count);
        let after: Vec<String> = before.iter().filter(|name| **name != gone).cloned().collect();
        let (one, two) = (assigned(&before, shards), assigned(&after, shards));
        let moved = one.iter().zip(&two).filter(|(one, two)| one != two).count();
        let own = one.iter().filter(|replica| **replica == gone).count();
        prop_assert!(moved <= own * 3, "{moved} moved, {own} had to");
    }
}

fn options(identity: &str, shards: u32) -> Arc<ShardOptions> {
    Arc::new(ShardOptions::new("test", identity, shards))
}

fn lease(identity: &str, shards: u32, acquired: u64, renewed: u64) -> Object {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": identity, "uid": identity, "annotations": {SHARDS_ANNOTATION: shards.to_string()}},
        "spec": {
            "holderIdentity": identity,
            "leaseDurationSeconds": 15,
            "acquireTime": format!("{acquired:03}"),
            "renewTime": format!("{renewed:03}"),
        },
    });
    Object::from_json(lease.to_string().as_bytes(), &ObjectOptions::default()).unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_renew_is_dead_after_its_duration_as_seen_here() {
    let mut members = Members::new(options("a", 4));
    let start = Instant::now();
    members.observe(&[lease("a", 4, 1, 1), lease("b", 4, 1, 1)], start);
    assert_eq!(members.mine(start).len(), 2);
    let leases = [lease("a", 4, 1, 2), lease("b", 4, 1, 1)];
    members.observe(&leases, start + seconds(10));
    assert_eq!(members.mine(start + seconds(14)).len(), 2, "still alive");
    assert_eq!(members.mine(start + seconds(15)).len(), 4, "all are mine");
    assert!(members.long_dead(start + seconds(299)).is_empty());
    let dead = members.long_dead(start + seconds(300));
    assert_eq!(dead.iter().map(Object::name).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn replicas_with_another_number_of_shards_wait_for_the_older_ones() {
    let start = Instant::now();
    let leases = [lease("old", 4, 1, 1), lease("new", 8, 2, 2)];
    let mine = |identity: &str, shards: u32, at: Duration| {
        let mut members = Members::new(options(identity, shards));
        members.observe(&leases, start);
        members.observe(
            &[lease("old", 4, 1, 1), lease("new", 8, 2, 3)],
            start + seconds(10),
        );
        members.mine(start + at).len()
    };
    assert_eq!((mine("old", 4, seconds(10)), mine("new", 8, seconds(10))), (4, 0));
    assert_eq!(mine("new", 8, seconds(15)), 8, "the old one is dead");
}

/// The state of one shard in a replica, in the model below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Idle,
    /// Holds the Lease since this moment of its own renewal.
    Runs {
        renewed: u64,
    },
}

/// A model of replicas over the Leases of shards: each looks at the Leases at its own, arbitrary moments. It acquires a
/// free or expired Lease of a shard that is assigned to it, renews it, and stops before it releases it.
struct Model {
    now: u64,
    shards: Vec<Lease>,
    /// The renewal time of each replica's own Lease; `None` after a graceful end.
    announced: Vec<Option<u64>>,
    work: Vec<Vec<Work>>,
    members: Vec<Members>,
    start: Instant,
}

/// A shard's Lease: its holder and last renewal.
#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    holder: Option<usize>,
    renewed: u64,
}

const SHARDS: u32 = 4;
const REPLICAS: usize = 3;

impl Model {
    fn new() -> Self {
        Self {
            now: 100,
            shards: vec![Lease::default(); SHARDS as usize],
            announced: vec![None; REPLICAS],
            work: vec![vec![Work::Idle; SHARDS as usize]; REPLICAS],
            members: (0..REPLICAS)
                .map(|replica| Members::new(options(&format!("replica-{replica}"), SHARDS)))
                .collect(),
            start: Instant::now(),
        }
    }

    fn instant(&self) -> Instant {
        self.start + seconds(self.now)
    }

    /// A replica looks: announces itself, sees all Leases, and acts on every shard.
    fn look(&mut self, replica: usize) {
        self.announced[replica] = Some(self.now);
        let leases: Vec<Object> = (0..REPLICAS)
            .filter_map(|other| {
                Some(lease(
                    &format!("replica-{other}"),
                    SHARDS,
                    1,
                    self.announced[other]?,
                ))
            })
            .collect();
        let now = self.instant();
        self.members[replica].observe(&leases, now);
        let mine = self.members[replica].mine(now);
        for shard in 0..SHARDS {
            self.act(replica, shard as usize, mine.contains(&shard));
        }
    }

    fn act(&mut self, replica: usize, shard: usize, is_mine: bool) {
        let lease = &mut self.shards[shard];
        let is_expired = lease.holder.is_none() || self.now >= lease.renewed + 15;
        let work = &mut self.work[replica][shard];
        match (*work, is_mine) {
            (Work::Runs { .. }, true) if lease.holder == Some(replica) => {
                lease.renewed = self.now;
                *work = Work::Runs { renewed: self.now };
            }
            // Stops first, then releases.
            (Work::Runs { .. }, _) => {
                *work = Work::Idle;
                if lease.holder == Some(replica) {
                    lease.holder = None;
                }
            }
            (Work::Idle, true) if is_expired || lease.holder == Some(replica) => {
                *lease = Lease {
                    holder: Some(replica),
                    renewed: self.now,
                };
                *work = Work::Runs { renewed: self.now };
            }
            (Work::Idle, _) => {}
        }
    }

    /// Time passes. Work whose Lease was not renewed within the deadline is dropped by its replica.
    fn pass(&mut self, time: u64) {
        for _ in 0..time {
            self.now += 1;
            for work in self.work.iter_mut().flatten() {
                if matches!(work, Work::Runs { renewed } if self.now >= *renewed + 10) {
                    *work = Work::Idle;
                }
            }
            self.check();
        }
    }

    /// A crash: the work ends, and its Leases stay.
    fn crash(&mut self, replica: usize) {
        self.work[replica].fill(Work::Idle);
    }

    fn check(&self) {
        for shard in 0..SHARDS as usize {
            let running = (0..REPLICAS)
                .filter(|replica| self.work[*replica][shard] != Work::Idle)
                .count();
            assert!(
                running <= 1,
                "{running} replicas work on shard {shard} at {}",
                self.now
            );
        }
    }

    fn held(&self) -> usize {
        let shards = 0..SHARDS as usize;
        shards
            .filter(|shard| self.work.iter().any(|work| work[*shard] != Work::Idle))
            .count()
    }
}

proptest! {
    /// Whatever the order of looks, pauses and crashes: no two replicas work on a shard, and once the living look
    /// regularly again, every shard is worked on.
    #[test]
    fn shards_never_overlap_and_none_is_forgotten(
        steps in proptest::collection::vec((0_u8..8, 0_usize..REPLICAS, 1_u64..12), 1..120),
        living in 1_usize..=REPLICAS,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let _entered = runtime.enter();
        let mut model = Model::new();
        for (step, replica, time) in steps {
            match step {
                0..5 => model.look(replica),
                5 => model.crash(replica),
                _ => model.pass(time),
            }
            model.check();
        }
        for replica in living..REPLICAS {
            model.crash(replica);
        }
        for _ in 0..20 {
            (0..living).for_each(|replica| model.look(replica));
            model.check();
            model.pass(2);
        }
        prop_assert_eq!(model.held(), SHARDS as usize);
    }
}
