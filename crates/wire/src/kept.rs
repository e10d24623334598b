//! A per-thread buffer for the kept bytes of an object while it is read.
//!
//! An object is cut out of a list without its `managedFields` and then copied or decoded. In between its bytes are in
//! a buffer that all objects of a thread reuse, so that a list of thirty thousand objects does not allocate as often.

use std::cell::Cell;

use crate::{Encoding, ObjectOptions, WireError, json, protobuf};

/// A buffer larger than this, grown for one large object, is not kept.
const BUFFER_LIMIT: usize = 256 << 10;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `read` with the bytes that `options` keep.
pub(crate) fn with_kept<T>(
    encoding: Encoding,
    bytes: &[u8],
    options: &ObjectOptions,
    read: impl FnOnce(&[u8]) -> Result<T, WireError>,
) -> Result<T, WireError> {
    if options.keep_managed_fields {
        return read(bytes);
    }
    with_buffer(|kept| {
        copy_without_managed_fields(encoding, bytes, kept)?;
        read(kept)
    })
}

/// Calls `read` with both parts joined.
pub(crate) fn with_joined<T>(front: &[u8], back: &[u8], read: impl FnOnce(&[u8]) -> T) -> T {
    with_buffer(|joined| {
        joined.extend_from_slice(front);
        joined.extend_from_slice(back);
        read(joined)
    })
}

fn with_buffer<T>(fill: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // Taken, not borrowed: `fill` may call this function again.
    let mut buffer = BUFFER.take();
    buffer.clear();
    let result = fill(&mut buffer);
    if buffer.capacity() <= BUFFER_LIMIT {
        BUFFER.set(buffer);
    }
    result
}

fn copy_without_managed_fields(
    encoding: Encoding,
    bytes: &[u8],
    kept: &mut Vec<u8>,
) -> Result<(), WireError> {
    match encoding {
        Encoding::Json => Ok(json::managed_fields::copy_without(bytes, kept)?),
        Encoding::Protobuf => Ok(protobuf::managed_fields::copy_without(bytes, kept)?),
    }
}
