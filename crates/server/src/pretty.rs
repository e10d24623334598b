//! Indents JSON with two spaces per level and one member per line, as Go's `MarshalIndent`.
//!
//! It works on text, so the order of members and the spelling of numbers are unchanged.

/// Indented text may be this many times as long as compact text. The numbers of a deep list would become a hundred times
/// as long.
pub(crate) const MAX_GROWTH: usize = 10;

/// A text up to this length is always indented.
pub(crate) const SHORT: usize = 64 << 10;

/// Indents compact JSON, unless it would become many times as long. Text that is not JSON is passed through without loss.
pub(crate) fn indent(compact: &[u8]) -> Vec<u8> {
    let most = SHORT.max(MAX_GROWTH * compact.len());
    let mut out = Vec::with_capacity(compact.len() * 2);
    let mut depth = 0usize;
    let mut position = 0;
    while let Some(&byte) = compact.get(position) {
        position += 1;
        if out.len() > most {
            return compact.to_vec();
        }
        match byte {
            b'"' => {
                let end = position + text_end(&compact[position..]);
                out.extend_from_slice(&compact[position - 1..end]);
                position = end;
            }
            b'{' | b'[' => {
                out.push(byte);
                if let Some(&close @ (b'}' | b']')) = compact.get(position) {
                    out.push(close);
                    position += 1;
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\n' | b'\r' | b'\t' => {}
            byte => out.push(byte),
        }
    }
    out
}

/// The bytes up to and including the closing quote of a string.
fn text_end(text: &[u8]) -> usize {
    let mut escaped = false;
    for (index, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth * 2));
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(compact: &str, expected: Expect) {
        expected.assert_eq(std::str::from_utf8(&indent(compact.as_bytes())).unwrap());
    }

    #[test]
    fn a_text_that_would_become_many_times_as_long_is_not_indented() {
        let deep = |numbers: usize| {
            let numbers = vec!["0"; numbers].join(",");
            format!("{}{numbers}{}", "[".repeat(100), "]".repeat(100)).into_bytes()
        };
        assert!(indent(&deep(10)).len() > 20 * deep(10).len());
        assert_eq!(indent(&deep(100_000)), deep(100_000));
    }

    #[test]
    fn each_member_is_on_its_own_line() {
        check(
            r#"{"b":[1,{"c":"x, \"{y}: \\"}],"a":{},"l":[],"n":1e3}"#,
            expect![[r#"
                {
                  "b": [
                    1,
                    {
                      "c": "x, \"{y}: \\"
                    }
                  ],
                  "a": {},
                  "l": [],
                  "n": 1e3
                }"#]],
        );
    }
}
