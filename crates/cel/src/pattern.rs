//! Regular expressions in Go's syntax, which Kubernetes' patterns use, compiled with a library whose syntax differs:
//!
//! ```text
//! \d \w \s \b       Go: ASCII                   regex crate: Unicode
//! [[] [a&&b] [~~]   Go: characters              regex crate: nested classes
//! a{ {,5} \<        Go: characters              regex crate: errors, or a word boundary
//! \Q…\E             Go: literal text            regex crate: unknown
//! ```
//!
//! Both match in linear time and prefer the first alternative. Syntax that only the library knows, such as the flag
//! `x` or the class `\p{Alphabetic}`, is not refused.

use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

use crate::limits::MAX_REGEX_BYTES;

/// Compiles a pattern; the error has Go's text where it is known.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    compile_within(pattern, MAX_REGEX_BYTES).map_err(|error| {
        let problem = match error.to_string() {
            text if text.contains("unclosed character class") => "missing closing ]".to_owned(),
            text if text.contains("unclosed group") => "missing closing )".to_owned(),
            text if text.contains("unopened group") => "unexpected )".to_owned(),
            text if text.contains("repetition operator missing expression") => {
                "missing argument to repetition operator".to_owned()
            }
            text => text.lines().last().unwrap_or_default().to_owned(),
        };
        format!("error parsing regexp: {problem}: `{pattern}`")
    })
}

/// The size of a compiled pattern in bytes, rounded up to a power of four; 0 if it is invalid. One that is too large counts
/// with the limit: finding that out takes as long as compiling it.
pub fn compiled_size(pattern: &str) -> usize {
    const LEAST: usize = 1 << 10;
    let sizes = std::iter::successors(Some(LEAST), |size| Some(size * 4));
    let sizes = sizes.take_while(|size| *size <= MAX_REGEX_BYTES);
    for size in sizes {
        match compile_within(pattern, size) {
            Ok(_) => return size,
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => return 0,
        }
    }
    MAX_REGEX_BYTES
}

/// Compiles a pattern within a size limit.
pub(crate) fn compile_within(pattern: &str, bytes: usize) -> Result<Regex, regex::Error> {
    let mut translation = Translation {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len()),
    };
    translation.run();
    RegexBuilder::new(&translation.out).size_limit(bytes).build()
}

struct Translation<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
}

impl Translation<'_> {
    fn run(&mut self) {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape(false),
                '[' => self.class(),
                '{' if !self.is_repetition() => self.out.push_str("\\{"),
                c => self.out.push(c),
            }
        }
    }

    /// True if a brace starts a repetition: `{2}`, `{2,}` or `{2,3}`.
    fn is_repetition(&self) -> bool {
        let mut rest = self.rest.clone();
        let digits = |rest: &mut Peekable<Chars<'_>>| {
            let mut count = 0;
            while rest.next_if(char::is_ascii_digit).is_some() {
                count += 1;
            }
            count
        };
        let has_least = digits(&mut rest) > 0;
        if rest.next_if_eq(&',').is_some() {
            digits(&mut rest);
        }
        has_least && rest.next() == Some('}')
    }

    /// Translates an escape.
    fn escape(&mut self, is_in_class: bool) {
        let Some(c) = self.rest.next() else {
            return self.out.push('\\');
        };
        let members = match c.to_ascii_lowercase() {
            'd' => "0-9",
            'w' => "0-9A-Za-z_",
            's' => "\\t\\n\\f\\r ",
            _ => "",
        };
        match c {
            'd' | 'w' | 's' if is_in_class => self.out.push_str(members),
            'd' | 'w' | 's' => self.out.extend(["[", members, "]"]),
            'D' | 'W' | 'S' => self.out.extend(["[^", members, "]"]),
            'b' | 'B' if !is_in_class => self.out.push_str(&format!("(?-u:\\{c})")),
            'Q' if !is_in_class => self.quoted(),
            '<' | '>' => self.out.push(c),
            'p' | 'P' | 'x' => {
                self.out.extend(['\\', c]);
                if self.rest.peek() == Some(&'{') {
                    self.until('}');
                }
            }
            c => self.out.extend(['\\', c]),
        }
    }

    /// Copies everything up to and including a character.
    fn until(&mut self, end: char) {
        for c in self.rest.by_ref() {
            self.out.push(c);
            if c == end {
                return;
            }
        }
    }

    fn quoted(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.out
                .push_str(&regex_syntax::escape(c.encode_utf8(&mut [0; 4])));
        }
    }

    fn class(&mut self) {
        self.out.push('[');
        self.out.extend(self.rest.next_if_eq(&'^'));
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str("\\]");
        }
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape(true),
                ']' => return self.out.push(']'),
                // `[:alpha:]` is the same in both.
                '[' if self.rest.peek() == Some(&':') => {
                    self.out.push('[');
                    self.until(']');
                }
                '-' if self.rest.next_if_eq(&'-').is_some() => self.out.push_str("-\\-"),
                '[' | '&' | '~' => self.out.extend(['\\', c]),
                c => self.out.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, texts: &[(&str, bool)]) {
        let compiled = compile(pattern).unwrap_or_else(|error| panic!("{error}"));
        for (text, matches) in texts {
            assert_eq!(compiled.is_match(text), *matches, "{pattern} {text:?}");
        }
    }

    #[test]
    fn classes_are_of_ascii() {
        check(r"^\d$", &[("7", true), ("٣", false)]);
        check(r"^\w+$", &[("aZ_9", true), ("ä", false)]);
        check(r"^\s$", &[(" ", true), ("\u{a0}", false), ("\u{b}", false)]);
        check(r"^\D$", &[("٣", true), ("7", false)]);
        check(r"^[\w.-]+$", &[("a.b-c", true), ("ä", false)]);
        check(r"^[^\s]$", &[("\u{a0}", true), (" ", false)]);
        check(r"^[\Da]$", &[("a", true), ("7", false)]);
        check(r"a\b", &[("aä", true), ("ab", false)]);
        check(r"a\B", &[("ab", true), ("a", false)]);
        check(r"^\p{Greek}$", &[("α", true), ("a", false)]);
    }

    #[test]
    fn what_means_nothing_to_go_is_a_character() {
        check(r"^[^[]+$", &[("a]", true), ("[", false)]);
        check(r"^[[:digit:][]$", &[("7", true), ("[", true), (":", false)]);
        check(r"^[]a]$", &[("]", true), ("a", true)]);
        check(r"^[a&&b]+$", &[("a&b", true)]);
        check(r"^[~~]$", &[("~", true)]);
        check(r"^[+--]$", &[(",", true), (".", false)]);
        check(r"^\<a\>$", &[("<a>", true), ("a", false)]);
        check(r"^a{$", &[("a{", true)]);
        check(r"^{,5}$", &[("{,5}", true)]);
        check(r"^${name}|x$", &[("x", true)]);
        check(r"^\Qa.b\E+$", &[("a.bb", true), ("acb", false)]);
        check(r"^a{2,3}$", &[("aa", true), ("a", false)]);
        check(r"^\x{61}$", &[("a", true)]);
    }

    #[test]
    fn repetitions_take_room() {
        let size = |pattern: &str| compiled_size(pattern);
        assert!(size("^[a-z]+$") < size("^[a-z]{1,253}$"));
        assert!(size("^[a-z]{1,253}$") < size("^(é|[a-z0-9._-]{3}){1,900}$"));
        assert_eq!(size("("), 0);
    }

    #[test]
    fn a_pattern_may_stand_for_a_thousand_characters() {
        check("^.{1,1000}$", &[("ä", true), ("", false)]);
        assert!(compile("((.{1,1000}){1,1000}){1,1000}").is_err());
    }

    #[test]
    fn faults_are_told_in_the_words_of_go() {
        for (pattern, problem) in [
            ("a(", "missing closing ): `a(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("*", "missing argument to repetition operator: `*`"),
        ] {
            let error = compile(pattern).expect_err(pattern);
            assert_eq!(error, format!("error parsing regexp: {problem}"));
        }
    }

    proptest::proptest! {
        #[test]
        fn every_pattern_is_compiled_or_refused(pattern in r"([\[\]\\{}()^$&~:,<>-]|[abdwsQEpx012])*") {
            let _ = compile(&pattern);
        }
    }
}
