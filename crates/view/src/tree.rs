//! Trees of objects and their owners.
//! A root is an object whose controller is not on the board. The parent of an object is its controller, or its first
//! owner if there is none. If ownership is cyclic, the walk stops.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;
use watchkeeper_meta::ObjectKey;

use crate::board::Board;

/// The largest number of objects in a forest; the rest is counted.
pub const MAX_NODES: usize = 2_000;

/// The largest depth of a tree.
const MAX_DEPTH: usize = 16;

/// An object and its dependents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The stream of the object: `deployments.apps`.
    pub stream: Arc<str>,
    /// `Deployment`.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its dependents.
    pub children: Vec<Node>,
}

/// A forest of at most [`MAX_NODES`] objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forest {
    /// Roots that own something, by namespace, kind and name.
    pub roots: Vec<Node>,
    /// The number of objects that did not fit.
    pub left_out: usize,
}

struct Place {
    stream: Arc<str>,
    kind: String,
    key: ObjectKey,
}

/// The owner trees of a namespace, or of all.
pub fn owners(board: &Board, namespace: Option<&str>) -> Forest {
    let mut places: HashMap<Box<str>, Place> = HashMap::new();
    let mut parents: HashMap<Box<str>, Box<str>> = HashMap::new();
    for kind in board.kinds() {
        let wanted = |key: &ObjectKey| namespace.is_none_or(|wanted| key.namespace() == wanted);
        for (key, kept) in kind.objects().filter(|(key, _)| wanted(key)) {
            let Some(object) = kept.object() else { continue };
            let uid: Box<str> = object.uid().into();
            if let Some(owner) = owner(&object) {
                parents.insert(uid.clone(), owner);
            }
            let place = Place {
                stream: kind.name.clone(),
                kind: kind.resource.kind.to_string(),
                key: key.clone(),
            };
            places.insert(uid, place);
        }
    }
    let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
    for (child, parent) in &parents {
        if places.contains_key(parent) {
            children.entry(parent).or_default().push(child);
        }
    }
    grow(&places, &parents, &children)
}

fn grow(
    places: &HashMap<Box<str>, Place>,
    parents: &HashMap<Box<str>, Box<str>>,
    children: &HashMap<&str, Vec<&str>>,
) -> Forest {
    let has_parent = |uid: &str| parents.get(uid).is_some_and(|parent| places.contains_key(parent));
    let roots = children.keys().copied().filter(|uid| !has_parent(uid));
    let mut roots: Vec<&str> = roots.collect();
    sort(&mut roots, places);
    let mut room = MAX_NODES;
    let mut forest = Forest::default();
    for root in roots {
        match node(root, places, children, &mut room, 0) {
            Some(node) => forest.roots.push(node),
            None => break,
        }
    }
    let owned = places.keys().filter(|uid| has_parent(uid)).count();
    let all = owned + children.keys().filter(|uid| !has_parent(uid)).count();
    forest.left_out = all.saturating_sub(MAX_NODES - room);
    forest
}

fn node(
    uid: &str,
    places: &HashMap<Box<str>, Place>,
    children: &HashMap<&str, Vec<&str>>,
    room: &mut usize,
    depth: usize,
) -> Option<Node> {
    if depth == MAX_DEPTH {
        return None;
    }
    *room = room.checked_sub(1)?;
    let place = places.get(uid)?;
    let mut below = children.get(uid).cloned().unwrap_or_default();
    sort(&mut below, places);
    Some(Node {
        stream: place.stream.clone(),
        kind: place.kind.clone(),
        namespace: place.key.namespace().to_owned(),
        name: place.key.name().to_owned(),
        children: below
            .into_iter()
            .map_while(|child| node(child, places, children, room, depth + 1))
            .collect(),
    })
}

fn sort(uids: &mut [&str], places: &HashMap<Box<str>, Place>) {
    let order: BTreeMap<&str, _> = uids
        .iter()
        .map(|&uid| {
            (
                uid,
                places
                    .get(uid)
                    .map(|place| (place.key.namespace(), &*place.kind, place.key.name())),
            )
        })
        .collect();
    uids.sort_by(|one, two| order[one].cmp(&order[two]));
}

fn owner(object: &watchkeeper_wire::Object) -> Option<Box<str>> {
    let owners = object.owner_references();
    let controller = owners.iter().find(|owner| owner.controller);
    controller
        .or(owners.first())
        .map(|owner| owner.uid.as_ref().into())
}

#[cfg(test)]
mod tests;
