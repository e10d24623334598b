//! Streaming gzip decoder: chunks in, plain bytes out, any number of concatenated members.
//!
//! Kubernetes 1.37 compresses a watch as one gzip member per event. Each chunk is decoded as soon as it arrives, so
//! no event waits for the next one.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// The size of an input slice. It bounds the output of one step: gzip expands at most about a thousandfold.
const SLICE: usize = 8 << 10;

/// The size of an output chunk.
const OUTPUT: usize = 64 << 10;

/// The decoder of one body.
pub(crate) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// Input that is not decoded yet.
    input: Bytes,
}

impl Gunzip {
    pub(crate) fn new() -> Self {
        Self {
            decoder: MultiGzDecoder::new(Vec::new()),
            input: Bytes::new(),
        }
    }

    /// Adds the next chunk of the body. The previous one must be used up.
    pub(crate) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.input.is_empty());
        self.input = chunk;
    }

    /// The next plain bytes; `None` if more input is needed.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() && self.decoder.get_ref().len() < OUTPUT {
            let slice = &self.input[..self.input.len().min(SLICE)];
            let used = self.decoder.write(slice)?;
            if used == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "gzip stream does not advance",
                ));
            }
            self.input = self.input.slice(used..);
        }
        // Output still buffered in the decoder belongs to events that have arrived.
        self.decoder.flush()?;
        let output = std::mem::take(self.decoder.get_mut());
        Ok((!output.is_empty()).then(|| output.into()))
    }

    /// The body has ended: a truncated member is an error.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.decoder.try_finish()
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn drain(gunzip: &mut Gunzip) -> String {
        let mut out = Vec::new();
        while let Some(bytes) = gunzip.next().unwrap() {
            out.extend_from_slice(&bytes);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_member_comes_out_when_it_has_arrived() {
        let mut gunzip = Gunzip::new();
        for event in ["one\n", "two\n", "three\n"] {
            gunzip.feed(member(event).into());
            assert_eq!(drain(&mut gunzip), event);
        }
        gunzip.finish().unwrap();
    }

    #[test]
    fn any_chunking_gives_the_same_bytes() {
        let whole = [member("hello "), member(""), member("world")].concat();
        for size in 1..=whole.len() {
            let mut gunzip = Gunzip::new();
            let mut out = String::new();
            for chunk in whole.chunks(size) {
                gunzip.feed(Bytes::copy_from_slice(chunk));
                out += &drain(&mut gunzip);
            }
            gunzip.finish().unwrap();
            assert_eq!(out, "hello world", "chunks of {size}");
        }
    }

    #[test]
    fn a_member_cut_short_is_an_error() {
        let whole = member("hello world, hello world, hello world");
        for end in 1..whole.len() {
            let mut gunzip = Gunzip::new();
            gunzip.feed(Bytes::copy_from_slice(&whole[..end]));
            let result = gunzip.next().and_then(|_| gunzip.finish());
            assert!(result.is_err(), "cut at {end} of {}", whole.len());
        }
    }

    #[test]
    fn text_that_is_not_gzip_is_an_error() {
        let mut gunzip = Gunzip::new();
        gunzip.feed(Bytes::from_static(b"<html>not compressed</html>"));
        assert!(gunzip.next().is_err());
    }
}
