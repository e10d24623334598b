//! Text in Go's double quotes.

/// Appends the text in quotes, with escapes for unprintable characters.
pub(crate) fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        push_escaped(out, c);
    }
    out.push('"');
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        ' '..='~' => out.push(c),
        ..'\u{80}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        c if prints(c) => out.push(c),
        ..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

/// True for characters Rust considers printable. Combining marks print too, if not alone.
fn prints(c: char) -> bool {
    !c.is_control() && (c.escape_debug().len() == 1 || !c.is_whitespace() && c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        let check = |text: &str, quoted: &str| {
            let mut out = String::new();
            push_quoted(&mut out, text);
            assert_eq!(out, quoted);
        };
        check("plain", r#""plain""#);
        check("say \"hi\"\\", r#""say \"hi\"\\""#);
        check("\n\r\t\u{7}\u{8}\u{b}\u{c}", r#""\n\r\t\a\b\v\f""#);
        check("\0\u{1b}\u{7f}", r#""\x00\x1b\x7f""#);
        check("日志 é 😀", r#""日志 é 😀""#);
        check("\u{200b}\u{feff}\u{85}", r#""\u200b\ufeff\u0085""#);
        check("\u{e0001}", r#""\U000e0001""#);
    }
}
