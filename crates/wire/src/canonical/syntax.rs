//! Go's message for text that is not valid JSON. Only text that was already refused comes here.
//!
//! Go's scanner names the first invalid byte and what it expected there. This is the same walk, with one function per
//! expectation.

/// Go's message for text that is not valid JSON; `None` if Go would accept it.
pub fn message(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner {
        text,
        at: 0,
        depth: 0,
    };
    scanner.document().err()
}

/// Go's own nesting limit. Ours is far lower.
const MAX_DEPTH: usize = 10_000;

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

type Scanned = Result<(), String>;

impl Scanner<'_> {
    fn document(&mut self) -> Scanned {
        self.value("looking for beginning of value")?;
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => self.unexpected("after top-level value"),
        }
    }

    fn value(&mut self, context: &str) -> Scanned {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.unexpected(context),
        }
    }

    fn nested(&mut self, scan: impl FnOnce(&mut Self) -> Scanned) -> Scanned {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        // Guards the stack: text this deep was refused for its depth.
        if self.depth > crate::limits::NESTING_LIMIT as usize {
            return Err("exceeded max depth".to_owned());
        }
        scan(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Scanned {
        self.space();
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.unexpected("looking for beginning of object key string");
            }
            self.string()?;
            self.space();
            if !self.take(b':') {
                return self.unexpected("after object key");
            }
            self.value("looking for beginning of value")?;
            self.space();
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return self.unexpected("after object key:value pair");
            }
        }
    }

    fn array(&mut self) -> Scanned {
        self.space();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.value("looking for beginning of value")?;
            self.space();
            if self.take(b']') {
                return Ok(());
            }
            if !self.take(b',') {
                return self.unexpected("after array element");
            }
        }
    }

    fn string(&mut self) -> Scanned {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0x20..) => self.at += 1,
                _ => return self.unexpected("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Scanned {
        self.at += 1;
        match self.peek() {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return self.unexpected("in \\u hexadecimal character escape");
                    }
                    self.at += 1;
                }
            }
            _ => return self.unexpected("in string escape code"),
        }
        Ok(())
    }

    fn number(&mut self) -> Scanned {
        self.take(b'-');
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.unexpected("in numeric literal"),
        }
        if self.take(b'.') {
            if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.unexpected("after decimal point in numeric literal");
            }
            self.digits();
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.unexpected("in exponent of numeric literal");
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str) -> Scanned {
        for expected in word.chars() {
            if self.peek() != Some(expected as u8) {
                return self.unexpected(&format!("in literal {word} (expecting '{expected}')"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn unexpected(&self, context: &str) -> Scanned {
        Err(match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character {} {context}", quoted(byte)),
        })
    }
}

/// A byte as Go quotes it; bytes above ASCII are treated as Latin-1, as in Go.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x20..=0x7e | 0xa1..=0xac | 0xae..=0xff => format!("'{}'", char::from(byte)),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        other => format!("'\\x{other:02x}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_texts_are_named_as_in_go() {
        let check = |text: &str, expected: &str| {
            assert_eq!(message(text.as_bytes()).as_deref(), Some(expected), "{text}");
        };
        check("", "unexpected end of JSON input");
        check("{\"a\":{\"b\":\"c\"", "unexpected end of JSON input");
        check(
            "{\"a\":1,}",
            "invalid character '}' looking for beginning of object key string",
        );
        check("{} x", "invalid character 'x' after top-level value");
        check("hello", "invalid character 'h' looking for beginning of value");
        check("{\"a\" 1}", "invalid character '1' after object key");
        check(
            "{\"a\":1 \"b\"}",
            "invalid character '\"' after object key:value pair",
        );
        check("[1 2]", "invalid character '2' after array element");
        check("nul", "unexpected end of JSON input");
        check("nuts", "invalid character 't' in literal null (expecting 'l')");
        check("01", "invalid character '1' after top-level value");
        check(
            "1.x",
            "invalid character 'x' after decimal point in numeric literal",
        );
        check("\"\n\"", "invalid character '\\n' in string literal");
        check("\"\\x\"", "invalid character 'x' in string escape code");
        assert_eq!(message(b" {\"a\": [1, -0.5e+3, \"\\u00e4\", null, true]} "), None);
    }
}
