//! Parses an unfinished command line, and finds what its last word is: a command, a flag, a flag's value, or an
//! argument. Pure: everything comes from the program's clap definition.

use clap::{Arg, Command, ValueHint};

/// A command line up to the cursor.
#[derive(Debug)]
pub(super) struct Line<'c> {
    program: &'c Command,
    /// The command, if it is typed.
    pub(super) command: Option<&'c Command>,
    /// The finished arguments of the command: kinds and names.
    pub(super) words: Vec<&'c str>,
    /// The unfinished word at the cursor.
    pub(super) unfinished: &'c str,
    pub(super) place: Place<'c>,
}

/// The position of the cursor.
#[derive(Debug)]
pub(super) enum Place<'c> {
    Command,
    Flag,
    /// In the value of a flag; the number is the length of the flag itself in the word.
    Value(&'c Arg, usize),
    /// In an argument of the command.
    Word,
}

impl<'c> Line<'c> {
    pub(super) fn read(program: &'c Command, words: &'c [String]) -> Self {
        let (unfinished, finished) = match words.split_last() {
            Some((last, finished)) => (last.as_str(), finished),
            None => ("", words),
        };
        let mut line = Self {
            program,
            command: None,
            words: Vec::new(),
            unfinished,
            place: Place::Command,
        };
        let (mut pending, mut only_words) = (None, false);
        for word in finished {
            match word.as_str() {
                _ if pending.take().is_some() => {}
                "--" => only_words = true,
                flag if is_flag(flag) && !only_words => pending = line.awaiting_value(flag),
                word if line.command.is_none() => line.command = program.find_subcommand(word),
                word => line.words.push(word),
            }
        }
        line.place = line.place_of_cursor(pending, only_words);
        line
    }

    fn place_of_cursor(&self, pending: Option<&'c Arg>, only_words: bool) -> Place<'c> {
        let word = self.unfinished;
        if let Some(flag) = pending {
            return Place::Value(flag, 0);
        }
        if word.starts_with('-') && !only_words {
            return match word.split_once('=') {
                Some((name, _)) => match self.flag(name.trim_start_matches('-')) {
                    Some(flag) => Place::Value(flag, name.len() + 1),
                    None => Place::Flag,
                },
                None => Place::Flag,
            };
        }
        match self.command {
            Some(_) => Place::Word,
            None => Place::Command,
        }
    }

    /// The flag whose value is the next word: `--namespace`, `-n`, `-An`.
    fn awaiting_value(&self, word: &str) -> Option<&'c Arg> {
        if let Some(name) = word.strip_prefix("--") {
            return self.flag(name).filter(|flag| takes_next_word(flag));
        }
        let letters = &word[1..];
        for (at, letter) in letters.char_indices() {
            let flag = self.arguments().find(|flag| flag.get_short() == Some(letter))?;
            if takes_next_word(flag) {
                // `-nshop`: the value is in the same word.
                return (at + letter.len_utf8() == letters.len()).then_some(flag);
            }
        }
        None
    }

    fn flag(&self, name: &str) -> Option<&'c Arg> {
        let letter = name
            .chars()
            .next()
            .filter(|letter| name.len() == letter.len_utf8());
        self.arguments()
            .find(|flag| flag.get_long() == Some(name) || (letter.is_some() && flag.get_short() == letter))
    }

    /// The flags and arguments possible here: the command's own and the global ones.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &'c Arg> + use<'c> {
        let own = self.command.into_iter().flat_map(Command::get_arguments);
        own.chain(self.program.get_arguments())
            .filter(|argument| !argument.is_hide_set())
    }

    /// The argument at the cursor, as the command declares it.
    pub(super) fn word_argument(&self) -> Option<&'c Arg> {
        self.command.and_then(|command| command.get_positionals().next())
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = &'c Command> + use<'c> {
        self.program
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
    }

    /// True if a file name is possible.
    pub(super) fn wants_file(&self) -> bool {
        let Place::Value(flag, _) = self.place else {
            return false;
        };
        matches!(
            flag.get_value_hint(),
            ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath
        )
    }
}

fn is_flag(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// `--wait` may have a value, but only with `=`.
fn takes_next_word(flag: &Arg) -> bool {
    let needs_one = flag.get_num_args().is_none_or(|count| count.min_values() > 0);
    flag.get_action().takes_values() && needs_one && !flag.is_require_equals_set()
}
