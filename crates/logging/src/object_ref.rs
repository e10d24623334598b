//! A reference to an object in a message: `namespace/name`.

use std::fmt;

/// Prints as `namespace/name`, or `name` without a namespace.
///
/// ```
/// use watchkeeper_logging::ObjectRef;
///
/// assert_eq!(ObjectRef::new("kube-system", "coredns").to_string(), "kube-system/coredns");
/// assert_eq!(ObjectRef::new("", "default").to_string(), "default");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRef<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> ObjectRef<'a> {
    /// Names an object; the namespace may be empty.
    pub fn new(namespace: &'a str, name: &'a str) -> Self {
        Self { namespace, name }
    }
}

impl fmt::Display for ObjectRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(self.name)
    }
}
