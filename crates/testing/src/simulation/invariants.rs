//! Common invariants. Each returns a check for [`Simulation::always`] or [`Simulation::eventually`].

use std::collections::BTreeMap;

use serde_json::Value;

#[cfg(doc)]
use super::Simulation;
use super::State;
use super::state::key_of;

/// No two objects of a kind have the same controller: for controllers that create one child each.
pub fn at_most_one_per_owner(
    kind: &str,
) -> impl Fn(&State<'_>) -> Result<(), String> + Send + Sync + 'static {
    let kind = kind.to_owned();
    move |state| {
        let mut children: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for object in state.all(&kind) {
            if let Some(uid) = controller_of(object).and_then(|owner| owner["uid"].as_str()) {
                children.entry(uid).or_default().push(key_of(object));
            }
        }
        match children.iter().find(|(_, children)| children.len() > 1) {
            None => Ok(()),
            Some((uid, children)) => {
                let owner = state.by_uid(uid).map_or_else(|| (*uid).to_owned(), key_of);
                Err(format!("{owner} has {}: {}", children.len(), children.join(", ")))
            }
        }
    }
}

/// Every owned object of a kind has an owner that exists. For the end of a run: in between, an owner may be deleted
/// before its dependents are cleaned up.
pub fn no_orphans(kind: &str) -> impl Fn(&State<'_>) -> Result<(), String> + Send + Sync + 'static {
    let kind = kind.to_owned();
    move |state| {
        let is_orphan = |object: &&Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let uids = owners.into_iter().flatten().map(|owner| owner["uid"].as_str());
            let mut uids = uids.flatten().peekable();
            uids.peek().is_some() && !uids.any(|uid| state.by_uid(uid).is_some())
        };
        match state.all(&kind).into_iter().find(is_orphan) {
            None => Ok(()),
            Some(orphan) => Err(format!("the owner of {} is gone", key_of(orphan))),
        }
    }
}

/// No object of a kind waits for finalizers. For the end of a run.
pub fn nothing_is_stuck_deleting(
    kind: &str,
) -> impl Fn(&State<'_>) -> Result<(), String> + Send + Sync + 'static {
    let kind = kind.to_owned();
    move |state| {
        let is_stuck = |object: &&Value| object["metadata"]["deletionTimestamp"].is_string();
        match state.all(&kind).into_iter().find(is_stuck) {
            None => Ok(()),
            Some(stuck) => Err(format!(
                "{} waits for {}",
                key_of(stuck),
                stuck["metadata"]["finalizers"]
            )),
        }
    }
}

fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}
