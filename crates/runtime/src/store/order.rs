//! The order of keys in a store, without building keys.

use std::cmp::Ordering;

use watchkeeper_wire::Object;

/// A namespace and a name, compared as the text `namespace/name`, the order in which a server lists. Bytes, because
/// checking UTF-8 again and again was half the cost of a relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRef<'a> {
    pub(super) namespace: &'a [u8],
    pub(super) name: &'a [u8],
}

impl<'a> KeyRef<'a> {
    pub(super) fn of(object: &'a Object) -> Self {
        let (namespace, name) = object.key_bytes();
        Self { namespace, name }
    }

    pub(super) fn new(namespace: &'a str, name: &'a str) -> Self {
        Self {
            namespace: namespace.as_bytes(),
            name: name.as_bytes(),
        }
    }

    pub(super) fn cmp(self, other: Self) -> Ordering {
        let (a, b) = (self.namespace, other.namespace);
        let common = a.len().min(b.len());
        match a[..common].cmp(&b[..common]) {
            Ordering::Equal if a.len() == b.len() => self.name.cmp(other.name),
            // One namespace is a prefix of the other; its text continues with the slash.
            Ordering::Equal if common > 0 && a.len() < b.len() => b'/'.cmp(&b[common]),
            Ordering::Equal if common > 0 => a[common].cmp(&b'/'),
            // Cluster scope and a namespace: no server mixes them, but they have an order.
            Ordering::Equal => self.bytes().cmp(other.bytes()),
            unequal => unequal,
        }
    }

    fn bytes(self) -> impl Iterator<Item = u8> + 'a {
        let slash: &[u8] = if self.namespace.is_empty() { b"" } else { b"/" };
        let parts = [self.namespace, slash, self.name];
        parts.into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_meta::ObjectKey;

    use super::*;

    #[test]
    fn orders_as_object_keys_do() {
        let keys = ["a/y", "a/z", "a-b/x", "a.b/x", "a0/x", "ab/a", "b", "a", ""];
        for a in keys {
            for b in keys {
                let (a, b) = (ObjectKey::parse(a).unwrap(), ObjectKey::parse(b).unwrap());
                let parts = |key: &'static ObjectKey| KeyRef::new(key.namespace(), key.name());
                let (a, b): (&'static _, &'static _) = (Box::leak(Box::new(a)), Box::leak(Box::new(b)));
                assert_eq!(parts(a).cmp(parts(b)), a.cmp(b), "{a} {b}");
            }
        }
    }
}
