//! Stages: what objects go through, as data, in the format of KWOK (`kwok.x-k8s.io/v1alpha1`, kind `Stage`).
//!
//! An object that matches a stage gets its changes after the stage's delay: a new status from a template, finalizers, an
//! Event, or its deletion. If several match, one is chosen by weight. The stages of a kind replace what the simulator
//! does with it by itself: with stages of pods no kubelet runs, with stages of nodes only their leases are renewed.
//!
//! Read are `resourceRef` of built-in kinds, `selector`, `weight`, `delay` with jitter, and `next`; templates and
//! expressions as far as [`template`] and [`expression`] say. A stage with anything else is refused.

mod expression;
mod functions;
mod stage;
mod template;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use watchkeeper_client::Error;
use watchkeeper_meta::{ObjectKey, PatchKind, Resource};
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_runtime::recorder::EventType;
use watchkeeper_wire::yaml;

use self::functions::Surroundings;
use self::stage::{Notice, Patch};
pub use self::stage::{Stage, StageError};
use crate::cluster::{Cluster, Task, ignore_gone};
use crate::events::{self, note};
use crate::item::Item;
use crate::kinds::nodes;
use crate::time;

/// The shortest time between two applications of a stage to an object: a stage that changes nothing must not spin.
const SHORTEST_REPEAT: Duration = Duration::from_secs(1);

/// The resources that have stages.
pub(crate) fn staged(stages: &[Stage]) -> HashSet<Resource> {
    stages.iter().map(|stage| stage.resource.clone()).collect()
}

/// Runs a controller for each kind with stages.
pub(crate) fn run(cluster: &Cluster, stages: &[Stage]) -> Vec<Task> {
    let task = |resource: Resource| {
        let own = stages.iter().filter(|stage| stage.resource == resource);
        let player = Arc::new(Player {
            stages: own.cloned().collect(),
            waiting: Mutex::default(),
            resource,
        });
        let controller = cluster.controller("stages", &player.resource);
        cluster.run(controller, move |cluster, request| {
            let player = player.clone();
            async move { player.play(&cluster, request).await }
        })
    };
    staged(stages).into_iter().map(task).collect()
}

/// Takes the objects of one kind through its stages.
struct Player {
    resource: Resource,
    stages: Vec<Stage>,
    waiting: Mutex<HashMap<ObjectKey, Waiting>>,
}

/// An object that matches a stage and waits for its delay.
#[derive(Clone)]
struct Waiting {
    uid: String,
    stage: usize,
    due: Instant,
}

impl Player {
    async fn play(&self, cluster: &Cluster, request: Request) -> Result<Action, Error> {
        let Some(item) = request.object.as_ref().map(Item::read) else {
            self.waiting.lock().remove(&request.key);
            return Ok(Action::Done);
        };
        let Some(waiting) = self.next(&item) else {
            self.waiting.lock().remove(&request.key);
            return Ok(Action::Done);
        };
        let left = waiting.due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Ok(Action::After(left));
        }
        self.waiting.lock().remove(&request.key);
        let stage = &self.stages[waiting.stage];
        self.apply(cluster, &item, stage).await?;
        match stage.next.delete {
            true => Ok(Action::Done),
            // If nothing has changed, the stage is due again.
            false => Ok(Action::After(SHORTEST_REPEAT)),
        }
    }

    /// The stage an object waits for: the one it has waited for, while it matches, or a new one.
    fn next(&self, item: &Item) -> Option<Waiting> {
        let matching = |stage: &usize| self.stages[*stage].matches(item);
        let mut waiting = self.waiting.lock();
        let known = waiting.get(&item.key()).filter(|known| known.uid == item.uid());
        if let Some(known) = known.filter(|known| matching(&known.stage)) {
            return Some(known.clone());
        }
        let candidates: Vec<usize> = (0..self.stages.len()).filter(matching).collect();
        let stage = self.choose(item, &candidates)?;
        let delay = self.stages[stage].delay(item, fastrand::f64());
        let new = Waiting {
            uid: item.uid().to_owned(),
            stage,
            due: Instant::now() + delay,
        };
        waiting.insert(item.key(), new.clone());
        Some(new)
    }

    /// By weight; if none has a weight, all are equal.
    fn choose(&self, item: &Item, candidates: &[usize]) -> Option<usize> {
        let weights: Vec<u64> = candidates
            .iter()
            .map(|stage| self.stages[*stage].weight(item))
            .collect();
        let total = weights
            .iter()
            .fold(0, |sum: u64, weight| sum.saturating_add(*weight));
        if total == 0 {
            return fastrand::choice(candidates).copied();
        }
        let mut chance = fastrand::u64(..total);
        let chosen = candidates
            .iter()
            .zip(&weights)
            .find(|(_, weight)| match chance.checked_sub(**weight) {
                Some(left) => {
                    chance = left;
                    false
                }
                None => true,
            });
        chosen.map(|(stage, _)| *stage)
    }

    async fn apply(&self, cluster: &Cluster, item: &Item, stage: &Stage) -> Result<(), Error> {
        if let Some(event) = &stage.next.event {
            tell(cluster, item, event);
        }
        if let Some(finalizers) = finalizers(item, stage) {
            let patch =
                json!({"metadata": {"resourceVersion": item.resource_version(), "finalizers": finalizers}});
            ignore_gone(cluster.merge(&self.resource, item, patch).await.map(drop))?;
        }
        for patch in &stage.next.patches {
            self.patch(cluster, item, stage, patch).await?;
        }
        match stage.next.delete {
            true => cluster.delete(&self.resource, item, Some(0)).await,
            false => Ok(()),
        }
    }

    async fn patch(&self, cluster: &Cluster, item: &Item, stage: &Stage, patch: &Patch) -> Result<(), Error> {
        let surroundings = In { cluster, item };
        let rendered = patch.template.render(item.value(), &surroundings);
        let value = rendered.map_err(|error| error.to_string()).and_then(|text| {
            let value: Result<Value, _> = yaml::from_slice(text.as_bytes(), yaml::Mode::Lenient);
            value.map_err(|error| error.to_string())
        });
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                // A retry would not help; the object stays as it is.
                tracing::warn!(stage = stage.name, object = %item.key(), error, "a template cannot be applied");
                return Ok(());
            }
        };
        let mut body = match &patch.root {
            Some(root) => json!({(root.as_str()): value}),
            None => value,
        };
        body["metadata"]["uid"] = json!(item.uid());
        let api = cluster.api(&self.resource, item.namespace());
        let api = match &patch.subresource {
            Some(subresource) => api.subresource(subresource.as_str()),
            None => api,
        };
        let kind = match patch.is_strategic {
            true => PatchKind::Strategic,
            false => PatchKind::Merge,
        };
        ignore_gone(api.patch(item.name(), kind, &body).await.map(drop))
    }
}

fn tell(cluster: &Cluster, item: &Item, event: &Notice) {
    let kind = match event.is_warning {
        true => EventType::Warning,
        false => EventType::Normal,
    };
    let voice = cluster.events.voice(events::KUBELET);
    voice.record(item, note(kind, &event.reason, event.message.clone()));
}

/// The finalizers after a stage, if it changes them.
fn finalizers(item: &Item, stage: &Stage) -> Option<Vec<String>> {
    let next = &stage.next;
    let present: Vec<String> = item.finalizers().into_iter().map(Into::into).collect();
    let mut left = present.clone();
    left.retain(|finalizer| !next.empty_finalizers && !next.remove_finalizers.contains(finalizer));
    // An object that is being deleted takes no further finalizers.
    for finalizer in next.add_finalizers.iter().filter(|_| !item.is_deleting()) {
        if !left.contains(finalizer) {
            left.push(finalizer.clone());
        }
    }
    (left != present).then_some(left)
}

/// An object in its cluster.
struct In<'a> {
    cluster: &'a Cluster,
    item: &'a Item,
}

impl Surroundings for In<'_> {
    fn now(&self) -> String {
        time::timestamp()
    }

    fn node_address(&self, node: &str) -> String {
        let nodes = self.cluster.snapshot(&nodes());
        let own = match node {
            "" => self.item.name(),
            node => node,
        };
        let found = nodes.find("", own).map(Item::read);
        let address = found
            .as_ref()
            .map(|node| node.text("/status/addresses/0/address"));
        address
            .filter(|address| !address.is_empty())
            .unwrap_or("192.0.2.1")
            .to_owned()
    }

    fn pod_address(&self, uid: &str) -> String {
        let uid = if uid.is_empty() { self.item.uid() } else { uid };
        let place = spread(uid) % POD_ADDRESSES;
        let [_, b, c, d] = (POD_NETWORK + 1 + place).to_be_bytes();
        format!("10.{b}.{c}.{d}")
    }
}

/// 10.128.0.0/10; the kubelets' own addresses are in the network after it.
const POD_NETWORK: u32 = u32::from_be_bytes([10, 128, 0, 0]);
const POD_ADDRESSES: u32 = (1 << 22) - 2;

/// Spreads uids over the addresses. Two pods may have the same one, as rarely as the network is large.
fn spread(uid: &str) -> u32 {
    uid.bytes().fold(0, |sum: u32, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    })
}
