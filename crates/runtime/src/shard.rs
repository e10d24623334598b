//! The objects of one shard of a kind: a range of hashes.

use std::fmt;

use watchkeeper_meta::{ShardField, ShardSelector};
use watchkeeper_wire::Object;

/// One shard of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from zero.
    pub index: u32,
    /// The number of shards.
    pub of: u32,
    /// The hashed field.
    pub by: ShardField,
    /// Its range of hashes.
    pub selector: ShardSelector,
}

impl Shard {
    /// One of `of` shards; `None` if there is no such shard.
    pub(crate) fn new(by: ShardField, index: u32, of: u32) -> Option<Self> {
        let selector = ShardSelector::part(by, index, of)?;
        Some(Self {
            index,
            of,
            by,
            selector,
        })
    }
}

/// The objects of a kind that belong to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardPart {
    /// Those whose own hash is in the shard. Only they are requested from the server.
    Own(Shard),
    /// Those whose controller's uid is in the shard.
    Owned(Shard),
}

impl ShardPart {
    /// The objects of an owned kind. In a shard by namespace they are with their owners.
    pub(crate) fn owned(shard: Shard) -> Self {
        match shard.by {
            ShardField::Namespace => Self::Own(shard),
            ShardField::Uid => Self::Owned(shard),
        }
    }

    /// The selector for the server, if it can select them.
    pub(crate) fn selector(&self) -> Option<String> {
        match self {
            Self::Own(shard) => Some(shard.selector.to_string()),
            Self::Owned(_) => None,
        }
    }

    /// True if the object belongs to the shard.
    pub(crate) fn has(&self, object: &Object) -> bool {
        match self {
            Self::Own(shard) => match shard.by {
                ShardField::Uid => shard.selector.has(object.uid()),
                ShardField::Namespace => shard.selector.has(object.namespace()),
            },
            Self::Owned(shard) => {
                let controller = object.controller();
                controller.is_some_and(|controller| shard.selector.has(&controller.uid))
            }
        }
    }
}

impl fmt::Display for ShardPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(shard) => write!(f, "{}", shard.selector),
            Self::Owned(shard) => write!(f, "owned by {}", shard.selector),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_wire::ObjectOptions;

    use super::*;

    fn object(uid: &str, owner: Option<&str>) -> Object {
        let owners: Vec<_> = owner
            .into_iter()
            .map(|uid| json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true}))
            .collect();
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": uid, "namespace": "a", "uid": uid, "ownerReferences": owners}});
        Object::from_json(object.to_string().as_bytes(), &ObjectOptions::default()).unwrap()
    }

    #[test]
    fn every_object_is_in_one_shard_and_what_it_owns_with_it() {
        let shards: Vec<Shard> = (0..7)
            .filter_map(|index| Shard::new(ShardField::Uid, index, 7))
            .collect();
        for number in 0..200 {
            let uid = format!("uid-{number}");
            let (owner, owned) = (object(&uid, None), object("child", Some(&uid)));
            let own: Vec<u32> = shards
                .iter()
                .filter(|shard| ShardPart::Own((*shard).clone()).has(&owner))
                .map(|shard| shard.index)
                .collect();
            let with: Vec<u32> = shards
                .iter()
                .filter(|shard| ShardPart::owned((*shard).clone()).has(&owned))
                .map(|shard| shard.index)
                .collect();
            assert_eq!((own.len(), &own), (1, &with));
        }
        assert!(Shard::new(ShardField::Uid, 7, 7).is_none());
    }

    #[test]
    fn by_namespace_owned_objects_are_selected_like_their_owners() {
        let shard = Shard::new(ShardField::Namespace, 0, 1).unwrap();
        let part = ShardPart::owned(shard);
        assert!(part.selector().is_some() && part.has(&object("u", None)));
    }
}
