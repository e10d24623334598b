//! Plain scalars that stay text but look like something else: dates, and times of day in base 60.

/// `12:30:45`: text to kubectl, a number in base 60 to other readers.
pub(super) fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let first_is_number = parts
        .next()
        .is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()) && digits(part));
    let mut rest = parts.peekable();
    if !first_is_number || rest.peek().is_none() {
        return false;
    }
    while let Some(part) = rest.next() {
        let part = match part.split_once('.') {
            Some((part, fraction)) if rest.peek().is_none() && digits(fraction) => part,
            _ => part,
        };
        match part.as_bytes() {
            [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'] => {}
            _ => return false,
        }
    }
    true
}

/// `2001-1-2`, alone, or with a time of day after `T` or `t` (zone allowed) or after blanks (no zone).
pub(super) fn is_timestamp(text: &str) -> bool {
    let mut cursor = Cursor(text.as_bytes());
    let dated = cursor.digits(4, 4).is_some()
        && cursor.byte(b'-')
        && matches!(cursor.digits(1, 2), Some(1..=12))
        && cursor.byte(b'-')
        && matches!(cursor.digits(1, 2), Some(1..=31));
    if !dated {
        return false;
    }
    match cursor.0 {
        [] => true,
        [b'T' | b't', rest @ ..] => {
            cursor.0 = rest;
            cursor.clock() && cursor.zone()
        }
        [b' ', rest @ ..] => {
            cursor.0 = rest.trim_ascii_start();
            cursor.clock() && cursor.0.is_empty()
        }
        _ => false,
    }
}

/// The unread rest of a timestamp.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn digits(&mut self, least: usize, most: usize) -> Option<u32> {
        let count = self
            .0
            .iter()
            .take(most)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        (count >= least).then(|| {
            digits
                .iter()
                .fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))
        })
    }

    fn byte(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        self.0 = &self.0[usize::from(found)..];
        found
    }

    fn clock(&mut self) -> bool {
        let read = matches!(self.digits(1, 2), Some(0..=23))
            && self.byte(b':')
            && matches!(self.digits(1, 2), Some(0..=59))
            && self.byte(b':')
            && matches!(self.digits(1, 2), Some(0..=59));
        if read && (self.byte(b'.') || self.byte(b',')) {
            return self.digits(1, usize::MAX).is_some();
        }
        read
    }

    fn zone(&mut self) -> bool {
        let read = self.byte(b'Z')
            || ((self.byte(b'+') || self.byte(b'-'))
                && self.digits(2, 2).is_some()
                && self.byte(b':')
                && self.digits(2, 2).is_some());
        read && self.0.is_empty()
    }
}
