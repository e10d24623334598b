//! Splits an expression into tokens.

use crate::ast::Literal;
use crate::error::Issue;

/// A token and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// In characters from the beginning.
    pub(crate) offset: u32,
    /// Its text in the source.
    pub(crate) text: Box<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// An identifier; includes `in` and literal keywords.
    Name,
    /// `` `a-name` ``, without the quotes.
    QuotedName(Box<str>),
    Literal(Literal),
    /// The digits of an integer; it may fit only with its sign.
    Int,
    Symbol,
    End,
}

/// Longest first.
const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=", ";",
];

/// Symbols that are recognised only to be refused by the parser.
const STRAY: [&str; 2] = ["=", ";"];

/// Splits a text into tokens, followed by an end token.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, Issue> {
    let mut lexer = Lexer {
        rest: source,
        offset: 0,
    };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let (start, before) = (lexer.offset, lexer.rest);
        let kind = lexer.token()?;
        let text = &before[..before.len() - lexer.rest.len()];
        let is_end = kind == TokenKind::End;
        tokens.push(Token {
            kind,
            offset: start,
            text: if is_end { "<EOF>".into() } else { text.into() },
        });
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'s> {
    rest: &'s str,
    offset: u32,
}

impl Lexer<'_> {
    fn skip_blank(&mut self) {
        loop {
            let blank = self.rest.len()
                - self
                    .rest
                    .trim_start_matches([' ', '\t', '\r', '\n', '\u{c}'])
                    .len();
            self.advance(blank);
            if !self.rest.starts_with("//") {
                return;
            }
            self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.offset += passed.chars().count() as u32;
        self.rest = rest;
    }

    fn token(&mut self) -> Result<TokenKind, Issue> {
        let Some(first) = self.rest.chars().next() else {
            return Ok(TokenKind::End);
        };
        if let Some(prefix) = string_prefix(self.rest) {
            return self.string(prefix);
        }
        match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let is_outside = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                self.advance(self.rest.find(is_outside).unwrap_or(self.rest.len()));
                Ok(TokenKind::Name)
            }
            '`' => self.quoted_name(),
            '0'..='9' => self.number(),
            '.' if self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            _ => {
                let symbol = SYMBOLS.iter().find(|symbol| self.rest.starts_with(**symbol));
                match symbol {
                    Some(symbol) if !STRAY.contains(symbol) => {
                        self.advance(symbol.len());
                        Ok(TokenKind::Symbol)
                    }
                    _ => Err(self.unrecognized(first.len_utf8())),
                }
            }
        }
    }

    fn unrecognized(&self, bytes: usize) -> Issue {
        let text = &self.rest[..bytes];
        Issue::at(
            self.offset,
            format!("Syntax error: token recognition error at: '{text}'"),
        )
    }

    fn quoted_name(&mut self) -> Result<TokenKind, Issue> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let inner = &self.rest[1..];
        let end = inner.find(|c: char| !is_allowed(c)).unwrap_or(inner.len());
        if end == 0 || !inner[end..].starts_with('`') {
            return Err(self.unrecognized(1 + end));
        }
        let name = inner[..end].into();
        self.advance(end + 2);
        Ok(TokenKind::QuotedName(name))
    }

    fn number(&mut self) -> Result<TokenKind, Issue> {
        let start = self.offset;
        if let Some(digits) = self.rest.strip_prefix("0x") {
            let length = digits
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(digits.len());
            let unsigned = digits[length..].starts_with(['u', 'U']);
            let value = u64::from_str_radix(&digits[..length], 16);
            self.advance(2 + length + usize::from(unsigned));
            return match (value, unsigned) {
                (Ok(value), true) => Ok(TokenKind::Literal(Literal::Uint(value))),
                (Err(_), true) => Err(Issue::at(start, "invalid uint literal")),
                _ => Ok(TokenKind::Int),
            };
        }
        let length = number_length(self.rest);
        let text = &self.rest[..length];
        let is_double = text.contains(['.', 'e', 'E']);
        if !is_double && self.rest[length..].starts_with(['u', 'U']) {
            let value = text.parse();
            self.advance(length + 1);
            let value = value.map_err(|_| Issue::at(start, "invalid uint literal"))?;
            return Ok(TokenKind::Literal(Literal::Uint(value)));
        }
        let value: Result<f64, _> = text.parse();
        self.advance(length);
        if !is_double {
            return Ok(TokenKind::Int);
        }
        match value {
            Ok(value) if f64::is_finite(value) => Ok(TokenKind::Literal(Literal::Double(value))),
            _ => Err(Issue::at(start, "invalid double literal")),
        }
    }

    fn string(&mut self, prefix: Prefix) -> Result<TokenKind, Issue> {
        let body = &self.rest[prefix.length..];
        let Some(quoted) = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| body.starts_with(*quote))
        else {
            return Err(self.unrecognized(1));
        };
        let inner = &body[quoted.len()..];
        let Some(end) = end_of_string(inner, quoted, prefix.is_raw) else {
            return Err(self.unrecognized(self.rest.len()));
        };
        let text = &inner[..end];
        let Some(literal) = unescape(text, &prefix) else {
            return Err(self.unrecognized(prefix.length + quoted.len() + end));
        };
        self.advance(prefix.length + 2 * quoted.len() + end);
        Ok(TokenKind::Literal(literal))
    }
}

fn number_length(text: &str) -> usize {
    let digits = |from: usize| {
        let rest = &text[from..];
        from + rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())
    };
    let mut end = digits(0);
    if text[end..].starts_with('.') && text[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let from = end + 1 + sign;
        if text[from..].starts_with(|c: char| c.is_ascii_digit()) {
            end = digits(from);
        }
    }
    end
}

struct Prefix {
    length: usize,
    is_raw: bool,
    is_bytes: bool,
}

/// The prefix of a string: none, `r`, `b` or both.
fn string_prefix(text: &str) -> Option<Prefix> {
    let (mut length, mut is_raw, mut is_bytes) = (0, false, false);
    for c in text.chars() {
        match c {
            '"' | '\'' => {
                return Some(Prefix {
                    length,
                    is_raw,
                    is_bytes,
                });
            }
            'r' | 'R' if !is_raw => is_raw = true,
            'b' | 'B' if !is_bytes => is_bytes = true,
            _ => return None,
        }
        length += 1;
    }
    None
}

fn end_of_string(inner: &str, quote: &str, is_raw: bool) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' && !is_raw {
            is_escaped = true;
        } else if inner[at..].starts_with(quote) {
            return Some(at);
        } else if matches!(c, '\n' | '\r') && quote.len() == 1 {
            return None;
        }
    }
    None
}

/// The value of a string literal; `None` if an escape is invalid.
fn unescape(text: &str, prefix: &Prefix) -> Option<Literal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' || prefix.is_raw {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.next()?;
        let (first, digits, radix) = match escape {
            'x' | 'X' => (0, 2, 16),
            'u' if !prefix.is_bytes => (0, 4, 16),
            'U' if !prefix.is_bytes => (0, 8, 16),
            '0'..='3' => (escape.to_digit(8)?, 2, 8),
            _ => {
                bytes.push(plain_escape(escape)?);
                continue;
            }
        };
        let mut value = first;
        for _ in 0..digits {
            value = value * radix + rest.next()?.to_digit(radix)?;
        }
        if prefix.is_bytes {
            bytes.push(u8::try_from(value).ok()?);
        } else {
            let c = char::from_u32(value)?;
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    match prefix.is_bytes {
        true => Some(Literal::Bytes(bytes.into())),
        false => Some(Literal::String(String::from_utf8(bytes).ok()?.into())),
    }
}

fn plain_escape(c: char) -> Option<u8> {
    Some(match c {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => c as u8,
        _ => return None,
    })
}
