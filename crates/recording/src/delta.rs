//! Delta encoding of an object's version against the previous one.
//!
//! An update changes a few of an object's thousands of bytes: a version, a time, a number in the status. A delta is a
//! list of insertions and of copies from the old bytes:
//!
//! ```text
//! old    {"metadata":{"resourceVersion":"7"},"data":{"a":"1"}}
//! new    {"metadata":{"resourceVersion":"12"},"data":{"a":"1"}}
//! delta  copy 32 from here · insert "12" · skip 1, copy 21
//! ```
//!
//! Numbers are LEB128. The encoder is greedy: it follows the old bytes, looks a little ahead for a replacement of the
//! same length, and otherwise searches an index of the old bytes. Any choice it makes decodes to the same bytes.

/// The shortest match worth a copy.
const MIN_RUN: usize = 8;

/// The longest replacement of the same length that is tried: a timestamp, a uid.
const LOOK_AHEAD: usize = 48;

/// The distance between indexed positions of the old bytes. A match of `MIN_RUN + INDEX_STEP - 1` bytes is always
/// found.
const INDEX_STEP: usize = 4;

/// Slots of the index; a power of two.
const INDEX_SLOTS: usize = 4096;

/// The largest object a delta may produce. Servers reject objects beyond 3 MiB.
pub(crate) const MAX_OBJECT_BYTES: usize = 16 << 20;

/// A delta that does not fit the old bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeltaError {
    #[error("the delta ends in the middle")]
    Cut,
    #[error("the delta copies what the previous version does not have")]
    Range,
    #[error("the delta makes an object larger than {MAX_OBJECT_BYTES} bytes")]
    TooLarge,
}

/// Encodes `new` as a delta against `old`.
pub(crate) fn encode(old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut index = None;
    // The positions in new and in old, and what was written so far of each.
    let (mut at, mut from) = (0, 0);
    let (mut written, mut copied) = (0, 0);
    while at < new.len() {
        let run = common(&new[at..], &old[from.min(old.len())..]);
        if run >= MIN_RUN || (run > 0 && at + run == new.len()) {
            number(&mut out, (at - written) as u64);
            out.extend_from_slice(&new[written..at]);
            number(&mut out, zigzag(from as i64 - copied as i64));
            number(&mut out, run as u64);
            (at, from) = (at + run, from + run);
            (written, copied) = (at, from);
        } else if let Some(skip) = replacement(&new[at..], &old[from.min(old.len())..]) {
            (at, from) = (at + skip, from + skip);
        } else {
            let index = index.get_or_insert_with(|| Index::of(old));
            match index.find(old, new, at) {
                Some(found) => (at, from) = found,
                None => break,
            }
        }
    }
    if written < new.len() {
        number(&mut out, (new.len() - written) as u64);
        out.extend_from_slice(&new[written..]);
        number(&mut out, 0);
        number(&mut out, 0);
    }
    out
}

/// Decodes a delta against the old bytes.
pub(crate) fn decode(old: &[u8], mut delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
    let (mut new, mut copied) = (Vec::with_capacity(old.len()), 0_i64);
    while !delta.is_empty() {
        let insert = read_number(&mut delta)?;
        let insert = usize::try_from(insert).map_err(|_| DeltaError::TooLarge)?;
        let (inserted, rest) = delta.split_at_checked(insert).ok_or(DeltaError::Cut)?;
        delta = rest;
        let skip = unzigzag(read_number(&mut delta)?);
        let run = usize::try_from(read_number(&mut delta)?).map_err(|_| DeltaError::TooLarge)?;
        let from = copied.checked_add(skip).ok_or(DeltaError::Range)?;
        let start = usize::try_from(from).map_err(|_| DeltaError::Range)?;
        let end = start.checked_add(run).ok_or(DeltaError::Range)?;
        let copy = old.get(start..end).ok_or(DeltaError::Range)?;
        if new.len() + inserted.len() + copy.len() > MAX_OBJECT_BYTES {
            return Err(DeltaError::TooLarge);
        }
        new.extend_from_slice(inserted);
        new.extend_from_slice(copy);
        copied = end as i64;
    }
    Ok(new)
}

/// The length of the common prefix.
fn common(one: &[u8], other: &[u8]) -> usize {
    let length = one.len().min(other.len());
    let (mut words, mut others) = (one[..length].chunks_exact(16), other[..length].chunks_exact(16));
    let same = words.by_ref().zip(others.by_ref()).take_while(|(a, b)| a == b);
    let same = same.count() * 16;
    let rest = one[same..length].iter().zip(&other[same..length]);
    same + rest.take_while(|(a, b)| a == b).count()
}

/// The length of a replacement by as many bytes.
fn replacement(new: &[u8], old: &[u8]) -> Option<usize> {
    let length = new.len().min(old.len());
    (1..=LOOK_AHEAD)
        .take_while(|skip| skip + MIN_RUN <= length)
        .find(|&skip| new[skip..skip + MIN_RUN] == old[skip..skip + MIN_RUN])
}

/// Maps eight bytes to a position in the old bytes. Of two positions with one slot, the later one wins.
struct Index(Vec<u32>);

impl Index {
    fn of(old: &[u8]) -> Self {
        let mut slots = vec![u32::MAX; INDEX_SLOTS];
        for (step, window) in old.windows(MIN_RUN).step_by(INDEX_STEP).enumerate() {
            slots[slot(window)] = (step * INDEX_STEP) as u32;
        }
        Self(slots)
    }

    /// The first position in `new`, from `at` on, whose bytes occur in `old`, and their position there.
    fn find(&self, old: &[u8], new: &[u8], at: usize) -> Option<(usize, usize)> {
        let windows = new[at..].windows(MIN_RUN).enumerate();
        windows.into_iter().find_map(|(skip, window)| {
            let from = self.0[slot(window)] as usize;
            (old.get(from..from + MIN_RUN)? == window).then_some((at + skip, from))
        })
    }
}

fn slot(window: &[u8]) -> usize {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[..8]);
    let hash = u64::from_le_bytes(bytes).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 52) as usize & (INDEX_SLOTS - 1)
}

fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> Result<u64, DeltaError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(DeltaError::Cut)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(DeltaError::Range)
}

fn zigzag(number: i64) -> u64 {
    (number.wrapping_shl(1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_update_of_a_status_is_small() {
        let pod = |version: u32, time: &str, ready: bool| {
            let filler = "x".repeat(500);
            format!(
                r#"{{"kind":"Pod","metadata":{{"name":"a","resourceVersion":"{version}"}},"spec":"{filler}","status":{{"at":"{time}","ready":{ready},"podIP":"10.0.0.1"}}}}"#
            )
        };
        let (old, new) = (
            pod(99, "2026-01-01T00:00:00Z", false),
            pod(100, "2026-01-01T00:00:09Z", true),
        );
        let delta = encode(old.as_bytes(), new.as_bytes());
        assert_eq!(decode(old.as_bytes(), &delta).unwrap(), new.as_bytes());
        assert!(delta.len() < 40, "{} bytes: {:?}", delta.len(), delta);
    }

    #[test]
    fn a_delta_against_other_bytes_is_rejected() {
        let delta = encode(b"0123456789abcdef", b"0123456789abcdefX");
        assert_eq!(decode(b"0123", &delta), Err(DeltaError::Range));
        assert_eq!(decode(b"", &[0x85]), Err(DeltaError::Cut));
        assert_eq!(decode(b"", &[200, 1]), Err(DeltaError::Cut));
    }

    proptest! {
        #[test]
        fn decoding_inverts_encoding(old in "[ab]{0,80}", new in "[ab]{0,80}", cut in 0_usize..80) {
            let mixed = [&new[..cut.min(new.len())], &old, &old[..cut.min(old.len())]].concat();
            for new in [new.as_bytes(), mixed.as_bytes()] {
                let delta = encode(old.as_bytes(), new);
                prop_assert_eq!(decode(old.as_bytes(), &delta).unwrap(), new);
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_rejected(old: Vec<u8>, delta: Vec<u8>) {
            let _ = decode(&old, &delta);
        }
    }
}
