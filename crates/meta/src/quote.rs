//! Prints values as a Go server prints them in error texts, byte for byte.

use serde_json::Value;

/// Text in double quotes with Go's escapes, as `%q` prints it.
///
/// ```
/// assert_eq!(watchkeeper_meta::quote("a\"b\n\u{7}"), r#""a\"b\n\a""#);
/// ```
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_escaped(&mut out, c);
    }
    out.push('"');
    out
}

/// JSON as Go marshals it: `<`, `>`, `&` and the two line separators are escaped.
pub fn go_json(value: &Value) -> String {
    let plain = in_order_of_structs(value);
    let mut out = String::with_capacity(plain.len());
    // These characters occur inside JSON strings only, so the text can be rewritten blindly.
    for c in plain.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// JSON with sorted keys, except in a label selector: in Go that is a struct, whose `matchLabels` come first.
fn in_order_of_structs(value: &Value) -> String {
    let plain = value.to_string();
    if !plain.contains(r#""matchExpressions":"#) {
        return plain;
    }
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(in_order_of_structs).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            if fields.iter().any(|(key, _)| *key == "matchLabels") {
                fields.sort_by_key(|(key, _)| *key == "matchExpressions");
            }
            let print = |(key, value): (&String, &Value)| {
                format!("{}:{}", Value::from(key.as_str()), in_order_of_structs(value))
            };
            let fields: Vec<String> = fields.into_iter().map(print).collect();
            format!("{{{}}}", fields.join(","))
        }
        _ => plain,
    }
}

/// A float as `%v` prints it: shortest digits, with an exponent from a million on and below 1e-04.
pub(crate) fn go_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value}"),
    }
}

/// True if Go counts a character as printable: letters, marks, numbers, punctuation, symbols and the space.
pub(crate) fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // Rust escapes unprintable characters, and a mark only at the start of text: hence the letter before it.
    let mut escaped = ['a', c]
        .iter()
        .collect::<String>()
        .escape_debug()
        .skip(1)
        .collect::<String>();
    escaped.pop() == Some(c)
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if is_printable(c) => out.push(c),
        c if c.is_ascii() => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if (c as u32) < 0x10000 => out.push_str(&format!("\\u{:04x}", c as u32)),
        c => out.push_str(&format!("\\U{:08x}", c as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        for (text, quoted) in [
            ("a", r#""a""#),
            ("a\\\"b", r#""a\\\"b""#),
            ("é e\u{301} 漢", "\"é e\u{301} 漢\""),
            ("\u{0}\u{7f}", r#""\x00\x7f""#),
            ("\u{2028}\u{a0}\u{200b}", r#""\u2028\u00a0\u200b""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn json_is_escaped_as_go_escapes_it() {
        let value = serde_json::json!({"b": "<&>\u{2028}é", "a": [1, null]});
        assert_eq!(
            go_json(&value),
            r#"{"a":[1,null],"b":"\u003c\u0026\u003e\u2028é"}"#
        );
    }

    #[test]
    fn floats_print_as_in_go() {
        for (value, text) in [
            (0.5, "0.5"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1.5e-7, "1.5e-07"),
            (-2.25, "-2.25"),
        ] {
            assert_eq!(go_float(value), text);
        }
    }
}
