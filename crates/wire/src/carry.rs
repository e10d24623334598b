//! What a splitter carries from one chunk of a stream to the next.
//!
//! A part that lies within one chunk is handed out as a slice of it. A part that straddles chunks is put together
//! here, in a buffer that is used again.

/// Room that is kept between parts: one oversized object must not stay on a watch's account for hours. 1 MiB.
const KEPT_CAPACITY: usize = 1 << 20;

/// The beginning of a part that is not complete yet, and how far the stream has been read.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    /// Bytes of the stream that have been consumed.
    offset: usize,
    held: Vec<u8>,
    /// The held part was handed out whole, and may go when the next one is asked for.
    is_handed_out: bool,
}

impl Carry {
    /// Lets go of a part that was handed out. The first thing a splitter does when it is asked for the next one.
    pub(crate) fn start_next(&mut self) {
        if std::mem::take(&mut self.is_handed_out) {
            self.held.clear();
            self.held.shrink_to(KEPT_CAPACITY);
        }
    }

    /// Bytes of the stream that have been consumed.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Where the held part began.
    pub(crate) fn start(&self) -> usize {
        self.offset - self.held.len()
    }

    /// What is held of a part that is not complete.
    pub(crate) fn held(&self) -> &[u8] {
        match self.is_handed_out {
            true => &[],
            false => &self.held,
        }
    }

    /// Consumes so many bytes of the chunk.
    pub(crate) fn take<'c>(&mut self, chunk: &mut &'c [u8], length: usize) -> &'c [u8] {
        let (part, rest) = chunk.split_at(length);
        *chunk = rest;
        self.offset += length;
        part
    }

    /// Consumes so many bytes of the chunk and keeps them.
    pub(crate) fn hold(&mut self, chunk: &mut &[u8], length: usize) {
        let part = self.take(chunk, length);
        self.held.extend_from_slice(part);
    }

    /// Forgets what is held.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    /// A whole part, of which `last` came last: itself, or put together with what is held.
    pub(crate) fn complete<'a, 'c: 'a>(&'a mut self, last: &'c [u8]) -> &'a [u8] {
        if self.held.is_empty() {
            return last;
        }
        self.held.extend_from_slice(last);
        self.is_handed_out = true;
        &self.held
    }
}
