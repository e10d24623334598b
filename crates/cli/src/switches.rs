//! Switches with a value, as kubectl takes them: `--ignore-not-found=true` is `--ignore-not-found`, and `--all=false` is
//! nothing.
//!
//! Words that are no switch, and those after `--`, stay as they are.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// The words with every switch in its plain form.
pub(crate) fn plain(words: impl IntoIterator<Item = OsString>, program: &Command) -> Vec<OsString> {
    let (mut command, mut found, mut words) = (program, Vec::new(), words.into_iter());
    found.extend(words.next());
    for word in words.by_ref() {
        if word == "--" {
            found.push(word);
            break;
        }
        match word.to_str().and_then(|word| switch(word, [command, program])) {
            Some((flag, true)) => found.push(flag.into()),
            Some((_, false)) => {}
            None => {
                command = command.find_subcommand(&word).unwrap_or(command);
                found.push(word);
            }
        }
    }
    found.extend(words);
    found
}

/// A switch of one of the commands, and its value.
fn switch<'w>(word: &'w str, commands: [&Command; 2]) -> Option<(&'w str, bool)> {
    let (flag, value) = word.split_once('=')?;
    let value = boolean(value)?;
    let is_meant = |argument: &Arg| {
        let long = argument.get_long().map(|long| format!("--{long}"));
        let short = argument.get_short().map(|short| format!("-{short}"));
        [long, short].into_iter().flatten().any(|name| name == flag)
    };
    let mut arguments = commands.into_iter().flat_map(Command::get_arguments);
    let found = arguments.find(|argument| is_meant(argument))?;
    matches!(found.get_action(), ArgAction::SetTrue).then_some((flag, value))
}

/// As Go reads them.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Some(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::program;

    fn check(line: &str, expected: &str) {
        let words = line.split(' ').map(OsString::from);
        let words: Vec<_> = plain(words, &program())
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn a_switch_with_a_value_is_there_or_not() {
        check(
            "watchkeeper get pods --no-headers=true",
            "watchkeeper get pods --no-headers",
        );
        check(
            "watchkeeper get pods -A=1 --watch=false",
            "watchkeeper get pods -A",
        );
        check(
            "watchkeeper get pods --insecure-skip-tls-verify=true",
            "watchkeeper get pods --insecure-skip-tls-verify",
        );
        check("watchkeeper label pods --all=F a=b", "watchkeeper label pods a=b");
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for line in [
            "watchkeeper get pods --no-headers=maybe",
            "watchkeeper get pods --output=true",
            "watchkeeper delete pods --wait=false",
            "watchkeeper get pods --nosuch=true",
            "watchkeeper create job once --image=busybox -- sh --all=true",
            "watchkeeper label pods true=false",
        ] {
            check(line, line);
        }
    }
}
