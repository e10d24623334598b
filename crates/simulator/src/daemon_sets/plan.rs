//! Decides the next steps of a daemon set, node by node.
//!
//! A new template reaches a node in one of two ways:
//!
//! ```text
//! maxUnavailable   old pod deleted  ▶  new pod created          that many nodes may be without a pod
//! maxSurge         new pod created  ▶  available  ▶  old deleted   that many nodes may have two
//! ```

use serde_json::{Value, json};
use watchkeeper_wire::values::Round;

use crate::item::Item;
use crate::pods::{has_ended, is_active, is_available, is_ready};
use crate::rollout::amount;

/// A node and the pods of a set on it, or meant for it; oldest first.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) node: String,
    /// True if a pod should be created here.
    pub(super) is_wanted: bool,
    /// True if an existing pod may stay.
    pub(super) is_bearable: bool,
    /// Pods of the current template.
    pub(super) new: Vec<Item>,
    pub(super) old: Vec<Item>,
}

/// The desired state of a set.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) min_ready_seconds: i64,
    update: Update,
}

/// The update strategy.
#[derive(Debug)]
enum Update {
    /// A pod is replaced when somebody deletes it.
    OnDelete,
    Replacing {
        max_unavailable: usize,
    },
    Surging {
        max_surge: usize,
    },
}

/// A step.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Create(&'a str),
    Delete(&'a Item),
}

impl Wish {
    pub(super) fn of(set: &Item, places: &[Place]) -> Self {
        let wanted = places.iter().filter(|place| place.is_wanted).count();
        let rolling = set.at("/spec/updateStrategy/rollingUpdate");
        let part = |name: &str| {
            let part = amount(
                &rolling[name],
                i64::try_from(wanted).unwrap_or(i64::MAX),
                Round::Up,
            );
            usize::try_from(part.unwrap_or_default()).unwrap_or_default()
        };
        let update = match (set.text("/spec/updateStrategy/type"), part("maxSurge")) {
            ("OnDelete", _) => Update::OnDelete,
            (_, 0) => Update::Replacing {
                max_unavailable: part("maxUnavailable").max(1),
            },
            (_, max_surge) => Update::Surging { max_surge },
        };
        Self {
            min_ready_seconds: set.number("/spec/minReadySeconds"),
            update,
        }
    }

    fn is_available(&self, pod: &Item) -> bool {
        is_active(pod) && is_available(pod, self.min_ready_seconds)
    }
}

impl Place {
    fn all(&self) -> impl Iterator<Item = &Item> {
        self.new.iter().chain(&self.old)
    }

    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// The pod of each template that is kept.
    fn first(pods: &[Item]) -> Option<&Item> {
        pods.iter().find(|pod| is_active(pod))
    }
}

/// The next steps, in order.
pub(super) fn steps<'a>(wish: &Wish, places: &'a [Place]) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = places.iter().flat_map(|place| keep_one(wish, place)).collect();
    match wish.update {
        Update::OnDelete => {}
        Update::Replacing { max_unavailable } => steps.extend(replace(wish, places, max_unavailable)),
        Update::Surging { max_surge } => steps.extend(surge(wish, places, max_surge)),
    }
    steps
}

/// Creates a missing pod; deletes finished, surplus and unwanted ones.
fn keep_one<'a>(wish: &Wish, place: &'a Place) -> Vec<Step<'a>> {
    if place.is_wanted && place.is_empty() {
        return vec![Step::Create(&place.node)];
    }
    let (new, old) = (Place::first(&place.new), Place::first(&place.old));
    let is_replaced = match (new, old) {
        (Some(new), Some(old)) => {
            !matches!(wish.update, Update::Surging { .. })
                || wish.is_available(new)
                || !wish.is_available(old)
        }
        _ => false,
    };
    let stays = |pod: &Item| {
        let is = |other: Option<&Item>| other.is_some_and(|other| other.uid() == pod.uid());
        place.is_bearable && (is(new) || (is(old) && !is_replaced))
    };
    let goes = place.all().filter(|pod| !pod.is_deleting() && !stays(pod));
    goes.map(Step::Delete).collect()
}

/// The old pods that are alone on their node.
fn outdated(places: &[Place]) -> impl Iterator<Item = (&Place, &Item)> {
    let bearable = places
        .iter()
        .filter(|place| place.is_bearable && place.new.is_empty());
    bearable.filter_map(|place| Some((place, Place::first(&place.old)?)))
}

fn replace<'a>(wish: &Wish, places: &'a [Place], max_unavailable: usize) -> Vec<Step<'a>> {
    let is_served = |place: &&Place| place.all().any(|pod| wish.is_available(pod));
    let wanted = places.iter().filter(|place| place.is_wanted);
    let unavailable = wanted.filter(|place| !is_served(place)).count();
    let mut room = max_unavailable.saturating_sub(unavailable);
    let mut steps = Vec::new();
    for (_, pod) in outdated(places) {
        match (wish.is_available(pod), room) {
            (false, _) => {}
            (true, 0) => continue,
            (true, _) => room -= 1,
        }
        steps.push(Step::Delete(pod));
    }
    steps
}

fn surge<'a>(wish: &Wish, places: &'a [Place], max_surge: usize) -> Vec<Step<'a>> {
    let doubled = places
        .iter()
        .filter(|place| !place.new.is_empty() && !place.old.is_empty());
    let mut room = max_surge.saturating_sub(doubled.count());
    let mut steps = Vec::new();
    for (place, pod) in outdated(places).filter(|(place, _)| place.is_wanted) {
        match (wish.is_available(pod), room) {
            (false, _) => {}
            (true, 0) => continue,
            (true, _) => room -= 1,
        }
        steps.push(Step::Create(&place.node));
    }
    steps
}

/// The status of a set.
pub(super) fn status(set: &Item, wish: &Wish, places: &[Place]) -> Value {
    let count = |counts: &dyn Fn(&Place) -> bool| places.iter().filter(|place| counts(place)).count();
    let any = |place: &Place, counts: &dyn Fn(&Item) -> bool| {
        place.is_wanted && place.all().any(|pod| !has_ended(pod) && counts(pod))
    };
    let desired = count(&|place| place.is_wanted);
    let available = count(&|place| any(place, &|pod| wish.is_available(pod)));
    let is_new = |place: &Place| place.is_wanted && Place::first(&place.new).is_some();
    json!({
        "observedGeneration": set.generation(),
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": count(&|place| any(place, &|_| true)),
        "numberMisscheduled": count(&|place| !place.is_wanted && place.all().any(is_active)),
        "updatedNumberScheduled": count(&is_new),
        "numberReady": count(&|place| any(place, &is_ready)),
        "numberAvailable": available,
        "numberUnavailable": desired - available,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;

    /// Nodes with their pods, as `a:old,new!` (the second is not ready), `-b` being one without a place for pods; and
    /// the next steps: `+a` a pod is created there, `-a` one is deleted.
    #[track_caller]
    fn check(strategy: Value, nodes: &str, wanted: &str) {
        let set = item(&json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log"},
            "spec": {"updateStrategy": strategy},
        }));
        let places: Vec<Place> = nodes.split_whitespace().map(place).collect();
        let wish = Wish::of(&set, &places);
        let steps = steps(&wish, &places).into_iter().map(|step| match step {
            Step::Create(node) => format!("+{node}"),
            Step::Delete(pod) => format!("-{}", pod.name()),
        });
        assert_eq!(steps.collect::<Vec<_>>().join(" "), wanted, "{nodes}");
    }

    fn place(text: &str) -> Place {
        let (node, pods) = text.split_once(':').unwrap_or((text, ""));
        let is_wanted = !node.starts_with('-');
        let node = node.trim_start_matches('-');
        let pods = pods.split(',').filter(|pod| !pod.is_empty());
        let pods = pods.map(|text| {
            let ready = if text.ends_with('!') { "False" } else { "True" };
            let name = format!("{node}-{}", text.trim_end_matches('!'));
            item(&json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
            }))
        });
        let (new, old) = pods.partition(|pod| pod.name().ends_with("new"));
        Place {
            node: node.to_owned(),
            is_wanted,
            is_bearable: is_wanted,
            new,
            old,
        }
    }

    #[test]
    fn every_wanted_node_has_one_pod() {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
        check(strategy.clone(), "a b:new -c -d:new", "+a -d-new");
    }

    #[test]
    fn a_new_template_replaces_as_many_as_may_be_missing() {
        let replacing =
            |count: u32| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": count}});
        check(replacing(1), "a:old b:old c:old", "-a-old");
        check(replacing(2), "a:old b:old c:old", "-a-old -b-old");
        check(replacing(1), "a:new! b:old c:old", "");
        check(replacing(1), "a:old b:old! c:old", "-b-old");
        check(json!({"type": "OnDelete"}), "a:old b:old", "");
    }

    #[test]
    fn or_surges_over_as_many_as_may_be_double() {
        let surging = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        check(surging.clone(), "a:old b:old", "+a");
        check(surging.clone(), "a:old,new! b:old", "");
        check(surging, "a:old,new b:old", "-a-old");
    }
}
