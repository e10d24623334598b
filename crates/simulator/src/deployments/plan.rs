//! How large the replica sets of a deployment should be next.
//!
//! With 4 pods, 1 of which may be too many and 1 missing, and pods that become available at once:
//!
//! ```text
//! old 4, new 0  ▶  old 3, new 1  ▶  old 1, new 2 … ▶  old 0, new 4
//! ```

use watchkeeper_wire::values::Round;

use crate::item::Item;
use crate::rollout::amount;

/// What a deployment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strategy {
    pub(super) wanted: i64,
    /// `None`: everything old goes before anything new comes.
    rolling: Option<Allowance>,
}

/// How many pods may be too many and how many may be missing; never both none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allowance {
    surge: i64,
    unavailable: i64,
}

/// A replica set, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) wanted: i64,
    pub(super) running: i64,
    pub(super) available: i64,
}

/// The set of the current template, and all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) new: Size,
    pub(super) old: Vec<Size>,
}

impl Strategy {
    pub(super) fn of(deployment: &Item) -> Self {
        let wanted = deployment.at("/spec/replicas").as_i64().unwrap_or(1);
        let is_rolling = deployment.text("/spec/strategy/type") != "Recreate";
        Self {
            wanted,
            rolling: is_rolling.then(|| Allowance::of(deployment, wanted)),
        }
    }

    /// How many pods there must be at any time.
    pub(super) fn min_available(&self) -> i64 {
        let missing = self
            .rolling
            .map_or(self.wanted, |allowance| allowance.unavailable);
        self.wanted - missing
    }
}

impl Allowance {
    fn of(deployment: &Item, wanted: i64) -> Self {
        let rolling = deployment.at("/spec/strategy/rollingUpdate");
        let part = |name: &str, round: Round| amount(&rolling[name], wanted, round).unwrap_or(1);
        let surge = part("maxSurge", Round::Up);
        let unavailable = part("maxUnavailable", Round::Down);
        // Percentages of a few pods may round to nothing; then one may be missing.
        let unavailable = if surge == 0 {
            unavailable.max(1)
        } else {
            unavailable
        };
        Self {
            surge,
            unavailable: unavailable.min(wanted),
        }
    }
}

/// One step of a rollout: as many new pods as there is room for, as few old ones as can be spared.
pub(super) fn next_sizes(strategy: &Strategy, sizes: &Sizes) -> Sizes {
    match strategy.rolling {
        Some(allowance) => roll(strategy, allowance, sizes),
        None => recreate(strategy, sizes),
    }
}

/// The sizes of a deployment that is not to move: if only one of its sets has pods, that one has them all.
pub(super) fn only_size(strategy: &Strategy, sizes: &Sizes) -> Sizes {
    let mut next = sizes.clone();
    let all = next.old.iter_mut().chain([&mut next.new]);
    let mut active: Vec<&mut Size> = all.filter(|size| size.wanted > 0).collect();
    if let [only] = active.as_mut_slice() {
        only.wanted = strategy.wanted;
    }
    next
}

fn recreate(strategy: &Strategy, sizes: &Sizes) -> Sizes {
    let mut next = sizes.clone();
    next.old.iter_mut().for_each(|size| size.wanted = 0);
    if sizes.old.iter().all(|size| size.wanted + size.running == 0) {
        next.new.wanted = strategy.wanted;
    }
    next
}

fn roll(strategy: &Strategy, allowance: Allowance, sizes: &Sizes) -> Sizes {
    let mut next = sizes.clone();
    let sum = |count: fn(&Size) -> i64| count(&sizes.new) + sizes.old.iter().map(count).sum::<i64>();
    let (total, available) = (sum(|size| size.wanted), sum(|size| size.available));
    let room = (strategy.wanted + allowance.surge - total).max(0);
    next.new.wanted = (sizes.new.wanted + room).min(strategy.wanted);

    let min_available = strategy.min_available();
    let coming = sizes.new.wanted - sizes.new.available.min(sizes.new.wanted);
    let mut removable = (total - min_available - coming).max(0);
    // Pods that serve nobody go first.
    for size in &mut next.old {
        let useless = (size.wanted - size.available).clamp(0, removable);
        size.wanted -= useless;
        removable -= useless;
    }
    let mut spare = (available - min_available).clamp(0, removable);
    for size in &mut next.old {
        let fewer = size.wanted.min(spare);
        size.wanted -= fewer;
        spare -= fewer;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wanted and available pods of the new set and the old ones, and what is wanted next.
    #[track_caller]
    fn check(strategy: Strategy, before: &[(i64, i64)], after: &[i64]) {
        let size = |(wanted, available): &(i64, i64)| Size {
            wanted: *wanted,
            running: *wanted,
            available: *available,
        };
        let sizes = Sizes {
            new: size(&before[0]),
            old: before[1..].iter().map(size).collect(),
        };
        let next = next_sizes(&strategy, &sizes);
        let next: Vec<i64> = [next.new]
            .iter()
            .chain(&next.old)
            .map(|size| size.wanted)
            .collect();
        assert_eq!(next, after);
    }

    fn rolling(wanted: i64, surge: i64, unavailable: i64) -> Strategy {
        let rolling = Some(Allowance { surge, unavailable });
        Strategy { wanted, rolling }
    }

    #[test]
    fn new_pods_come_as_old_ones_go() {
        check(rolling(4, 1, 1), &[(0, 0), (4, 4)], &[1, 3]);
        check(rolling(4, 1, 1), &[(1, 0), (3, 3)], &[2, 3]);
        check(rolling(4, 1, 1), &[(2, 2), (3, 3)], &[2, 1]);
        check(rolling(4, 1, 1), &[(4, 4), (1, 1)], &[4, 0]);
        check(rolling(2, 1, 0), &[(0, 0), (2, 2)], &[1, 2]);
        check(rolling(2, 1, 0), &[(1, 1), (2, 2)], &[1, 1]);
    }

    #[test]
    fn old_pods_that_serve_nobody_go_first() {
        check(rolling(4, 1, 1), &[(1, 0), (2, 0), (3, 3)], &[1, 0, 3]);
    }

    #[test]
    fn a_deployment_is_scaled_at_once() {
        check(rolling(5, 1, 1), &[(2, 2)], &[5]);
        check(rolling(1, 1, 1), &[(5, 5)], &[1]);
    }

    #[test]
    fn nothing_new_comes_before_all_of_the_old_is_gone() {
        let recreate = Strategy {
            wanted: 3,
            rolling: None,
        };
        check(recreate, &[(0, 0), (3, 3)], &[0, 0]);
        check(recreate, &[(0, 0), (0, 0)], &[3, 0]);
    }
}
