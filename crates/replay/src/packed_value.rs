//! A recorded version in the store: packed, until it is read.

use std::sync::Arc;

use bytes::Bytes;
use watchkeeper_recording::Packed;
use watchkeeper_storage::{LateValue, Value};

#[derive(Debug)]
pub(crate) struct PackedValue(Packed);

impl PackedValue {
    pub(crate) fn shared(packed: Packed) -> Value {
        Value::Late(Arc::new(Self(packed)))
    }
}

impl LateValue for PackedValue {
    fn bytes(&self) -> Bytes {
        self.0.unpack().into()
    }

    fn size(&self) -> usize {
        self.0.len()
    }
}
