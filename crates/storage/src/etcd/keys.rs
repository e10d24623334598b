//! Maps keys of the store to keys in etcd and back.
//!
//! The common prefix of all keys of the store is replaced by the etcd prefix: with `/registry/` and `/other/`,
//! `/registry/pods/default/a` becomes `/other/pods/default/a`. One key below the prefix is not a key of the store: the
//! *fence*, which is written to have a revision to wait for.

use super::EtcdOptions;
use crate::Key;

/// The fence, relative to the prefix.
const FENCE: &str = "/watchkeeper-fence";

/// The keys below one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    replaces: String,
}

/// The meaning of a key in etcd.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A key of the store.
    Key(Key),
    /// The fence.
    Fence,
    /// Not UTF-8, so not one of ours.
    Foreign,
}

impl Keys {
    pub(crate) fn of(options: &EtcdOptions) -> Self {
        Self {
            prefix: options.prefix.clone(),
            replaces: options.replaces.clone(),
        }
    }

    /// The key in etcd; `None` if it lacks the common prefix.
    pub(crate) fn stored(&self, key: &str) -> Option<Vec<u8>> {
        let rest = key.strip_prefix(&self.replaces)?;
        Some(self.below(rest))
    }

    pub(crate) fn fence(&self) -> Vec<u8> {
        self.below(FENCE)
    }

    fn below(&self, rest: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), rest.as_bytes()].concat()
    }

    /// The first key, and the first key beyond the last.
    pub(crate) fn bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let start = self.prefix.clone().into_bytes();
        let mut end = start.clone();
        // UTF-8 has no byte 0xff.
        match end.last_mut() {
            Some(last) => *last += 1,
            // etcd's notation for all keys.
            None => return (vec![0], vec![0]),
        }
        (start, end)
    }

    pub(crate) fn meaning(&self, stored: &[u8]) -> Meaning {
        let rest = stored.strip_prefix(self.prefix.as_bytes());
        match rest.and_then(|rest| std::str::from_utf8(rest).ok()) {
            Some(FENCE) => Meaning::Fence,
            Some(rest) => Meaning::Key(format!("{}{rest}", self.replaces).into()),
            None => Meaning::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(prefix: &str, replaces: &str) -> Keys {
        Keys {
            prefix: prefix.to_owned(),
            replaces: replaces.to_owned(),
        }
    }

    #[test]
    fn keys_survive_the_mapping_and_back() {
        for (prefix, replaces, key, stored) in [
            ("/registry/", "/registry/", "/registry/pods/a", "/registry/pods/a"),
            ("/other/", "/registry/", "/registry/pods/a", "/other/pods/a"),
            ("/other/", "", "/pods/a", "/other//pods/a"),
            ("", "", "k", "k"),
        ] {
            let keys = keys(prefix, replaces);
            assert_eq!(keys.stored(key).unwrap(), stored.as_bytes());
            assert_eq!(keys.meaning(stored.as_bytes()), Meaning::Key(key.into()));
        }
    }

    #[test]
    fn foreign_keys_and_the_fence_are_recognized() {
        let keys = keys("/registry/", "/registry/");
        assert_eq!(keys.stored("/elsewhere"), None);
        assert_eq!(keys.meaning(&keys.fence()), Meaning::Fence);
        assert_eq!(keys.meaning(b"/registry/\xff"), Meaning::Foreign);
        assert_eq!(keys.bounds(), (b"/registry/".to_vec(), b"/registry0".to_vec()));
    }
}
