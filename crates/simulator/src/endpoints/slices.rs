//! Endpoint slices: what is there is changed as little as need be.

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_wire::Object;

use super::{MANAGED_BY, SERVICE};
use crate::cluster::{Cluster, ignore_gone};
use crate::item::Item;
use crate::kinds::endpoint_slices;
use crate::pod_control::is_namespace_terminating;

/// All slices that one controller keeps for one service.
pub(super) struct Family<'a> {
    /// What the slices go with: the service, or the endpoints they mirror.
    pub(super) owner: &'a Item,
    /// The controller, as the slices name it.
    pub(super) manager: &'static str,
    /// The labels of every slice, besides those that name service and controller.
    pub(super) labels: serde_json::Map<String, Value>,
    /// The annotations of every slice, if it is to have these and no others.
    pub(super) annotations: Option<Value>,
    /// The annotations a slice gets whenever it is written; on their own they are no reason to.
    pub(super) notes: Value,
    /// How many endpoints a slice has at most.
    pub(super) most: usize,
}

/// Endpoints with the same ports and the same kind of address.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) address_type: &'static str,
    pub(super) ports: Vec<Value>,
    pub(super) endpoints: Vec<Value>,
}

impl Family<'_> {
    /// Brings the slices in line with the endpoints there should be.
    pub(super) async fn keep(&self, cluster: &Cluster, groups: Vec<Group>) -> Result<(), Error> {
        let mut own = self.slices(cluster);
        for group in &groups {
            let parts = group.endpoints.len().div_ceil(self.most).max(1);
            let mut parts: Vec<&[Value]> = (0..parts).map(|part| self.part(group, part)).collect();
            // Slices that are right already stay; the others of this group are used for the rest.
            own.retain(|slice| !self.take(&mut parts, slice, group));
            for part in parts {
                let reused = own.iter().position(|slice| group.is_of(slice));
                match reused.map(|place| own.remove(place)) {
                    Some(slice) => self.update(cluster, &slice, part).await?,
                    None => self.create(cluster, group, part).await?,
                }
            }
        }
        for slice in own {
            cluster.delete(&endpoint_slices(), &slice, None).await?;
        }
        Ok(())
    }

    fn slices(&self, cluster: &Cluster) -> Vec<Item> {
        let known = cluster.snapshot(&endpoint_slices());
        let is_own = |slice: &&Object| {
            let has = |label: &str, value: &str| slice.label(label).is_some_and(|own| own == value);
            has(SERVICE, self.owner.name()) && has(MANAGED_BY, self.manager) && !slice.is_deleting()
        };
        let own = known.in_namespace(self.owner.namespace()).filter(is_own);
        own.map(Item::read).collect()
    }

    fn part<'a>(&self, group: &'a Group, part: usize) -> &'a [Value] {
        let first = part * self.most;
        &group.endpoints[first..group.endpoints.len().min(first + self.most)]
    }

    /// Whether a slice is one of these parts, which then is not needed any more.
    fn take(&self, parts: &mut Vec<&[Value]>, slice: &Item, group: &Group) -> bool {
        let annotations = &slice["metadata"]["annotations"];
        let is_annotated = self
            .annotations
            .as_ref()
            .is_none_or(|wanted| annotations == wanted || (annotations.is_null() && *wanted == json!({})));
        if !group.is_of(slice) || slice["metadata"]["labels"] != self.all_labels() || !is_annotated {
            return false;
        }
        let part = parts.iter().position(|part| slice.list("/endpoints") == *part);
        part.map(|part| parts.remove(part)).is_some()
    }

    fn all_labels(&self) -> Value {
        let mut labels = self.labels.clone();
        labels.insert(SERVICE.to_owned(), json!(self.owner.name()));
        labels.insert(MANAGED_BY.to_owned(), json!(self.manager));
        json!(labels)
    }

    fn all_annotations(&self, known: &Value) -> Value {
        let mut annotations = self.annotations.clone().unwrap_or_else(|| known.clone());
        for (name, value) in self.notes.as_object().into_iter().flatten() {
            annotations[name] = value.clone();
        }
        annotations
    }

    async fn update(&self, cluster: &Cluster, slice: &Item, endpoints: &[Value]) -> Result<(), Error> {
        let changed = cluster
            .replace(&endpoint_slices(), slice, |slice| {
                slice["metadata"]["labels"] = self.all_labels();
                slice["metadata"]["annotations"] = self.all_annotations(&slice["metadata"]["annotations"]);
                slice["endpoints"] = json!(endpoints);
            })
            .await;
        ignore_gone(changed.map(drop))
    }

    async fn create(&self, cluster: &Cluster, group: &Group, endpoints: &[Value]) -> Result<(), Error> {
        let slice = json!({
            "metadata": {
                "generateName": format!("{}-", self.owner.name()),
                "labels": self.all_labels(),
                "annotations": self.all_annotations(&json!({})),
                "ownerReferences": [self.owner.as_controller()],
            },
            "addressType": group.address_type,
            "endpoints": endpoints,
            "ports": group.ports,
        });
        let namespace = self.owner.namespace();
        match cluster.create(&endpoint_slices(), namespace, slice).await {
            Err(error) if is_namespace_terminating(&error) => Ok(()),
            created => created.map(drop),
        }
    }
}

impl Group {
    fn is_of(&self, slice: &Item) -> bool {
        slice.list("/ports") == self.ports && slice.text("/addressType") == self.address_type
    }
}

/// Ports as slices have them: each has a name, if only an empty one.
pub(super) fn named(ports: &[Value]) -> Vec<Value> {
    let mut ports = ports.to_vec();
    for port in ports.iter_mut().filter(|port| port["name"].is_null()) {
        port["name"] = json!("");
    }
    ports
}
