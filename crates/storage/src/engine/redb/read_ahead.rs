//! Reads the data file ahead while it is opened.
//!
//! After a crash redb walks its trees twice, page by page, and recovery reads all rows once more: three system calls per
//! page, which take more time than the rest of a start. Rows are appended, so neighbours in a tree are mostly neighbours
//! in the file. Pieces of the file are read at once and kept until it is open.

use std::io;

use parking_lot::Mutex;
use redb::StorageBackend;

/// A piece is read at once. redb's pages do not cross its borders, because both are powers of two; larger pages are not
/// read ahead.
const PIECE_BYTES: u64 = 256 << 10;

/// The limit on pieces that are kept: 16 MiB.
const MAX_PIECES: usize = 64;

/// The pieces of a file; `None` if it is not read ahead, which is the default.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead(Mutex<Option<Vec<Piece>>>);

#[derive(Clone, Debug, Default)]
struct Piece {
    /// `None` if it was not read.
    number: Option<u64>,
    bytes: Vec<u8>,
}

impl ReadAhead {
    pub(crate) fn begin() -> Self {
        Self(Mutex::new(Some(vec![Piece::default(); MAX_PIECES])))
    }

    /// Frees the pieces; from now on, reads go to the file.
    pub(crate) fn end(&self) {
        *self.0.lock() = None;
    }

    /// Forgets what was read, before the file changes.
    pub(crate) fn forget(&self) {
        for piece in self.0.lock().iter_mut().flatten() {
            piece.number = None;
        }
    }

    /// Reads from a piece, or from the file if the piece does not have all of it.
    pub(crate) fn read(&self, file: &dyn StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self
            .0
            .lock()
            .as_mut()
            .and_then(|pieces| found(pieces, file, offset, out.len()))
        {
            Some(found) => out.copy_from_slice(found),
            None => return file.read(offset, out),
        }
        Ok(())
    }
}

fn found<'p>(
    pieces: &'p mut [Piece],
    file: &dyn StorageBackend,
    offset: u64,
    len: usize,
) -> Option<&'p [u8]> {
    let number = offset / PIECE_BYTES;
    let piece = pieces.get_mut(number as usize % MAX_PIECES)?;
    if piece.number != Some(number) {
        // If a part of it cannot be read, the other parts are read without it.
        piece.fill(file, number).ok()?;
    }
    let start = (offset - number * PIECE_BYTES) as usize;
    piece.bytes.get(start..start + len)
}

impl Piece {
    fn fill(&mut self, file: &dyn StorageBackend, number: u64) -> io::Result<()> {
        self.number = None;
        let start = number * PIECE_BYTES;
        let len = file.len()?.saturating_sub(start).min(PIECE_BYTES);
        self.bytes.resize(len as usize, 0);
        file.read(start, &mut self.bytes)?;
        self.number = Some(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    /// The file and what was read ahead show the same, errors included.
    #[track_caller]
    fn assert_same(ahead: &ReadAhead, file: &dyn StorageBackend, offset: u64, len: usize) {
        let (mut one, mut other) = (vec![0; len], vec![0; len]);
        let read = ahead.read(file, offset, &mut one).map_err(|error| error.kind());
        let direct = file.read(offset, &mut other).map_err(|error| error.kind());
        assert_eq!((read, one), (direct, other), "{len} at {offset}");
    }

    #[test]
    fn what_is_read_ahead_is_what_the_file_has() {
        let (file, ahead) = (InMemoryBackend::new(), ReadAhead::begin());
        let size = 3 * PIECE_BYTES + 5_000;
        file.set_len(size).unwrap();
        let content: Vec<u8> = (0..size).map(|at| (at / 7) as u8).collect();
        file.write(0, &content).unwrap();
        let check = || {
            for offset in [
                0,
                4_096,
                PIECE_BYTES - 4_096,
                PIECE_BYTES - 100,
                3 * PIECE_BYTES,
                size - 4_096,
            ] {
                assert_same(&ahead, &file, offset, 4_096);
            }
            // Larger than a piece, and beyond the end.
            assert_same(&ahead, &file, 0, 2 * PIECE_BYTES as usize);
            assert_same(&ahead, &file, size - 10, 4_096);
            assert_same(&ahead, &file, 9 * PIECE_BYTES, 4_096);
        };
        check();
        ahead.forget();
        file.write(4_100, b"other").unwrap();
        check();
        ahead.end();
        file.write(4_200, b"again").unwrap();
        check();
    }

    #[test]
    fn pages_of_a_piece_are_read_at_once() {
        #[derive(Debug)]
        struct Counted(InMemoryBackend, Mutex<usize>);

        impl StorageBackend for Counted {
            fn len(&self) -> io::Result<u64> {
                self.0.len()
            }
            fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
                *self.1.lock() += 1;
                self.0.read(offset, out)
            }
            fn set_len(&self, len: u64) -> io::Result<()> {
                self.0.set_len(len)
            }
            fn sync_data(&self) -> io::Result<()> {
                self.0.sync_data()
            }
            fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
                self.0.write(offset, data)
            }
        }

        let file = Counted(InMemoryBackend::new(), Mutex::default());
        file.set_len(4 * PIECE_BYTES).unwrap();
        let ahead = ReadAhead::begin();
        for page in 0..4 * PIECE_BYTES / 4_096 {
            ahead.read(&file, page * 4_096, &mut [0; 4_096]).unwrap();
        }
        assert_eq!(*file.1.lock(), 4);
    }
}
