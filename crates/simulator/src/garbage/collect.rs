//! Decides about one object by the state of its owners.
//!
//! | owners | the object |
//! |---|---|
//! | one is solid: it exists and does not wait for its dependents | stays; references to missing and waiting owners are removed |
//! | none is solid, one is waiting, and the object has dependents of its own | deleted in the foreground |
//! | none is solid | deleted, as its own finalizers say or in the background |
//! | one is undecidable: its kind is not served, or it is namespaced and the object is not | stays as it is |
//!
//! The informers may lag behind. So an owner that is not known to be solid is read from the server, and the object is
//! deleted only in the version whose owners were checked.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::{DeleteOptions, OwnerReference, Preconditions, PropagationPolicy, Resource, Scope};
use watchkeeper_runtime::controller::{Action, Request};
use watchkeeper_wire::Object;

use super::{Collector, owner_key};
use crate::cluster::ignore_gone;
use crate::events;
use crate::item::Item;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The delay before an owner of an unserved kind is checked again: a definition may follow.
const UNKNOWN_KIND_RETRY: Duration = Duration::from_secs(30);

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Solid,
    /// Deleted in the foreground: it waits for its dependents.
    Waiting,
    /// Missing, or another object of that name.
    Absent,
    /// Its kind is not served.
    Unknown,
    /// Namespaced, while its dependent is cluster-scoped.
    Unreachable,
}

/// The action for an object.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// None, until something changes.
    Stay,
    /// None for now: one of its owners is undecidable.
    StayForNow,
    /// Remove the owners with these uids.
    LoseOwners(Vec<String>),
    Delete,
    /// Delete it in the foreground: an owner waits for it, so it must wait for its dependents.
    DeleteInForeground,
}

impl Fate {
    fn of(owners: &[(String, Standing)], has_dependents: bool) -> Self {
        let some = |wanted: Standing| owners.iter().any(|(_, standing)| *standing == wanted);
        if owners.is_empty() || some(Standing::Unreachable) {
            return Self::Stay;
        }
        if some(Standing::Unknown) {
            return Self::StayForNow;
        }
        if some(Standing::Solid) {
            let lost = owners.iter().filter(|(_, standing)| *standing != Standing::Solid);
            let lost: Vec<String> = lost.map(|(uid, _)| uid.clone()).collect();
            return match lost.is_empty() {
                true => Self::Stay,
                false => Self::LoseOwners(lost),
            };
        }
        match some(Standing::Waiting) && has_dependents {
            true => Self::DeleteInForeground,
            false => Self::Delete,
        }
    }
}

fn has_finalizer(object: &Object, finalizer: &str) -> bool {
    object.finalizers().iter().any(|name| name == finalizer)
}

/// True if an object waits for its dependents to be deleted.
fn is_waiting(object: &Object) -> bool {
    object.is_deleting() && has_finalizer(object, FOREGROUND)
}

impl Collector {
    pub(super) async fn collect(&self, kind: &Resource, request: Request) -> Result<Action, Error> {
        let Some(object) = request.object else {
            return Ok(Action::Done);
        };
        if object.is_deleting() && has_finalizer(&object, ORPHAN) {
            self.set_dependents_free(kind, &object).await?;
        } else if is_waiting(&object) {
            self.go_last(kind, &object).await?;
        } else if !object.is_deleting() && !self.is_owned_soundly(&object) {
            return self.decide(kind, &object).await;
        }
        Ok(Action::Done)
    }

    /// Removes the owner from its dependents, then its finalizer.
    async fn set_dependents_free(&self, kind: &Resource, owner: &Object) -> Result<(), Error> {
        let uids = [owner.uid().to_owned()];
        for (kind, dependent) in self.dependents(owner) {
            self.lose_owners(&kind, &dependent, &uids).await?;
        }
        self.cluster.drop_finalizer(kind, owner, ORPHAN).await
    }

    /// Removes the owner's finalizer once no dependent blocks it. Until then each dependent is checked: it may have
    /// other owners.
    async fn go_last(&self, kind: &Resource, owner: &Object) -> Result<(), Error> {
        let blocks = |dependent: &Object| {
            let owners = dependent.owner_references();
            let mut owners = owners.iter();
            owners.any(|other| other.uid == owner.uid() && other.block_owner_deletion)
        };
        if self
            .dependents(owner)
            .iter()
            .any(|(_, dependent)| blocks(dependent))
        {
            self.trigger_dependents(owner);
            return Ok(());
        }
        self.cluster.drop_finalizer(kind, owner, FOREGROUND).await
    }

    /// True if all owners of an object are known to be solid. Then the server need not be asked.
    fn is_owned_soundly(&self, object: &Object) -> bool {
        let owners = object.owner_references();
        owners.iter().all(|owner| {
            let resource = self.resource_of(owner);
            let known = resource
                .and_then(|resource| self.known(&resource, &owner_key(&resource, object, owner), &owner.uid));
            known.is_some_and(|known| !is_waiting(&known))
        })
    }

    /// Decides about an object as the server has it, and acts.
    async fn decide(&self, kind: &Resource, seen: &Object) -> Result<Action, Error> {
        let object = match self.cluster.api(kind, seen.namespace()).get(seen.name()).await {
            Err(error) if error.is_not_found() => return Ok(Action::Done),
            object => object?,
        };
        if object.uid() != seen.uid() || object.is_deleting() {
            return Ok(Action::Done);
        }
        let mut owners = Vec::new();
        for owner in object.owner_references() {
            let standing = self.standing(&object, &owner).await?;
            if matches!(standing, Standing::Absent | Standing::Unreachable) {
                self.tell_misplaced(&object, &owner);
            }
            owners.push((owner.uid.into_owned(), standing));
        }
        let dependents = self.dependents(&object);
        match Fate::of(&owners, !dependents.is_empty()) {
            Fate::Stay => {}
            Fate::StayForNow => return Ok(Action::After(UNKNOWN_KIND_RETRY)),
            Fate::LoseOwners(uids) => self.lose_owners(kind, &object, &uids).await?,
            Fate::Delete => self.delete(kind, &object, own_policy(&object)).await?,
            Fate::DeleteInForeground => {
                let mut version = object;
                if dependents.iter().any(|(_, dependent)| is_waiting(dependent)) {
                    // A cycle: each may wait for the other. This one stops blocking its owners.
                    version = self.stop_blocking(kind, &version).await?;
                }
                self.delete(kind, &version, PropagationPolicy::Foreground).await?;
            }
        }
        Ok(Action::Done)
    }

    async fn standing(&self, dependent: &Object, owner: &OwnerReference<'_>) -> Result<Standing, Error> {
        let Some(resource) = self.resource_of(owner) else {
            return Ok(Standing::Unknown);
        };
        if resource.scope == Scope::Namespaced && dependent.namespace().is_empty() {
            return Ok(Standing::Unreachable);
        }
        let key = owner_key(&resource, dependent, owner);
        let found = match self.known(&resource, &key, &owner.uid) {
            Some(known) if !is_waiting(&known) => return Ok(Standing::Solid),
            _ => self.cluster.api(&resource, key.namespace()).get(key.name()).await,
        };
        match found {
            Err(error) if error.is_not_found() => Ok(Standing::Absent),
            Err(error) => Err(error),
            Ok(found) if found.uid() != owner.uid => Ok(Standing::Absent),
            Ok(found) if is_waiting(&found) => Ok(Standing::Waiting),
            Ok(_) => Ok(Standing::Solid),
        }
    }

    /// Records an Event for an owner that exists in a namespace where this object cannot refer to it.
    fn tell_misplaced(&self, object: &Object, owner: &OwnerReference<'_>) {
        if !self.is_anywhere(owner) {
            return;
        }
        let namespace = object.namespace();
        let words = format!(
            "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {namespace:?}",
            owner.api_version, owner.kind, owner.name, owner.uid
        );
        self.cluster
            .events
            .warning(events::GARBAGE, object, "OwnerRefInvalidNamespace", words);
    }

    /// Removes owners from an object, if it has not changed meanwhile.
    async fn lose_owners(&self, kind: &Resource, object: &Object, uids: &[String]) -> Result<(), Error> {
        let item = Item::read(object);
        let mut owners = item.list("/metadata/ownerReferences").to_vec();
        owners.retain(|owner| !uids.iter().any(|uid| owner["uid"] == **uid));
        let changed = self.set_owners(kind, object, owners).await;
        ignore_gone(changed.map(drop))
    }

    async fn stop_blocking(&self, kind: &Resource, object: &Object) -> Result<Object, Error> {
        let item = Item::read(object);
        let mut owners = item.list("/metadata/ownerReferences").to_vec();
        for owner in &mut owners {
            owner["blockOwnerDeletion"] = json!(false);
        }
        self.set_owners(kind, object, owners).await
    }

    async fn set_owners(
        &self,
        kind: &Resource,
        object: &Object,
        owners: Vec<Value>,
    ) -> Result<Object, Error> {
        let version = object.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
        self.cluster.merge(kind, object, patch).await
    }

    async fn delete(&self, kind: &Resource, object: &Object, policy: PropagationPolicy) -> Result<(), Error> {
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: Some(object.uid().to_owned()),
                resource_version: Some(object.resource_version().to_owned()),
            },
            propagation_policy: Some(policy),
            ..Default::default()
        };
        let api = self.cluster.api(kind, object.namespace());
        ignore_gone(api.delete(object.name()).with(&options).await.map(drop))
    }
}

/// The propagation policy of an object's own finalizers.
fn own_policy(object: &Object) -> PropagationPolicy {
    if has_finalizer(object, ORPHAN) {
        PropagationPolicy::Orphan
    } else if has_finalizer(object, FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owners as letters: `s`olid, `w`aiting, `a`bsent, `u`nknown, un`r`eachable.
    #[track_caller]
    fn check(owners: &str, has_dependents: bool, wanted: Fate) {
        let owners: Vec<(String, Standing)> = owners
            .chars()
            .map(|letter| {
                let standing = match letter {
                    's' => Standing::Solid,
                    'w' => Standing::Waiting,
                    'a' => Standing::Absent,
                    'u' => Standing::Unknown,
                    _ => Standing::Unreachable,
                };
                (letter.to_string(), standing)
            })
            .collect();
        assert_eq!(Fate::of(&owners, has_dependents), wanted, "{owners:?}");
    }

    #[test]
    fn an_object_stays_while_one_owner_is_solid() {
        let lose = |uids: &[&str]| Fate::LoseOwners(uids.iter().map(|&uid| uid.to_owned()).collect());
        check("", false, Fate::Stay);
        check("s", true, Fate::Stay);
        check("sw", true, lose(&["w"]));
        check("aws", false, lose(&["a", "w"]));
    }

    #[test]
    fn an_object_goes_when_no_owner_is_solid() {
        check("a", true, Fate::Delete);
        check("aw", false, Fate::Delete);
        check("aw", true, Fate::DeleteInForeground);
    }

    #[test]
    fn an_owner_that_cannot_be_judged_decides_nothing() {
        check("au", false, Fate::StayForNow);
        check("su", false, Fate::StayForNow);
        check("ar", false, Fate::Stay);
    }
}
