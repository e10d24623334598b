//! The annotations that admission adds to the audit event of a request.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Annotations of one event; further ones are dropped.
const MAX_ANNOTATIONS: usize = 128;

/// The length of one value, as Kubernetes cuts what policies say.
const MAX_VALUE_BYTES: usize = 10 * 1024;

/// The annotations of one request's audit event. The first value of a key stays, as in Kubernetes.
#[derive(Debug, Default)]
pub struct AuditAnnotations {
    /// True if the event shows the request's object, and so what webhooks changed in it.
    pub shows_request: bool,
    added: Mutex<BTreeMap<String, String>>,
}

impl AuditAnnotations {
    /// The annotations of an event that shows the request's object, or does not.
    pub fn new(shows_request: bool) -> Self {
        Self {
            shows_request,
            added: Mutex::default(),
        }
    }

    /// Adds an annotation, unless its key is taken or there are too many.
    pub(crate) fn add(&self, key: String, mut value: String) {
        value.truncate(value.floor_char_boundary(MAX_VALUE_BYTES));
        self.add_whole(key, value);
    }

    /// Adds an annotation of any length: a webhook's patch, which the limit of its answer bounds.
    pub(crate) fn add_whole(&self, key: String, value: String) {
        let mut annotations = self.added.lock();
        if annotations.len() < MAX_ANNOTATIONS {
            annotations.entry(key).or_insert(value);
        }
    }

    /// All annotations so far.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.added.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays_and_both_limits_hold() {
        let annotations = AuditAnnotations::default();
        annotations.add("a".to_owned(), "1".to_owned());
        annotations.add("a".to_owned(), "2".to_owned());
        annotations.add("long".to_owned(), "ü".repeat(MAX_VALUE_BYTES));
        for number in 0..2 * MAX_ANNOTATIONS {
            annotations.add(format!("n{number}"), String::new());
        }
        let all = annotations.all();
        assert_eq!((all.len(), &*all["a"]), (MAX_ANNOTATIONS, "1"));
        assert_eq!(all["long"].len(), MAX_VALUE_BYTES);
    }
}
