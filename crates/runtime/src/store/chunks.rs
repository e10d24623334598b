//! A sorted sequence with cheap copies: two levels of shared arrays.
//!
//! ```text
//!   spine ─▶ [ chunk, chunk, chunk, … ]      one array of references
//!               │      └▶ [ d, e, f, … ]     up to 256 elements each
//!               └▶ [ a, b, c ]
//! ```
//!
//! A copy is one reference. The first change after a copy clones the spine and one chunk; further changes find them
//! unshared. Reading goes through two slices. For 30,000 elements the spine has some 150 entries. The elements are
//! small and hold few reference counts, so copying a chunk is copying bytes.

use std::cmp::Ordering;
use std::sync::Arc;

/// A chunk is split when it grows beyond this.
const MAX_CHUNK: usize = 256;

/// A chunk is joined with its neighbour if both together have at most this many elements.
const JOIN_AT: usize = MAX_CHUNK / 2;

/// A sorted sequence. The caller defines the order: each search passes its own comparison.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    spine: Arc<Vec<Arc<Vec<T>>>>,
    len: usize,
}

/// A position in a [`Chunks`], valid until the next change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    chunk: usize,
    at: usize,
}

impl<T> Clone for Chunks<T> {
    fn clone(&self) -> Self {
        Self {
            spine: self.spine.clone(),
            len: self.len,
        }
    }
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self {
            spine: Arc::default(),
            len: 0,
        }
    }
}

impl<T> Chunks<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The position of the element that compares equal, or where it would be inserted.
    pub(super) fn find(&self, compare: impl Fn(&T) -> Ordering) -> Result<Place, Place> {
        let place = self.lower_bound(|element| compare(element) == Ordering::Less);
        match self
            .get(place)
            .is_some_and(|element| compare(element) == Ordering::Equal)
        {
            true => Ok(place),
            false => Err(place),
        }
    }

    /// The first position whose element does not satisfy `before`.
    pub(super) fn lower_bound(&self, before: impl Fn(&T) -> bool) -> Place {
        let all_before = |chunk: &Arc<Vec<T>>| chunk.last().is_none_or(&before);
        let chunk = self.spine.partition_point(all_before);
        let at = self
            .spine
            .get(chunk)
            .map_or(0, |chunk| chunk.partition_point(before));
        Place { chunk, at }
    }

    pub(super) fn get(&self, place: Place) -> Option<&T> {
        self.spine.get(place.chunk)?.get(place.at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.spine.iter().flat_map(|chunk| chunk.iter())
    }

    /// The elements from a position on.
    pub(super) fn iter_from(&self, place: Place) -> impl Iterator<Item = &T> + Clone {
        let first = self
            .spine
            .get(place.chunk)
            .map_or(&[][..], |chunk| &chunk[place.at..]);
        let rest = self.spine.get(place.chunk + 1..).unwrap_or_default();
        first.iter().chain(rest.iter().flat_map(|chunk| chunk.iter()))
    }

    /// The position after this one.
    pub(super) fn after(&self, place: Place) -> Place {
        match self.spine.get(place.chunk) {
            Some(chunk) if place.at + 1 >= chunk.len() => Place {
                chunk: place.chunk + 1,
                at: 0,
            },
            _ => Place {
                at: place.at + 1,
                ..place
            },
        }
    }

    /// The first position.
    pub(super) fn start(&self) -> Place {
        Place { chunk: 0, at: 0 }
    }

    /// The position after the last element.
    pub(super) fn end(&self) -> Place {
        Place {
            chunk: self.spine.len(),
            at: 0,
        }
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.spine.last()?.last()
    }

    /// The size of the arrays in bytes, without what the elements refer to.
    pub(super) fn memory_size(&self) -> usize {
        let chunks = self.spine.iter().map(|chunk| chunk.capacity() * size_of::<T>());
        chunks.sum::<usize>() + self.spine.capacity() * size_of::<usize>()
    }
}

impl<T: Clone> Chunks<T> {
    /// Inserts an element at the position a search returned.
    pub(super) fn insert(&mut self, place: Place, element: T) {
        self.len += 1;
        let spine = Arc::make_mut(&mut self.spine);
        // At the end, the last chunk takes it: elements that arrive in order fill chunks completely.
        let at_end = place.chunk == spine.len();
        if at_end && spine.last().is_none_or(|chunk| chunk.len() >= MAX_CHUNK) {
            spine.push(Arc::new(vec![element]));
            return;
        }
        let chunk_at = if at_end { place.chunk - 1 } else { place.chunk };
        let chunk = Arc::make_mut(&mut spine[chunk_at]);
        let at = if at_end { chunk.len() } else { place.at };
        chunk.insert(at, element);
        if chunk.len() > MAX_CHUNK {
            let upper = chunk.split_off(chunk.len() / 2);
            spine.insert(chunk_at + 1, Arc::new(upper));
        }
    }

    /// Removes an element.
    pub(super) fn remove(&mut self, place: Place) -> Option<T> {
        self.get(place)?;
        self.len -= 1;
        let spine = Arc::make_mut(&mut self.spine);
        let chunk = Arc::make_mut(&mut spine[place.chunk]);
        let element = chunk.remove(place.at);
        let left = chunk.len();
        if left == 0 {
            spine.remove(place.chunk);
        } else if spine
            .get(place.chunk + 1)
            .is_some_and(|next| left + next.len() <= JOIN_AT)
        {
            let next = spine.remove(place.chunk + 1);
            Arc::make_mut(&mut spine[place.chunk]).extend(next.iter().cloned());
        }
        Some(element)
    }

    /// Removes the last element.
    pub(super) fn pop(&mut self) -> Option<T> {
        let chunk = self.spine.len().checked_sub(1)?;
        let at = self.spine[chunk].len() - 1;
        self.remove(Place { chunk, at })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find(chunks: &Chunks<u16>, number: u16) -> Result<Place, Place> {
        chunks.find(|element| element.cmp(&number))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

        /// Behaves like a sorted set, and copies do not change.
        #[test]
        fn chunks_do_as_a_sorted_set(steps in prop::collection::vec((any::<bool>(), 0..700_u16), 0..2000)) {
            let mut chunks = Chunks::default();
            let mut set = std::collections::BTreeSet::new();
            let mut copies = Vec::new();
            for (step, (remove, number)) in steps.into_iter().enumerate() {
                match (remove, find(&chunks, number)) {
                    (false, Err(place)) => chunks.insert(place, number),
                    (true, Ok(place)) => prop_assert_eq!(chunks.remove(place), Some(number)),
                    (false, Ok(_)) | (true, Err(_)) => {}
                }
                if remove { set.remove(&number); } else { set.insert(number); }
                if step % 100 == 0 {
                    copies.push((chunks.clone(), set.clone()));
                }
            }
            copies.push((chunks, set));
            for (chunks, set) in copies {
                prop_assert_eq!(chunks.len(), set.len());
                prop_assert!(chunks.iter().eq(set.iter()));
                prop_assert!(chunks.spine.iter().all(|chunk| (1..=MAX_CHUNK).contains(&chunk.len())));
                for from in [0, 350, 699, 700] {
                    let place = chunks.lower_bound(|&number| number < from);
                    prop_assert!(chunks.iter_from(place).eq(set.range(from..)));
                }
            }
        }
    }

    #[test]
    fn elements_that_come_in_order_fill_their_chunks() {
        let mut chunks = Chunks::default();
        for number in 0..10_000_u16 {
            let place = find(&chunks, number).unwrap_err();
            chunks.insert(place, number);
        }
        assert_eq!(chunks.spine.len(), 10_000_usize.div_ceil(MAX_CHUNK));
    }
}
