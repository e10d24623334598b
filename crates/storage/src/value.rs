//! The value of a key, with its bytes or with the way to make them.
//!
//! Values that are written are kept as they are. Those that are seldom read, or have much in common, take less memory if
//! their bytes are made when they are read: [`LateValue`]. Readers pass a value on as it is, and make its bytes only
//! where they need them, for as long as they need them. So a list of many objects has the bytes of one of them at a time.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

/// A value of the store. Clones share memory.
#[derive(Clone, Debug)]
pub enum Value {
    /// Its bytes.
    Bytes(Bytes),
    /// Bytes that are made when they are read.
    Late(Arc<dyn LateValue>),
}

/// Makes the bytes of a value.
pub trait LateValue: Debug + Send + Sync {
    /// The same bytes with every call.
    fn bytes(&self) -> Bytes;

    /// The number of these bytes.
    fn size(&self) -> usize;
}

impl Value {
    /// The bytes: shared, or made now.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Late(late) => late.bytes(),
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Late(late) => late.size(),
        }
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.bytes() == other.bytes()
    }
}

impl Eq for Value {}

impl<T: Into<Bytes>> From<T> for Value {
    fn from(bytes: T) -> Self {
        Self::Bytes(bytes.into())
    }
}
