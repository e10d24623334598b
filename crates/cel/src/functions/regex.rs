//! Regular expressions. Matching takes linear time in the text. A literal pattern is compiled with its expression.

use regex::Regex;

use super::strings::{text, texts};
use super::{Evaluated, Function, Sizes, Work, no_overload, tenth};
use crate::error::EvalError;
use crate::limits::MAX_REGEX_BYTES;
use crate::pattern::{compile, compile_within};
use crate::value::Value;

/// A compiled pattern up to this size is small.
const SMALL_REGEX_BYTES: usize = MAX_REGEX_BYTES / 32;

/// The cost of compiling any pattern, which takes some microseconds.
const REGEX_STEPS: u64 = 1_000;

/// The further cost of compiling a larger pattern, which takes milliseconds.
const LARGE_REGEX_STEPS: u64 = 50_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(
        "matches",
        &["string.(string) -> bool", "(string, string) -> bool"],
        |v, work| with(v, work, |pattern, text| Ok(Value::Bool(pattern.is_match(text)))),
    )
    .costing(searching),
    Function::new("find", &["string.(string) -> string"], |v, work| {
        with(v, work, |pattern, text| {
            let found = pattern.find(text);
            Ok(Value::text(found.map_or("", |found| found.as_str())))
        })
    })
    .costing(searching)
    .growing(|n| n[0]),
    Function::new(
        "findAll",
        &[
            "string.(string) -> list(string)",
            "string.(string, int) -> list(string)",
        ],
        |v, work| {
            let most = match v.get(2) {
                None => usize::MAX,
                Some(Value::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
                Some(_) => return no_overload(),
            };
            with(v, work, |pattern, text| {
                let found = pattern.find_iter(text).take(most);
                texts(found.map(|it| it.as_str()), work)
            })
        },
    )
    .costing(searching)
    .growing(|n| n[0]),
];

/// The length of the text times the possible work of a pattern of that length at each position.
fn searching(sizes: &Sizes<'_>) -> u64 {
    let text = tenth(sizes.of(0).saturating_add(1));
    text.saturating_mul(sizes.of(1).div_ceil(4)).max(1)
}

fn with<'a>(
    v: &[Value<'a>],
    work: &Work<'_>,
    search: impl Fn(&Regex, &str) -> Evaluated<'a>,
) -> Evaluated<'a> {
    let text = text(&v[0])?;
    match work.pattern {
        Some(pattern) => search(pattern, text),
        None => {
            let pattern = compile_now(self::text(&v[1])?, work)?;
            search(&pattern, text)
        }
    }
}

/// Compiles a pattern given as a value. A short pattern may compile to a large program, which is charged.
fn compile_now(pattern: &str, work: &Work<'_>) -> Result<Regex, EvalError> {
    work.steps(REGEX_STEPS)?;
    let built = compile_within(pattern, SMALL_REGEX_BYTES);
    if let Err(regex::Error::CompiledTooBig(_)) = built {
        work.steps(LARGE_REGEX_STEPS)?;
    }
    built.or_else(|_| compile(pattern).map_err(EvalError::Failed))
}
