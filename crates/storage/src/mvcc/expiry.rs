//! The keys that expire, by time.

use std::collections::{BTreeSet, HashMap};

use crate::Key;
use crate::model::UnixMillis;

/// The keys with a time to live.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expiry {
    by_time: BTreeSet<(UnixMillis, Key)>,
    by_key: HashMap<Key, UnixMillis>,
}

impl Expiry {
    /// Sets, moves or, with `None`, removes the expiry of a key.
    pub(crate) fn set(&mut self, key: &Key, expires_at: Option<UnixMillis>) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(time) = expires_at {
            self.by_key.insert(key.clone(), time);
            self.by_time.insert((time, key.clone()));
        }
    }

    /// True if a key expires.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// The expiry time of a key.
    pub(crate) fn of(&self, key: &str) -> Option<UnixMillis> {
        self.by_key.get(key).copied()
    }

    /// The time of the next expiry.
    pub(crate) fn next(&self) -> Option<UnixMillis> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// The expired keys, the most overdue first.
    pub(crate) fn due(&self, now: UnixMillis) -> impl Iterator<Item = &Key> {
        self.by_time
            .iter()
            .take_while(move |(time, _)| *time <= now)
            .map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_expire_in_order_and_can_be_moved() {
        let mut expiry = Expiry::default();
        for (key, time) in [
            ("b", Some(20)),
            ("a", Some(30)),
            ("c", Some(10)),
            ("c", None),
            ("a", Some(5)),
        ] {
            expiry.set(&Key::from(key), time);
        }
        assert_eq!(expiry.next(), Some(5));
        let due = |now| expiry.due(now).map(|key| &**key).collect::<Vec<_>>();
        assert_eq!(due(4), [""; 0]);
        assert_eq!(due(5), ["a"]);
        assert_eq!(due(100), ["a", "b"]);
    }
}
