//! Decides the next sizes of a deployment's replica sets.
//!
//! With 4 pods, maxSurge 1 and maxUnavailable 1, and pods that become available at once:
//!
//! ```text
//! old 4, new 0  ▶  old 3, new 1  ▶  old 1, new 2 … ▶  old 0, new 4
//! ```

use watchkeeper_wire::values::Round;

use crate::item::Item;
use crate::rollout::amount;

/// The desired state of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strategy {
    pub(super) wanted: i64,
    /// `None`: `Recreate`, all old pods are deleted first.
    rolling: Option<Allowance>,
}

/// maxSurge and maxUnavailable; never both zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allowance {
    surge: i64,
    unavailable: i64,
}

/// The counts of a replica set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) wanted: i64,
    /// Its pods, including those being deleted.
    pub(super) running: i64,
    pub(super) available: i64,
    /// The maximum replicas of the deployment when the set was last resized.
    pub(super) of_most: Option<i64>,
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

    /// The minimum number of available pods.
    pub(super) fn min_available(&self) -> i64 {
        self.wanted - self.rolling.map_or(0, |allowance| allowance.unavailable)
    }

    /// The maximum number of pods during a rollout.
    pub(super) fn most(&self) -> i64 {
        self.wanted + self.rolling.map_or(0, |allowance| allowance.surge)
    }
}

impl Allowance {
    fn of(deployment: &Item, wanted: i64) -> Self {
        let rolling = deployment.at("/spec/strategy/rollingUpdate");
        let part = |name: &str, round: Round| amount(&rolling[name], wanted, round).unwrap_or(1);
        let surge = part("maxSurge", Round::Up);
        let unavailable = part("maxUnavailable", Round::Down);
        // Percentages of a few pods may both round to zero; then one may be unavailable.
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

/// One step of a rollout: as many new pods and as few old ones as the strategy allows.
pub(super) fn next_sizes(strategy: &Strategy, sizes: &Sizes) -> Sizes {
    match strategy.rolling {
        Some(allowance) => roll(strategy, allowance, sizes),
        None => recreate(strategy, sizes),
    }
}

/// The sizes of a deployment that is scaled during a rollout. If only one set has pods, it gets all of them;
/// otherwise they are scaled in proportion.
///
/// With 10 pods and maxSurge 3 in the middle of a rollout, scaled to 30:
///
/// ```text
/// old 8, new 5   of 13   ▶   old 20, new 13   of 33
/// ```
pub(super) fn scaled(strategy: &Strategy, sizes: &Sizes) -> Sizes {
    let mut next = sizes.clone();
    let is_saturated = sizes.new.wanted == strategy.wanted && sizes.new.available == strategy.wanted;
    let all = next.old.iter_mut().chain([&mut next.new]);
    let mut active: Vec<&mut Size> = all.filter(|size| size.wanted > 0).collect();
    match active.as_mut_slice() {
        [] => next.new.wanted = strategy.wanted,
        [only] => only.wanted = strategy.wanted,
        _ if is_saturated => next.old.iter_mut().for_each(|size| size.wanted = 0),
        active if strategy.rolling.is_some() => scale_in_proportion(strategy, active),
        _ => {}
    }
    next
}

/// Scales sets, oldest first, to the maximum number of pods. The largest one gets the rounding remainder.
fn scale_in_proportion(strategy: &Strategy, active: &mut [&mut Size]) {
    let most = if strategy.wanted > 0 { strategy.most() } else { 0 };
    let total: i64 = active.iter().map(|size| size.wanted).sum();
    let change = most - total;
    if change > 0 {
        active.reverse();
    }
    active.sort_by_key(|size| std::cmp::Reverse(size.wanted));
    let mut done = 0;
    for size in active.iter_mut() {
        let before = size.of_most.filter(|most| *most > 0).unwrap_or(total);
        let share = (size.wanted * most * 2 + before).div_euclid(before * 2) - size.wanted;
        let left = change - done;
        let share = if change > 0 {
            share.min(left)
        } else {
            share.max(left)
        };
        size.wanted += share;
        done += share;
    }
    if let Some(largest) = active.first_mut() {
        largest.wanted = (largest.wanted + change - done).max(0);
    }
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
    // Unavailable pods are removed first.
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

    /// The desired and available pods of the new set and the old ones, and the next sizes.
    #[track_caller]
    fn check(strategy: Strategy, before: &[(i64, i64)], after: &[i64]) {
        let size = |(wanted, available): &(i64, i64)| Size {
            wanted: *wanted,
            running: *wanted,
            available: *available,
            of_most: None,
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
    fn a_rollout_is_scaled_in_proportion() {
        let check = |wanted: i64, before: &[i64], most: i64, after: &[i64]| {
            let size = |wanted: &i64| Size {
                wanted: *wanted,
                running: *wanted,
                available: 0,
                of_most: Some(most),
            };
            let sizes = Sizes {
                new: size(&before[0]),
                old: before[1..].iter().map(size).collect(),
            };
            let next = scaled(&rolling(wanted, 3, 2), &sizes);
            let next: Vec<i64> = [next.new]
                .iter()
                .chain(&next.old)
                .map(|size| size.wanted)
                .collect();
            assert_eq!(next, after);
        };
        check(30, &[5, 8], 13, &[13, 20]);
        check(10, &[13, 20], 33, &[5, 8]);
        check(0, &[5, 8], 13, &[0, 0]);
        check(5, &[0, 8], 13, &[0, 5]);
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
