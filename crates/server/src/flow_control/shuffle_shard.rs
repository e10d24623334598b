//! Shuffle sharding: deals each flow a hand of a level's queues, by its hash.
//!
//! Two flows rarely have the same hand. A flood fills the queues of its own hand, and nearly every other flow has a
//! queue that is not among them.

/// The limit on hand size. Validation allows at most 60 bits of hash for a hand, which is 20 cards of a deck of 20.
const MAX_HAND: usize = 32;

/// The queues of a hand, without duplicates.
pub(super) fn hand(hash: u64, queues: u32, size: u32) -> impl Iterator<Item = u32> {
    let size = (size as usize).min(MAX_HAND).min(queues as usize);
    let (mut left, mut dealt) = (hash, [0; MAX_HAND]);
    for index in 0..size {
        let deck = u64::from(queues) - index as u64;
        let mut card = (left % deck) as u32;
        left /= deck;
        // The card is the nth of the remaining ones: those dealt before, from the lowest on, are skipped.
        let mut place = 0;
        while place < index && dealt[place] <= card {
            card += 1;
            place += 1;
        }
        dealt[place..=index].rotate_right(1);
        dealt[place] = card;
    }
    dealt.into_iter().take(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(hash: u64, queues: u32, size: u32) -> Vec<u32> {
        hand(hash, queues, size).collect()
    }

    #[test]
    fn a_hand_has_distinct_queues() {
        for _ in 0..10_000 {
            let (hash, queues) = (fastrand::u64(..), fastrand::u32(1..200));
            let size = fastrand::u32(1..=queues.min(20));
            let mut cards = dealt(hash, queues, size);
            assert!(cards.is_sorted(), "{cards:?}");
            cards.dedup();
            assert_eq!(cards.len(), size as usize);
            assert!(cards.iter().all(|card| *card < queues), "{cards:?} of {queues}");
        }
    }

    #[test]
    fn all_hands_are_dealt() {
        let mut hands: Vec<_> = (0..20).map(|hash| dealt(hash, 5, 2)).collect();
        hands.sort();
        hands.dedup();
        assert_eq!(hands.len(), 10);
    }
}
