//! EndpointSlices: updated with as few writes as possible.

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_wire::Object;

use super::{MANAGED_BY, SERVICE};
use crate::cluster::{Cluster, ignore_gone};
use crate::item::Item;
use crate::kinds::endpoint_slices;
use crate::pod_control::is_namespace_terminating;

/// All slices one controller keeps for one service.
pub(super) struct Family<'a> {
    /// The owner of the slices: the service, or the endpoints they mirror.
    pub(super) owner: &'a Item,
    /// The controller's name in the slices.
    pub(super) manager: &'static str,
    /// The labels of every slice, besides those of service and controller.
    pub(super) labels: serde_json::Map<String, Value>,
    /// The annotations of every slice, if it is to have exactly these.
    pub(super) annotations: Option<Value>,
    /// The annotations set with every write; they alone do not cause one.
    pub(super) notes: Value,
    /// The largest number of endpoints in a slice.
    pub(super) most: usize,
}

/// Endpoints with the same ports and address family.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) address_type: &'static str,
    pub(super) ports: Vec<Value>,
    pub(super) endpoints: Vec<Value>,
}

impl Family<'_> {
    /// Updates the slices to the desired endpoints.
    pub(super) async fn keep(&self, cluster: &Cluster, groups: Vec<Group>) -> Result<(), Error> {
        let mut own = self.slices(cluster);
        for group in &groups {
            let parts = group.endpoints.len().div_ceil(self.most).max(1);
            let mut parts: Vec<&[Value]> = (0..parts).map(|part| self.part(group, part)).collect();
            // Slices with the right content stay; the others of this group are reused.
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

    /// True if a slice has the content of one of these parts, which is then removed from the list.
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

/// Ports as in slices: each has a name, possibly empty.
pub(super) fn named(ports: &[Value]) -> Vec<Value> {
    let mut ports = ports.to_vec();
    for port in ports.iter_mut().filter(|port| port["name"].is_null()) {
        port["name"] = json!("");
    }
    ports
}
