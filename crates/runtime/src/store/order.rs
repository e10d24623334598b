//! The order of keys in a store, without making keys.

use std::cmp::Ordering;

use watchkeeper_wire::Object;

/// A namespace and a name, compared as the text `namespace/name`: how a server lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRef<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl<'a> KeyRef<'a> {
    pub(super) fn of(object: &'a Object) -> Self {
        Self {
            namespace: object.namespace(),
            name: object.name(),
        }
    }

    pub(super) fn cmp(self, other: Self) -> Ordering {
        let (a, b) = (self.namespace.as_bytes(), other.namespace.as_bytes());
        let common = a.len().min(b.len());
        match a[..common].cmp(&b[..common]) {
            Ordering::Equal if a.len() == b.len() => self.name.cmp(other.name),
            // One namespace begins with the other, whose text goes on with the slash.
            Ordering::Equal if common > 0 && a.len() < b.len() => b'/'.cmp(&b[common]),
            Ordering::Equal if common > 0 => a[common].cmp(&b'/'),
            // Cluster scope beside a namespace: no server lists that, and still it has an order.
            Ordering::Equal => self.bytes().cmp(other.bytes()),
            unequal => unequal,
        }
    }

    fn bytes(self) -> impl Iterator<Item = u8> + 'a {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        let parts = [self.namespace, slash, self.name];
        parts.into_iter().flat_map(str::bytes)
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
                let parts = |key: &'static ObjectKey| KeyRef {
                    namespace: key.namespace(),
                    name: key.name(),
                };
                let (a, b): (&'static _, &'static _) = (Box::leak(Box::new(a)), Box::leak(Box::new(b)));
                assert_eq!(parts(a).cmp(parts(b)), a.cmp(b), "{a} {b}");
            }
        }
    }
}
