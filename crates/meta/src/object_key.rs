//! An object's key within its resource: `namespace/name`, or `name` without a namespace.

use std::fmt;

/// `ns/name` for namespaced objects, `name` for cluster-scoped ones, as in client-go.
///
/// One allocation holds both parts, because caches keep one key per object. Keys sort as plain text, the order in
/// which a server lists: `a-b/x` comes before `a/y`, because `-` is smaller than `/`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    text: Box<str>,
    /// Length of the namespace; 0 means there is no slash.
    namespace_len: u32,
}

impl ObjectKey {
    /// Joins the two parts; an empty namespace means cluster scope.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Self {
                text: name.into(),
                namespace_len: 0,
            };
        }
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        Self {
            text: text.into(),
            namespace_len: namespace.len() as u32,
        }
    }

    /// Reads `ns/name` or `name`. Text with more than one slash is not a key.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            None => Some(Self::new("", text)),
            Some((namespace, name)) if !namespace.is_empty() && !name.contains('/') => {
                Some(Self::new(namespace, name))
            }
            Some(_) => None,
        }
    }

    /// The namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.text[..self.namespace_len as usize]
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.text,
            len => &self.text[len as usize + 1..],
        }
    }

    /// The text: `ns/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_they_print() {
        for (text, namespace, name) in [("ns/a", "ns", "a"), ("a", "", "a")] {
            let key = ObjectKey::parse(text).unwrap();
            assert_eq!(
                (key.namespace(), key.name(), key.as_str()),
                (namespace, name, text)
            );
        }
        for bad in ["a/b/c", "/a"] {
            assert_eq!(ObjectKey::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn keys_order_as_a_server_lists() {
        assert!(ObjectKey::new("a-b", "x") < ObjectKey::new("a", "y"));
    }
}
