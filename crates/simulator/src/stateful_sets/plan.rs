//! Decides the next steps of a stateful set.
//!
//! ```text
//! create missing pods, lowest first  ▶  remove surplus ones, highest first  ▶  replace old ones, highest first
//! ```
//!
//! An ordered set takes one step at a time, and none while an earlier pod is unavailable. Pods below the partition
//! keep the old template.

use std::collections::BTreeMap;
use std::ops::Range;

use watchkeeper_wire::Object;
use watchkeeper_wire::values::Round;

use super::is_of;
use crate::item::Item;
use crate::pods::{has_ended, is_available};
use crate::rollout::amount;

/// The desired state of a set.
#[derive(Debug)]
pub(super) struct Wish {
    /// The ordinals of its pods.
    ordinals: Range<i64>,
    in_order: bool,
    pub(super) min_ready_seconds: i64,
    /// True for rolling updates; false if pods are replaced only when somebody deletes them.
    pub(super) rolls: bool,
    /// The first ordinal that gets the new template.
    partition: i64,
    max_unavailable: usize,
}

/// A step.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// Create the pod of this ordinal.
    Create(i64),
    /// Delete a pod that will be recreated.
    Replace(&'a Item),
    /// Delete a surplus pod.
    Remove(&'a Item),
}

impl Wish {
    pub(super) fn of(set: &Item) -> Self {
        let first = set.number("/spec/ordinals/start");
        let count = set.at("/spec/replicas").as_i64().unwrap_or(1);
        let rolling = set.at("/spec/updateStrategy/rollingUpdate");
        let max_unavailable = amount(&rolling["maxUnavailable"], count, Round::Up).unwrap_or(1);
        Self {
            ordinals: first..first + count,
            in_order: set.text("/spec/podManagementPolicy") != "Parallel",
            min_ready_seconds: set.number("/spec/minReadySeconds"),
            rolls: set.text("/spec/updateStrategy/type") != "OnDelete",
            partition: first + rolling["partition"].as_i64().unwrap_or_default(),
            max_unavailable: usize::try_from(max_unavailable).unwrap_or_default().max(1),
        }
    }

    /// True if a pod created now gets the old template.
    pub(super) fn keeps_old(&self, ordinal: i64) -> bool {
        self.rolls && ordinal < self.partition
    }

    fn is_available(&self, pod: &Item) -> bool {
        !pod.is_deleting() && is_available(pod, self.min_ready_seconds)
    }
}

/// The next steps, in order.
pub(super) fn steps<'a>(wish: &Wish, pods: &'a [Item], update: &str) -> Vec<Step<'a>> {
    let by_ordinal: BTreeMap<i64, &Item> = pods.iter().filter_map(|pod| Some((ordinal(pod)?, pod))).collect();
    let mut steps = Vec::new();
    for number in wish.ordinals.clone() {
        let pod = by_ordinal.get(&number).copied();
        steps.extend(missing(number, pod));
        if wish.in_order && !pod.is_some_and(|pod| wish.is_available(pod)) {
            return steps;
        }
    }
    let too_many = by_ordinal.iter().rev();
    let too_many = too_many.filter(|(number, _)| !wish.ordinals.contains(number));
    for (_, pod) in too_many {
        if !pod.is_deleting() {
            steps.push(Step::Remove(pod));
        }
        if wish.in_order {
            return steps;
        }
    }
    if wish.rolls {
        steps.extend(outdated(wish, &by_ordinal, update));
    }
    steps
}

/// The ordinal in a pod's name.
fn ordinal(pod: &Object) -> Option<i64> {
    pod.name().rsplit_once('-')?.1.parse().ok()
}

/// True if a pod's name belongs to the set.
pub(super) fn is_member(set: &Item, pod: &Object) -> bool {
    ordinal(pod).is_some_and(|number| pod.name() == format!("{}-{number}", set.name()))
}

fn missing(number: i64, pod: Option<&Item>) -> Option<Step<'_>> {
    match pod {
        None => Some(Step::Create(number)),
        Some(pod) if has_ended(pod) && !pod.is_deleting() => Some(Step::Replace(pod)),
        Some(_) => None,
    }
}

/// The next pods to replace: up to maxUnavailable, and any that are not available anyway.
fn outdated<'a>(wish: &Wish, pods: &BTreeMap<i64, &'a Item>, update: &str) -> Vec<Step<'a>> {
    let available = |number: &i64| pods.get(number).is_some_and(|pod| wish.is_available(pod));
    let unavailable = wish.ordinals.clone().filter(|number| !available(number)).count();
    let mut room = wish.max_unavailable.saturating_sub(unavailable);
    let new = wish.partition.max(wish.ordinals.start)..wish.ordinals.end;
    let mut steps = Vec::new();
    for pod in new.rev().filter_map(|number| pods.get(&number).copied()) {
        if pod.is_deleting() || has_ended(pod) || is_of(pod, update) {
            continue;
        }
        match (wish.is_available(pod), room) {
            (false, _) => {}
            (true, 0) => break,
            (true, _) => room -= 1,
        }
        steps.push(Step::Replace(pod));
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::item::tests::item;
    use crate::revisions::HASH_LABEL;

    /// A set's spec and its pods, as `number` or `number!` (not ready) or `number-` (being deleted), of the new
    /// template when followed by `'`; and the next steps: `+n` created, `~n` replaced, `-n` removed.
    #[track_caller]
    fn check(spec: Value, pods: &str, wanted: &str) {
        let set = item(&json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec,
        }));
        let pods: Vec<Item> = pods.split_whitespace().map(pod).collect();
        let name = |pod: &Item| pod.name().trim_start_matches("web-").to_owned();
        let steps = steps(&Wish::of(&set), &pods, "new")
            .into_iter()
            .map(|step| match step {
                Step::Create(number) => format!("+{number}"),
                Step::Replace(pod) => format!("~{}", name(pod)),
                Step::Remove(pod) => format!("-{}", name(pod)),
            });
        assert_eq!(steps.collect::<Vec<_>>().join(" "), wanted, "{pods:?}");
    }

    fn pod(text: &str) -> Item {
        let number = text.trim_end_matches(['!', '-', '\'']);
        let ready = if text.contains('!') { "False" } else { "True" };
        let revision = if text.ends_with('\'') { "new" } else { "old" };
        let deleted = text.contains('-').then_some("2008-01-01T01:01:01Z");
        item(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("web-{number}"),
                "labels": {HASH_LABEL: revision},
                "deletionTimestamp": deleted,
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        }))
    }

    #[test]
    fn pods_come_one_by_one_and_go_the_other_way() {
        check(json!({"replicas": 3}), "", "+0");
        check(json!({"replicas": 3}), "0!'", "");
        check(json!({"replicas": 3}), "0'", "+1");
        check(json!({"replicas": 3}), "0' 2'", "+1");
        check(json!({"replicas": 1}), "0' 1' 2'", "-2");
        check(json!({"replicas": 1}), "0' 1' 2-'", "");
        check(json!({"replicas": 2, "ordinals": {"start": 5}}), "5'", "+6");
    }

    #[test]
    fn in_parallel_they_come_and_go_at_once() {
        let parallel = |replicas: u32| json!({"replicas": replicas, "podManagementPolicy": "Parallel"});
        check(parallel(3), "1!'", "+0 +2");
        check(parallel(1), "0' 1' 2'", "-2 -1");
    }

    #[test]
    fn a_new_template_replaces_from_the_top_down_to_the_partition() {
        let partition = |partition: u32| json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}});
        check(partition(0), "0 1 2", "~2");
        check(partition(0), "0 1 2!'", "");
        check(partition(0), "0 1 2'", "~1");
        check(partition(2), "0 1 2'", "");
        check(partition(2), "0 1 2", "~2");
        let two = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
        check(two, "0 1 2", "~2 ~1");
        check(
            json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}}),
            "0 1 2",
            "",
        );
    }
}
