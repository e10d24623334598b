//! The state a splitter carries from one chunk of a stream to the next.
//!
//! A part within one chunk is returned as a slice of it. A part that straddles chunks is assembled here, in a reused
//! buffer.

/// The capacity kept between parts: one oversized object must not occupy memory for the rest of a long watch.
const KEPT_CAPACITY: usize = 1 << 20;

/// The beginning of an incomplete part, and the offset in the stream.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    /// Bytes of the stream consumed so far.
    offset: usize,
    held: Vec<u8>,
    /// The held part was returned whole and is dropped on the next call.
    is_handed_out: bool,
}

impl Carry {
    /// Drops a part that was returned. A splitter calls this first when asked for the next part.
    pub(crate) fn start_next(&mut self) {
        if std::mem::take(&mut self.is_handed_out) {
            self.held.clear();
            self.held.shrink_to(KEPT_CAPACITY);
        }
    }

    /// Bytes of the stream consumed so far.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// The offset at which the held part began.
    pub(crate) fn start(&self) -> usize {
        self.offset - self.held.len()
    }

    /// The held bytes of an incomplete part.
    pub(crate) fn held(&self) -> &[u8] {
        match self.is_handed_out {
            true => &[],
            false => &self.held,
        }
    }

    /// Consumes `length` bytes of the chunk.
    pub(crate) fn take<'c>(&mut self, chunk: &mut &'c [u8], length: usize) -> &'c [u8] {
        let (part, rest) = chunk.split_at(length);
        *chunk = rest;
        self.offset += length;
        part
    }

    /// Consumes `length` bytes of the chunk and keeps them.
    pub(crate) fn hold(&mut self, chunk: &mut &[u8], length: usize) {
        let part = self.take(chunk, length);
        self.held.extend_from_slice(part);
    }

    /// Drops the held bytes.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    /// Returns a complete part that ends with `last`: `last` itself, or joined to the held bytes.
    pub(crate) fn complete<'a, 'c: 'a>(&'a mut self, last: &'c [u8]) -> &'a [u8] {
        if self.held.is_empty() {
            return last;
        }
        self.held.extend_from_slice(last);
        self.is_handed_out = true;
        &self.held
    }
}
