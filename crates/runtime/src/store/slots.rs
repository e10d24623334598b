//! Objects by number: a tree with cheap copies, in which an object keeps its slot as long as it exists.
//!
//! ```text
//!   root ─▶ [ 16 children ] ─▶ [ 16 children ] ─▶ … ─▶ leaf: 16 places, each an object or nothing
//! ```
//!
//! A copy is one reference. A change after a copy clones one array per level; the structures that refer to objects by
//! number are not affected. An update, the most frequent event, therefore costs four arrays of sixteen for 30,000
//! objects, however many orders and indexes there are.

use std::sync::Arc;

use watchkeeper_wire::Object;

use super::chunks::Chunks;

/// The number of an object.
pub(super) type Slot = u32;

/// Bits of a slot per level.
const BITS: u32 = 4;
const FAN_OUT: usize = 1 << BITS;

/// All objects of a snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    root: Node,
    /// Levels above the leaves.
    depth: u32,
    /// The number of slots ever allocated.
    given: Slot,
    /// The free slots, the last freed last.
    free: Chunks<Slot>,
    len: usize,
}

#[derive(Clone, Debug, Default)]
enum Node {
    #[default]
    Empty,
    Leaf(Arc<[Option<Object>; FAN_OUT]>),
    Inner(Arc<[Node; FAN_OUT]>),
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The object in a slot.
    pub(super) fn get(&self, slot: Slot) -> Option<&Object> {
        let (mut node, mut level) = (&self.root, self.depth);
        loop {
            match node {
                Node::Empty => return None,
                Node::Inner(children) => node = &children[position(slot, level)],
                Node::Leaf(places) => return places[position(slot, 0)].as_ref(),
            }
            level = level.saturating_sub(1);
        }
    }

    /// Stores an object in a free slot.
    pub(super) fn insert(&mut self, object: Object) -> Slot {
        self.len += 1;
        let slot = self.free.pop().unwrap_or(self.given);
        if slot == self.given {
            self.make_room();
            self.given += 1;
        }
        *self.place(slot) = Some(object);
        slot
    }

    /// Replaces the object of a slot.
    pub(super) fn replace(&mut self, slot: Slot, object: Object) -> Option<Object> {
        self.place(slot).replace(object)
    }

    /// Frees a slot.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Object> {
        self.len -= 1;
        self.free.insert(self.free.end(), slot);
        self.place(slot).take()
    }

    /// Calls `visit` with both sides of each slot in which two copies differ. Shared nodes are skipped, so the cost
    /// is that of the changes.
    pub(super) fn compare(&self, newer: &Self, mut visit: impl FnMut(Option<&Object>, Option<&Object>)) {
        let depth = self.depth.max(newer.depth);
        Node::compare(&self.root_at(depth), &newer.root_at(depth), &mut visit);
    }

    /// The size of the arrays in bytes, without the objects.
    pub(super) fn memory_size(&self) -> usize {
        self.root.memory_size() + self.free.memory_size()
    }

    fn place(&mut self, slot: Slot) -> &mut Option<Object> {
        let (mut node, mut level) = (&mut self.root, self.depth);
        loop {
            if let Node::Empty = node {
                *node = match level {
                    0 => Node::Leaf(Arc::default()),
                    _ => Node::Inner(Arc::default()),
                };
            }
            match node {
                Node::Inner(children) => node = &mut Arc::make_mut(children)[position(slot, level)],
                Node::Leaf(places) => return &mut Arc::make_mut(places)[position(slot, 0)],
                Node::Empty => unreachable!("it was filled above"),
            }
            level = level.saturating_sub(1);
        }
    }

    fn make_room(&mut self) {
        if u64::from(self.given) == 1 << (BITS * (self.depth + 1)) {
            self.root = self.root_at(self.depth + 1);
            self.depth += 1;
        }
    }

    /// The same tree with this many levels.
    fn root_at(&self, depth: u32) -> Node {
        (self.depth..depth).fold(self.root.clone(), |root, _| {
            let mut children: [Node; FAN_OUT] = Default::default();
            children[0] = root;
            Node::Inner(Arc::new(children))
        })
    }
}

impl Node {
    fn compare(old: &Self, new: &Self, visit: &mut impl FnMut(Option<&Object>, Option<&Object>)) {
        match (old, new) {
            (Self::Leaf(old), Self::Leaf(new)) if !Arc::ptr_eq(old, new) => {
                let places = old.iter().zip(new.iter());
                places.for_each(|(old, new)| visit(old.as_ref(), new.as_ref()));
            }
            (Self::Inner(old), Self::Inner(new)) if !Arc::ptr_eq(old, new) => {
                let children = old.iter().zip(new.iter());
                children.for_each(|(old, new)| Self::compare(old, new, visit));
            }
            (Self::Empty, new) => new.each(&mut |object| visit(None, Some(object))),
            (old, Self::Empty) => old.each(&mut |object| visit(Some(object), None)),
            // Shared. (Nodes of one level are always of one kind.)
            _ => {}
        }
    }

    fn each(&self, visit: &mut impl FnMut(&Object)) {
        match self {
            Self::Empty => {}
            Self::Leaf(places) => places.iter().flatten().for_each(visit),
            Self::Inner(children) => children.iter().for_each(|child| child.each(visit)),
        }
    }

    fn memory_size(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Leaf(_) => size_of::<[Option<Object>; FAN_OUT]>(),
            Self::Inner(children) => {
                size_of::<[Self; FAN_OUT]>() + children.iter().map(Self::memory_size).sum::<usize>()
            }
        }
    }
}

/// The index of a slot within its node of a level; the leaves are level 0.
fn position(slot: Slot, level: u32) -> usize {
    (slot >> (BITS * level)) as usize % FAN_OUT
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::store::tests::object;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

        /// Behaves like a map from numbers to objects, and copies do not change.
        #[test]
        fn slots_do_as_a_map(steps in prop::collection::vec((0..4_u8, any::<u16>()), 0..1500)) {
            let (mut slots, mut map) = (Slots::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (step, (what, number)) in steps.into_iter().enumerate() {
                let object = object(&format!("a/x@{}", step + 1));
                let taken = map.keys().nth(usize::from(number) % map.len().max(1)).copied();
                match (what, taken) {
                    (0, Some(slot)) => prop_assert_eq!(slots.remove(slot), map.remove(&slot)),
                    (1, Some(slot)) => {
                        let old = slots.replace(slot, object.clone());
                        prop_assert_eq!(old, map.insert(slot, object));
                    }
                    _ => {
                        let slot = slots.insert(object.clone());
                        prop_assert!(map.insert(slot, object).is_none(), "the slot was taken");
                    }
                }
                if step % 200 == 0 {
                    copies.push((slots.clone(), map.clone()));
                }
            }
            copies.push((slots, map));
            for (slots, map) in &copies {
                prop_assert_eq!(slots.len(), map.len());
                for slot in 0..slots.given {
                    prop_assert_eq!(slots.get(slot), map.get(&slot));
                }
            }
            for pair in copies.windows(2) {
                let ((old, old_map), (new, new_map)) = (&pair[0], &pair[1]);
                let (mut gone, mut come) = (Vec::new(), Vec::new());
                old.compare(new, |old, new| if old != new {
                    gone.extend(old.cloned());
                    come.extend(new.cloned());
                });
                let differs = |map: &BTreeMap<Slot, Object>, slot: &Slot, object: &Object| map.get(slot) != Some(object);
                let lost: Vec<_> = old_map.iter().filter(|(slot, object)| differs(new_map, slot, object)).map(|(_, object)| object.clone()).collect();
                let won: Vec<_> = new_map.iter().filter(|(slot, object)| differs(old_map, slot, object)).map(|(_, object)| object.clone()).collect();
                prop_assert_eq!(gone, lost);
                prop_assert_eq!(come, won);
            }
        }
    }

    #[test]
    fn freed_slots_are_given_out_again() {
        let mut slots = Slots::default();
        let given: Vec<Slot> = (0..40).map(|_| slots.insert(object("a/x@1"))).collect();
        for slot in &given[10..20] {
            slots.remove(*slot);
        }
        let again: Vec<Slot> = (0..11).map(|_| slots.insert(object("a/x@2"))).collect();
        assert_eq!(again[..10], [19, 18, 17, 16, 15, 14, 13, 12, 11, 10]);
        assert_eq!(again[10], 40);
    }
}
