//! Many similar byte strings in little memory.
//! The objects of one kind, and the versions of one object, differ in few of their bytes. One of them is stored whole;
//! others are stored as a [`delta`](crate::delta) against it. A delta is never taken against another delta, so reading
//! costs one copy however long the history is.

use std::sync::Arc;

use crate::delta;

/// A delta must be smaller than the bytes by this factor. Otherwise the bytes are stored whole, and later ones can be
/// packed against them.
const MIN_GAIN: usize = 3;

/// Bytes, stored whole or as their difference from others. Clones share memory.
#[derive(Clone, Debug)]
pub struct Packed {
    whole: Arc<[u8]>,
    /// `None` if the bytes are `whole`.
    delta: Option<Arc<[u8]>>,
    len: u32,
}

impl Packed {
    /// Packs bytes against the first similar ones that save memory; if none do, they are stored whole.
    pub fn new<'a>(bytes: &[u8], similar: impl IntoIterator<Item = &'a Self>) -> Self {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // Decoding refuses more.
        let is_packable = bytes.len() <= delta::MAX_OBJECT_BYTES;
        let mut similar = similar.into_iter().filter(|_| is_packable);
        let packed = similar.find_map(|other| {
            let delta = delta::encode(&other.whole, bytes);
            (delta.len() < bytes.len() / MIN_GAIN).then(|| (other.whole.clone(), delta))
        });
        match packed {
            Some((whole, delta)) => Self {
                whole,
                delta: Some(delta.into()),
                len,
            },
            None => Self {
                whole: bytes.into(),
                delta: None,
                len,
            },
        }
    }

    /// The bytes.
    pub fn unpack(&self) -> Vec<u8> {
        match &self.delta {
            None => self.whole.to_vec(),
            // A delta that was encoded against these bytes decodes.
            Some(delta) => delta::decode(&self.whole, delta).unwrap_or_default(),
        }
    }

    /// True if the bytes are stored whole, so that others can be packed against them.
    pub fn is_whole(&self) -> bool {
        self.delta.is_none()
    }

    /// The number of bytes when unpacked.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory used for these bytes alone. Those that they are packed against are counted where they are whole.
    pub fn own_size(&self) -> usize {
        self.delta.as_ref().map_or(self.whole.len(), |delta| delta.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pod(name: &str, version: u32) -> Vec<u8> {
        let spec = "image: registry.example.com/shop/front:1.2.3, ".repeat(20);
        format!("{{name: {name}, version: {version}, spec: {spec}}}").into_bytes()
    }

    #[test]
    fn similar_bytes_take_little_memory_and_versions_make_no_chains() {
        let first = Packed::new(&pod("a", 1), []);
        assert!(first.is_whole());
        let mut last = Packed::new(&pod("b", 2), [&first]);
        for version in 3..100 {
            last = Packed::new(&pod("b", version), [&last]);
            assert!(
                Arc::ptr_eq(&last.whole, &first.whole),
                "packed against the whole one"
            );
            assert!(last.own_size() < 30, "{}", last.own_size());
        }
        assert_eq!(last.unpack(), pod("b", 99));
        assert_eq!(last.len(), pod("b", 99).len());
    }

    #[test]
    fn different_bytes_are_whole() {
        let first = Packed::new(&pod("a", 1), []);
        let other = Packed::new(b"nothing like a pod at all", [&first]);
        assert!(other.is_whole());
        let third = Packed::new(&pod("c", 1), [&other, &first]);
        assert!(!third.is_whole(), "the second one is similar");
    }

    proptest! {
        #[test]
        fn bytes_come_back(one in "[ab]{0,200}", other in "[ab]{0,200}", tail in "[ab]{0,9}") {
            let first = Packed::new(one.as_bytes(), []);
            for bytes in [other.clone(), one.clone() + &tail, tail.clone() + &one] {
                prop_assert_eq!(Packed::new(bytes.as_bytes(), [&first]).unpack(), bytes.as_bytes());
            }
        }
    }
}
