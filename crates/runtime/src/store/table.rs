//! Slots by key hash: a shallow tree with cheap copies.
//!
//! ```text
//!   root ─▶ [ 16 children ] ─▶ [ 16 children ] ─▶ … ─▶ leaf: up to 512 of (hash, slot), in the order of hashes
//! ```
//!
//! Each level uses four bits of the hash. A copy is one reference; a change after a copy clones one array per level
//! and one leaf. Hashes are evenly distributed, so the position within a leaf is estimated by interpolation. For
//! 30,000 objects a look-up reads two arrays, which stay in the CPU caches, one or two cache lines of a leaf, and the
//! one object whose hash matches. A search in the key order ([`super::chunks`]) would compare some fifteen objects,
//! scattered in memory.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use watchkeeper_wire::Object;

use super::order::KeyRef;
use super::slots::{Slot, Slots};

/// Bits of the hash per level.
const BITS: u32 = 4;

/// Children of an inner node.
const FAN_OUT: usize = 1 << BITS;

/// A larger leaf becomes an inner node, unless all bits of the hash are used.
const MAX_LEAF: usize = 512;

/// The keys of a snapshot with their slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    root: Node,
    /// Random, so that nobody can choose names that collide.
    seed: RandomState,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Arc<Vec<Entry>>),
    Inner(Arc<[Node; FAN_OUT]>),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    slot: Slot,
}

impl Default for Node {
    fn default() -> Self {
        Self::Leaf(Arc::default())
    }
}

impl Table {
    /// The object with this key, and its slot.
    pub(super) fn find<'a>(&self, key: KeyRef<'_>, slots: &'a Slots) -> Option<(Slot, &'a Object)> {
        let hash = self.hash(key);
        let (mut node, mut rest) = (&self.root, hash);
        let leaf = loop {
            match node {
                Node::Leaf(leaf) => break leaf,
                Node::Inner(children) => node = &children[child(rest)],
            }
            rest >>= BITS;
        };
        let of_hash = leaf[first(leaf, hash)..]
            .iter()
            .take_while(|entry| entry.hash == hash);
        let mut objects = of_hash.filter_map(|entry| Some((entry.slot, slots.get(entry.slot)?)));
        objects.find(|(_, object)| KeyRef::of(object) == key)
    }

    /// Adds a key that is not in the table.
    pub(super) fn insert(&mut self, key: KeyRef<'_>, slot: Slot) {
        let hash = self.hash(key);
        self.root.insert(Entry { hash, slot }, 0);
    }

    /// Removes a key. Nodes are not joined again: a store that has shrunk will grow.
    pub(super) fn remove(&mut self, key: KeyRef<'_>, slot: Slot) {
        let mut rest = self.hash(key);
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return Arc::make_mut(leaf).retain(|entry| entry.slot != slot),
                Node::Inner(children) => node = &mut Arc::make_mut(children)[child(rest)],
            }
            rest >>= BITS;
        }
    }

    /// The size of the arrays in bytes.
    pub(super) fn memory_size(&self) -> usize {
        self.root.memory_size()
    }

    fn hash(&self, key: KeyRef<'_>) -> u32 {
        self.seed.hash_one((key.namespace, key.name)) as u32
    }
}

impl Node {
    fn insert(&mut self, entry: Entry, depth: u32) {
        let used = depth * BITS;
        match self {
            Self::Inner(children) => {
                Arc::make_mut(children)[child(entry.hash >> used)].insert(entry, depth + 1);
            }
            Self::Leaf(leaf) => {
                let leaf = Arc::make_mut(leaf);
                leaf.insert(first(leaf, entry.hash), entry);
                if leaf.len() > MAX_LEAF && used < u32::BITS {
                    *self = Self::split(std::mem::take(leaf), used);
                }
            }
        }
    }

    fn split(entries: Vec<Entry>, used: u32) -> Self {
        let mut children: [Vec<Entry>; FAN_OUT] = Default::default();
        for entry in entries {
            children[child(entry.hash >> used)].push(entry);
        }
        Self::Inner(Arc::new(children.map(|entries| Self::Leaf(Arc::new(entries)))))
    }

    fn memory_size(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.capacity() * size_of::<Entry>() + size_of::<Vec<Entry>>(),
            Self::Inner(children) => {
                size_of::<[Self; FAN_OUT]>() + children.iter().map(Self::memory_size).sum::<usize>()
            }
        }
    }
}

/// The position of the first entry of a hash in a leaf, or where it would be. The search starts at the expected
/// position.
fn first(leaf: &[Entry], hash: u32) -> usize {
    let mut at = ((u64::from(hash) * leaf.len() as u64) >> u32::BITS) as usize;
    while at > 0 && leaf[at - 1].hash >= hash {
        at -= 1;
    }
    while at < leaf.len() && leaf[at].hash < hash {
        at += 1;
    }
    at
}

/// The child for the lowest bits.
fn child(hash: u32) -> usize {
    hash as usize % FAN_OUT
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::store::tests::object;

    /// Enough for leaves to split.
    const KEYS: Slot = 1000;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..Default::default() })]

        /// Behaves like a hash map, and copies do not change.
        #[test]
        fn a_table_does_as_a_map(steps in prop::collection::vec((0..4_u8, 0..KEYS), 0..3000)) {
            let (mut table, mut map) = (Table::default(), HashMap::new());
            let mut slots = Slots::default();
            let objects: Vec<_> = (0..KEYS).map(|number| object(&format!("n{}/x{number}@1", number % 3))).collect();
            for object in &objects {
                slots.insert(object.clone());
            }
            let mut copies = Vec::new();
            for (step, (what, slot)) in steps.into_iter().enumerate() {
                let key = KeyRef::of(&objects[slot as usize]);
                match (what, map.contains_key(&slot)) {
                    (0, _) => {
                        table.remove(key, slot);
                        map.remove(&slot);
                    }
                    (_, false) => {
                        table.insert(key, slot);
                        map.insert(slot, ());
                    }
                    (_, true) => {}
                }
                if step % 400 == 0 {
                    copies.push((table.clone(), map.clone()));
                }
            }
            copies.push((table, map));
            for (table, map) in copies {
                for slot in 0..KEYS {
                    let found = table.find(KeyRef::of(&objects[slot as usize]), &slots);
                    prop_assert_eq!(found.map(|(slot, _)| slot), map.contains_key(&slot).then_some(slot));
                }
            }
        }
    }

    #[test]
    fn keys_of_one_hash_share_a_leaf_however_many_they_are() {
        let mut root = Node::default();
        for slot in 0..600 {
            root.insert(Entry { hash: 7, slot }, 0);
        }
        let (mut node, mut depth) = (&root, 0);
        while let Node::Inner(children) = node {
            node = &children[child(7 >> (depth * BITS))];
            depth += 1;
        }
        assert!(matches!(node, Node::Leaf(leaf) if leaf.len() == 600));
        assert_eq!(depth, u32::BITS / BITS, "as deep as the hash is long");
    }
}
