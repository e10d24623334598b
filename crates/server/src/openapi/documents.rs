//! Encoded OpenAPI documents, each generated once per catalog.
//!
//! A document is a tree of all types of a group version and takes tens of milliseconds of CPU time. Its hash is known
//! without it, so a client that has the document costs only a lookup.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// The generated documents of one catalog.
#[derive(Default)]
pub(crate) struct Documents {
    made: Mutex<HashMap<String, Bytes>>,
    hashes: Mutex<HashMap<String, Arc<str>>>,
}

impl Documents {
    /// A document, generated on first use. Concurrent requests wait, so that none is generated twice. `name` must be
    /// that of an existing document; a catalog has a fixed number of them.
    pub(crate) fn get(&self, name: &str, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        let mut made = self.made.lock();
        match made.get(name) {
            Some(bytes) => bytes.clone(),
            None => {
                let bytes = Bytes::from(make());
                made.insert(name.to_owned(), bytes.clone());
                bytes
            }
        }
    }

    /// The hash of a document, likewise.
    pub(crate) fn hash(&self, name: &str, make: impl FnOnce() -> String) -> Arc<str> {
        let mut hashes = self.hashes.lock();
        match hashes.get(name) {
            Some(hash) => hash.clone(),
            None => {
                let hash: Arc<str> = make().into();
                hashes.insert(name.to_owned(), hash.clone());
                hash
            }
        }
    }
}

impl Clone for Documents {
    /// Another catalog has its own documents.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.made.lock().keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_generated_once_per_catalog() {
        let documents = Documents::default();
        let first = documents.get("v2", || b"{}".to_vec());
        let again = documents.get("v2", || unreachable!("it is there"));
        assert_eq!(first.as_ptr(), again.as_ptr());
        assert_eq!(documents.clone().get("v2", || b"[]".to_vec()), "[]");
        documents.hash("api", || "1".to_owned());
        assert_eq!(&*documents.hash("api", || unreachable!("it is there")), "1");
    }
}
