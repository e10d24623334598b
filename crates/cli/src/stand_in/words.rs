//! Command lines as Go programs parse them: `--name=value`, `--name value`, `-name`, with dashes or underscores, the
//! last one counts. The result is words for clap, and the names of unknown flags.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// A sorted command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sorted {
    /// Known words, starting with the program's name.
    pub(super) known: Vec<String>,
    /// Unknown flags, without their values, and other words.
    pub(super) ignored: Vec<String>,
}

/// Sorts the words of a command line, starting with the program's name.
pub(super) fn sort(words: &[OsString], program: &mut Command) -> Sorted {
    program.build();
    // Suites with templates leave empty words behind.
    let words = words.iter().filter(|word| !word.is_empty());
    let mut words = words.map(|word| word.to_string_lossy().into_owned()).peekable();
    let own = words.next().unwrap_or_default();
    let (mut flags, mut ignored): (Vec<(String, String)>, _) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let Some((name, value)) = flag(&word) else {
            ignored.push(word);
            continue;
        };
        let known = program.get_arguments().find(|arg| is_called(arg, &name));
        let value = value.or_else(|| match known {
            Some(known) if takes_value(known) => words.next(),
            Some(_) => None,
            // Neither program has arguments, so a word after a flag is its value.
            None => words.next_if(|word| !word.starts_with('-')),
        });
        match known {
            Some(known) => {
                if !matches!(known.get_action(), ArgAction::Append) {
                    flags.retain(|(earlier, _)| *earlier != name);
                }
                let value = value.map(|value| format!("={value}")).unwrap_or_default();
                flags.push((name, value));
            }
            None => ignored.push(format!("--{name}")),
        }
    }
    let flags = flags.into_iter().map(|(name, value)| format!("--{name}{value}"));
    Sorted {
        known: std::iter::once(own).chain(flags).collect(),
        ignored,
    }
}

/// `--name=value`, `-name`: the name with dashes, and the value if there is one.
fn flag(word: &str) -> Option<(String, Option<String>)> {
    let flag = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (flag, None),
    };
    let name = match name {
        "h" => "help".to_owned(),
        name => name.replace('_', "-"),
    };
    (!name.is_empty()).then_some((name, value))
}

fn is_called(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name)
}

/// True if a flag needs a value. Switches may have one, but only after `=`.
fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.min_values() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(line: &str, expected: Expect) {
        let mut program = Command::new("p")
            .arg(Arg::new("port").long("secure-port"))
            .arg(Arg::new("issuer").long("issuer").action(ArgAction::Append))
            .arg(
                Arg::new("allow")
                    .long("allow")
                    .num_args(0..=1)
                    .require_equals(true),
            );
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let Sorted { known, ignored } = sort(&words, &mut program);
        expected.assert_eq(&format!("{} | {}", known.join(" "), ignored.join(" ")));
    }

    #[test]
    fn flags_are_read_as_go_does() {
        check(
            "p --secure-port 1 --allow",
            expect!["p --secure-port=1 --allow | "],
        );
        check(
            "p -secure_port=1 --allow=false",
            expect!["p --secure-port=1 --allow=false | "],
        );
        check(
            "p --secure-port=1 --secure-port=2",
            expect!["p --secure-port=2 | "],
        );
        check("p --issuer a --issuer b", expect!["p --issuer=a --issuer=b | "]);
        check("p --allow true", expect!["p --allow | true"]);
        check("p -h", expect!["p --help | "]);
    }

    #[test]
    fn what_nobody_knows_is_passed_over_with_its_value() {
        check(
            "p --new=1 --newer 2 --newest --allow",
            expect!["p --allow | --new --newer --newest"],
        );
        check("p --secure-port", expect!["p --secure-port | "]);
    }
}
