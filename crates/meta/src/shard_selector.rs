//! Selection by hash: every object belongs to exactly one of the ranges into which clients cut the 64-bit space of
//! FNV-1a hashes (KEP-5866, `ShardedListAndWatch`).
//!
//! ```text
//! shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')
//! ```
//!
//! is the lower half by uid. Several ranges are combined with `||`; all hash the same field. The lower bound belongs to
//! the range, the upper one does not. Neither field ever changes, so an object never moves to another shard.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

use crate::{Header, quote};

/// Ranges in one selector; far more than anybody has shards.
pub const MAX_SHARD_RANGES: usize = 1024;

/// The end of the space of hashes, 2^64: the only bound with 17 digits.
const SPACE_END: &str = "0x10000000000000000";

/// A parsed `shardSelector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSelector {
    field: ShardField,
    ranges: Vec<RangeInclusive<u64>>,
}

/// The field whose value is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardField {
    /// `object.metadata.uid`
    Uid,
    /// `object.metadata.namespace`
    Namespace,
}

/// The reason why a text is no shard selector, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ShardSelectorError(String);

/// The 64-bit FNV-1a hash of a field's value.
pub fn shard_hash(value: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    value.bytes().fold(OFFSET, step)
}

impl ShardSelector {
    /// One of `total` equal parts, counted from zero; the last one has the remainder too. `None` if there is no such
    /// part.
    pub fn part(field: ShardField, index: u32, total: u32) -> Option<Self> {
        if index >= total {
            return None;
        }
        let span = (1u128 << 64) / u128::from(total);
        let start = (span * u128::from(index)) as u64;
        let last = match index + 1 == total {
            true => u64::MAX,
            false => (span * u128::from(index + 1) - 1) as u64,
        };
        Some(Self {
            field,
            ranges: vec![start..=last],
        })
    }

    /// True if the object belongs to one of the ranges.
    pub fn matches(&self, object: &Header<'_>) -> bool {
        self.has(match self.field {
            ShardField::Uid => &object.uid,
            ShardField::Namespace => &object.namespace,
        })
    }

    /// True if the hash of a field's value is in one of the ranges.
    pub fn has(&self, value: &str) -> bool {
        let hash = shard_hash(value);
        self.ranges.iter().any(|range| range.contains(&hash))
    }
}

impl FromStr for ShardSelector {
    type Err = ShardSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            let why = "empty shard selector is not allowed; omit the parameter for unfiltered lists";
            return Err(refused(why));
        }
        let mut selector: Option<Self> = None;
        for call in text.split("||") {
            let (field, range) = shard_range(call.trim())?;
            let selector = selector.get_or_insert(Self {
                field,
                ranges: Vec::new(),
            });
            if selector.field != field {
                let (first, other) = (quote(selector.field.path()), quote(field.path()));
                return Err(refused(format!(
                    "all shard ranges must use the same field, got {first} and {other}"
                )));
            }
            if selector.ranges.len() == MAX_SHARD_RANGES {
                return Err(refused(format!("more than {MAX_SHARD_RANGES} shard ranges")));
            }
            selector.ranges.push(range);
        }
        selector.ok_or_else(|| refused("no shard range"))
    }
}

/// As Kubernetes writes it; reading it again gives the same selector.
impl fmt::Display for ShardSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            if index > 0 {
                out.write_str(" || ")?;
            }
            let end = u128::from(*range.end()) + 1;
            let (field, start) = (self.field.path(), range.start());
            write!(out, "shardRange({field}, '0x{start:016x}', '0x{end:016x}')")?;
        }
        Ok(())
    }
}

impl ShardField {
    /// The path as selectors name it.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

/// Reads one call of `shardRange`.
fn shard_range(call: &str) -> Result<(ShardField, RangeInclusive<u64>), ShardSelectorError> {
    let expected = || refused("CEL parse error: expected shardRange() call or || operator");
    let (function, rest) = call.split_once('(').ok_or_else(expected)?;
    let arguments = rest.strip_suffix(')').ok_or_else(expected)?;
    if arguments.contains(['(', ')']) {
        return Err(expected());
    }
    if function.trim() != "shardRange" {
        let function = quote(function.trim());
        return Err(refused(format!(
            "unsupported function {function}; only shardRange() and || are allowed"
        )));
    }
    let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
    let [path, start, end] = arguments[..] else {
        let count = arguments.iter().filter(|word| !word.is_empty()).count();
        return Err(refused(format!(
            "shardRange() requires exactly 3 arguments, got {count}"
        )));
    };
    let field = field(path)?;
    let (start, end) = (bound("hexStart", start)?, bound("hexEnd", end)?);
    if start >= end {
        return Err(refused(format!(
            "shard range start 0x{start:016x} must be less than end 0x{end:016x}"
        )));
    }
    // The start is below the end, so it is below 2^64 too.
    Ok((field, start as u64..=(end - 1) as u64))
}

fn field(path: &str) -> Result<ShardField, ShardSelectorError> {
    let known = [ShardField::Uid, ShardField::Namespace];
    let found = known.into_iter().find(|field| field.path() == path);
    found.ok_or_else(|| {
        let path = quote(path);
        refused(format!(
            "unsupported field path {path}; supported: object.metadata.uid, object.metadata.namespace"
        ))
    })
}

/// Reads a bound: a string literal of `0x` and 16 digits, or 2^64.
fn bound(name: &str, literal: &str) -> Result<u128, ShardSelectorError> {
    let unquoted = ['\'', '"']
        .into_iter()
        .find_map(|mark| literal.strip_prefix(mark)?.strip_suffix(mark));
    let Some(text) = unquoted else {
        return Err(refused(format!(
            "{name} must be a string literal (e.g. '0xff'), got {literal}"
        )));
    };
    let shown = quote(text);
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(refused(format!("{name} must have '0x' prefix, got {shown}")));
    };
    let is_digit = |letter: &char| letter.is_ascii_digit() || ('a'..='f').contains(letter);
    let odd = digits.chars().find(|letter| !is_digit(letter));
    match (digits.len(), odd) {
        (0, _) => Err(refused(format!("{name}: hex value is required after '0x'"))),
        (length @ 18.., _) => Err(refused(format!(
            "{name}: hex value too long ({length} chars, max 17): {}",
            quote(digits)
        ))),
        (_, Some(letter)) => {
            let letter = quote(&letter.to_string());
            Err(refused(format!(
                "{name}: invalid hex character {letter} in {shown}"
            )))
        }
        (17, _) if text != SPACE_END => Err(refused(format!(
            "{name}: 17-digit hex value must be '{SPACE_END}' (2^64), got {shown}"
        ))),
        (length, _) if length < 16 => Err(refused(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {shown} (did you mean {}?)",
            quote(&format!("0x{digits:0>16}"))
        ))),
        _ => u128::from_str_radix(digits, 16).map_err(|error| refused(error.to_string())),
    }
}

fn refused(why: impl Into<String>) -> ShardSelectorError {
    ShardSelectorError(why.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOWER_HALF: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";

    #[test]
    fn hashes_are_those_of_fnv_1a() {
        // Published test vectors of the 64-bit FNV-1a.
        assert_eq!(shard_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(shard_hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(shard_hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn selectors_are_written_as_they_are_read() {
        for text in [
            LOWER_HALF,
            "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')",
            "shardRange(object.metadata.namespace, '0x00000000000000aa', '0x00000000000000ff') || shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')",
        ] {
            assert_eq!(text.parse::<ShardSelector>().unwrap().to_string(), text);
        }
        let spread = "  shardRange( object.metadata.uid ,\"0x0000000000000000\",  '0x8000000000000000' )  ";
        assert_eq!(spread.parse::<ShardSelector>().unwrap().to_string(), LOWER_HALF);
    }

    #[test]
    fn what_is_no_selector_is_refused_with_the_reason() {
        let check = |text: &str, why: &str| {
            let error = text.parse::<ShardSelector>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        };
        check(" ", "empty shard selector is not allowed");
        check("nonsense", "expected shardRange() call");
        check(
            "other(object.metadata.uid, '0x00', '0x80')",
            r#"unsupported function "other""#,
        );
        check(
            "shardRange(object.metadata.uid, '0x0')",
            "exactly 3 arguments, got 2",
        );
        check(
            "shardRange(object.metadata.name, '0x00', '0x80')",
            r#"unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace"#,
        );
        check(
            "shardRange(object.metadata.uid, 0, 8)",
            "hexStart must be a string literal",
        );
        check(
            "shardRange(object.metadata.uid, '0000000000000000', '0x8')",
            r#"hexStart must have '0x' prefix, got "0000000000000000""#,
        );
        check(
            "shardRange(object.metadata.uid, '0x', '0x8')",
            "hex value is required",
        );
        check(
            "shardRange(object.metadata.uid, '0x0', '0x8')",
            r#"got "0x0" (did you mean "0x0000000000000000"?)"#,
        );
        check(
            "shardRange(object.metadata.uid, '0x000000000000000g', '0x8')",
            r#"invalid hex character "g""#,
        );
        check(
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000001')",
            "17-digit hex value must be '0x10000000000000000' (2^64)",
        );
        check(
            "shardRange(object.metadata.uid, '0x000000000000000000', '0x8')",
            "too long (18 chars, max 17)",
        );
        check(
            "shardRange(object.metadata.uid, '0x8000000000000000', '0x8000000000000000')",
            "start 0x8000000000000000 must be less than end 0x8000000000000000",
        );
        check(
            &format!(
                "{LOWER_HALF} || shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')"
            ),
            "all shard ranges must use the same field",
        );
        check(
            &format!("{LOWER_HALF} && {LOWER_HALF}"),
            "expected shardRange() call or || operator",
        );
        let many = vec![LOWER_HALF; MAX_SHARD_RANGES + 1].join("||");
        check(&many, "more than 1024 shard ranges");
    }

    #[test]
    fn there_is_no_part_beyond_the_last() {
        assert_eq!(ShardSelector::part(ShardField::Uid, 3, 3), None);
        assert_eq!(ShardSelector::part(ShardField::Uid, 0, 0), None);
        let half = ShardSelector::part(ShardField::Uid, 0, 2).unwrap();
        assert_eq!(half.to_string(), LOWER_HALF);
    }

    proptest! {
        #[test]
        fn parts_are_disjoint_and_complete(total in 1u32..200, value in ".*") {
            let parts = (0..total).filter_map(|index| ShardSelector::part(ShardField::Uid, index, total));
            let parts: Vec<ShardSelector> = parts.collect();
            prop_assert_eq!(parts.iter().filter(|part| part.has(&value)).count(), 1);
            prop_assert_eq!(parts[0].ranges[0].start(), &0);
            prop_assert_eq!(parts[parts.len() - 1].ranges[0].end(), &u64::MAX);
            for pair in parts.windows(2) {
                prop_assert_eq!(pair[0].ranges[0].end() + 1, *pair[1].ranges[0].start());
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            if let Ok(selector) = text.parse::<ShardSelector>() {
                prop_assert_eq!(selector.to_string().parse(), Ok(selector));
            }
        }
    }
}
