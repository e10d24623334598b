//! Properties of any recording: no panic, and its state equals the result of its entries.
//!
//! `cargo +nightly fuzz run recording` searches for a violation; `cargo test -p watchkeeper-recording` runs the check
//! over `fuzz/corpus/recording`, on any compiler. Bytes that are no recording are taken for the records of a block, so
//! that a search gets past the checksum.

use std::io::Write as _;

use watchkeeper_recording::{Entries, State};

const FIRST_LINE: &[u8] = b"watchkeeper recording 1\n";

pub(crate) fn check(bytes: &[u8]) {
    match bytes.starts_with(FIRST_LINE) {
        true => read(bytes.to_vec()),
        false => read(segment_of(bytes)),
    }
}

fn read(bytes: Vec<u8>) {
    let Ok(mut entries) = Entries::of_bytes(bytes) else {
        return;
    };
    let mut folded = State::default();
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else { return };
        folded.take(&entry);
        assert_eq!(objects(&folded), objects(entries.state()), "after {entry:?}");
    }
}

fn objects(state: &State) -> Vec<String> {
    let objects = state.objects();
    let shown = objects.map(|(stream, object)| format!("{stream} {} {:?}", object.key(), object.bytes()));
    shown.collect()
}

/// A complete segment with one block of these records.
fn segment_of(records: &[u8]) -> Vec<u8> {
    let mut block = [&[0; 8], &(records.len() as u32).to_le_bytes()[..]].concat();
    let mut deflate = flate2::write::DeflateEncoder::new(&mut block, flate2::Compression::fast());
    deflate.write_all(records).expect("memory is never full");
    deflate.finish().expect("memory is never full");
    [FIRST_LINE, &frame(0, b"{}"), &frame(1, &block)].concat()
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let checked = [&[kind], payload].concat();
    let length = (payload.len() as u32).to_le_bytes();
    let checksum = crc32fast::hash(&checked).to_le_bytes();
    [&length[..], &checksum, &checked].concat()
}
