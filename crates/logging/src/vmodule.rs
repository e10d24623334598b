//! `--vmodule`: levels for single files, `informer=5,watch*=9`.

use std::fmt;
use std::str::FromStr;

/// Levels by file. A pattern is a file's name without its extension or, if it contains `::`, a module path. `*`
/// matches any run of characters, `?` matches one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vmodule {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    pattern: String,
    level: i32,
}

/// Text that is not a list of `pattern=N`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseVmoduleError {
    /// No pattern, or no equals sign.
    #[error("syntax error: expect comma-separated list of filename=N, found {0:?}")]
    Syntax(String),
    /// A level that is not a number.
    #[error("syntax error: {0:?} is not a level")]
    Level(String),
    /// A character class.
    #[error("syntax error: character classes are not supported, found {0:?}")]
    Class(String),
}

impl Vmodule {
    /// The level of a file and its module; `None` if no pattern matches. The first match decides.
    pub fn level(&self, file: &str, module: &str) -> Option<i32> {
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let stem = name.strip_suffix(".rs").unwrap_or(name);
        let fits = |rule: &&Rule| match rule.pattern.contains("::") {
            true => matches(rule.pattern.as_bytes(), module.as_bytes()),
            false => matches(rule.pattern.as_bytes(), stem.as_bytes()),
        };
        self.rules.iter().find(fits).map(|rule| rule.level)
    }

    /// The highest level of any file.
    pub fn highest(&self) -> Option<i32> {
        self.rules.iter().map(|rule| rule.level).max()
    }
}

impl FromStr for Vmodule {
    type Err = ParseVmoduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // klog ignores empty parts.
        let parts = text.split(',').filter(|part| !part.is_empty());
        Ok(Self {
            rules: parts.map(Rule::from_str).collect::<Result<_, _>>()?,
        })
    }
}

impl FromStr for Rule {
    type Err = ParseVmoduleError;

    fn from_str(part: &str) -> Result<Self, Self::Err> {
        let syntax = || ParseVmoduleError::Syntax(part.to_owned());
        let (pattern, level) = part.split_once('=').ok_or_else(syntax)?;
        if pattern.is_empty() {
            return Err(syntax());
        }
        if pattern.contains(['[', ']', '\\']) {
            return Err(ParseVmoduleError::Class(pattern.to_owned()));
        }
        let level = level
            .parse()
            .map_err(|_| ParseVmoduleError::Level(level.to_owned()))?;
        Ok(Self {
            pattern: pattern.to_owned(),
            level,
        })
    }
}

impl fmt::Display for Vmodule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rule) in self.rules.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}={}", rule.pattern, rule.level)?;
        }
        Ok(())
    }
}

/// True if the pattern matches the whole text. On a mismatch the last star takes one more character, so the work is
/// at most the product of the two lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    (p, t) = (after, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_fits_decides() {
        let vmodule: Vmodule = "informer=5,watch*=9,,w?=1,app::store::*=7,*=2".parse().unwrap();
        let check = |file: &str, module: &str, level: i32| {
            assert_eq!(vmodule.level(file, module), Some(level), "{file} {module}");
        };
        check("crates/x/src/informer.rs", "x::informer", 5);
        check("src/watcher.rs", "x", 9);
        check("src/watch.rs", "x", 9);
        check("ws.rs", "x", 1);
        check("src/disk.rs", "app::store::disk", 7);
        check("src/main.rs", "app", 2);
        assert_eq!(vmodule.highest(), Some(9));
        assert_eq!(
            vmodule.to_string(),
            "informer=5,watch*=9,w?=1,app::store::*=7,*=2"
        );
        assert_eq!(Vmodule::default().level("main.rs", "app"), None);
    }

    #[test]
    fn bad_lists_are_named() {
        let check = |text: &str, message: &str| {
            assert_eq!(text.parse::<Vmodule>().unwrap_err().to_string(), message);
        };
        check(
            "informer",
            "syntax error: expect comma-separated list of filename=N, found \"informer\"",
        );
        check(
            "=5",
            "syntax error: expect comma-separated list of filename=N, found \"=5\"",
        );
        check("a=x", "syntax error: \"x\" is not a level");
        check(
            "[ab]=1",
            "syntax error: character classes are not supported, found \"[ab]\"",
        );
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "*a".repeat(50) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
        assert!(matches(b"a*b*c", b"aXbYbZc"));
        assert!(!matches(b"a*b", b"ac"));
        assert!(matches(b"**", b""));
    }
}
