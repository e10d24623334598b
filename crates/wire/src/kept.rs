//! What is kept of an object, for as long as it takes to read it.
//!
//! An object is cut out of a list without its `managedFields`, and then copied or decoded; in between it lies in a
//! buffer that every object of a thread uses in turn, so that a list of thirty thousand does not allocate as many.

use std::cell::Cell;

use crate::{Encoding, ObjectOptions, WireError, json, protobuf};

/// A buffer that has grown beyond this for one large object is not kept for the small ones.
const BUFFER_LIMIT: usize = 256 << 10;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `read` with the bytes that `options` want to keep.
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

/// Calls `read` with both parts in one piece.
pub(crate) fn with_joined<T>(front: &[u8], back: &[u8], read: impl FnOnce(&[u8]) -> T) -> T {
    with_buffer(|joined| {
        joined.extend_from_slice(front);
        joined.extend_from_slice(back);
        read(joined)
    })
}

fn with_buffer<T>(fill: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // Taken, not borrowed: whatever `fill` calls may come here again.
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
