//! The command line as its users see it: the flags of all commands are described once, by `watchkeeper options`, and
//! not in the help of every command.

use clap::{Arg, Command, CommandFactory as _};

use crate::arguments::Arguments;
use crate::session::Look;

/// The widest help, in columns.
pub(crate) const WIDTH: usize = 100;

/// The last line of every help text.
const HINT: &str = "\"watchkeeper options\" lists the flags of all commands: -n, --context, -s, -v, …";

/// The whole program.
pub(crate) fn program() -> Command {
    Arguments::command()
        .mut_args(|argument| {
            let is_global = argument.is_global_set();
            argument.hide(is_global)
        })
        .mut_subcommands(with_hint)
}

/// The program with help for a terminal of its width, or for a file, which has none.
pub(crate) fn program_for(look: Look) -> Command {
    match look {
        Look::Plain => program().term_width(WIDTH),
        Look::Colour => program().max_term_width(WIDTH),
    }
}

/// The flags that every command takes, in help headings.
pub(crate) fn global_flags() -> impl Iterator<Item = Arg> {
    let flags: Vec<Arg> = Arguments::command().get_arguments().cloned().collect();
    flags.into_iter().filter(Arg::is_global_set)
}

/// The commands that help lists, those of commands included: `get`, `rollout status`.
pub fn command_names() -> Vec<String> {
    let mut found = Vec::new();
    gather(&program(), "", &mut found);
    found
}

fn gather(command: &Command, before: &str, found: &mut Vec<String>) {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("{before}{}", command.get_name());
        gather(command, &format!("{name} "), found);
        found.push(name);
    }
}

fn with_hint(command: Command) -> Command {
    let text = match command.get_after_help() {
        Some(text) => format!("{text}\n\n{HINT}"),
        None => HINT.to_owned(),
    };
    command.after_help(text).mut_subcommands(with_hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a command line; quotes hold words together. A pipe, a redirection, a comment or a gap ends it.
    fn words(line: &str) -> Vec<String> {
        let line = line.split("  ").next().unwrap_or_default();
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for character in line.chars() {
            match (quote, character) {
                (Some(open), _) if open == character => quote = None,
                (None, '\'' | '"') => quote = Some(character),
                (None, '|' | '>' | '<' | '#' | '&' | ')') => break,
                (None, ' ') => words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty())),
                _ => word.push(character),
            }
        }
        words.extend(Some(word).filter(|word| !word.is_empty()));
        words
    }

    /// The part of a shell's line that runs the program: behind variables, pipes and other programs.
    fn command_line(line: &str) -> Option<Vec<String>> {
        if line.starts_with("cargo add ") {
            return None;
        }
        let line = line.replacen("cargo run --release -- ", "cargo run -- ", 1);
        let line = line.replacen("cargo run -- ", "watchkeeper ", 1);
        let before = [" ", "("].map(|before| format!("{before}watchkeeper "));
        let start = match line.starts_with("watchkeeper ") {
            true => 0,
            false => 1 + before.iter().filter_map(|words| line.find(words)).min()?,
        };
        // Alone it is the name of a package.
        Some(words(&line[start..])).filter(|words| words.len() > 1)
    }

    /// Lines of a page that run the program: in shell blocks, fenced or indented.
    fn command_lines(page: &str) -> Vec<Vec<String>> {
        let (mut found, mut fence) = (Vec::new(), "");
        for line in page.lines() {
            let trimmed = line.trim_start();
            match trimmed.strip_prefix("```") {
                Some(language) => fence = if fence.is_empty() { language } else { "" },
                None if fence == "sh" || fence.is_empty() && line.starts_with("    watchkeeper ") => {
                    found.extend(command_line(trimmed));
                }
                None => {}
            }
        }
        found
    }

    /// Fails unless the program takes these words.
    fn assert_is_command(words: &[String], place: &dyn std::fmt::Display) {
        let parsed = program().try_get_matches_from(words);
        let kind = parsed.as_ref().map_err(clap::Error::kind).err();
        let is_fine = matches!(kind, None | Some(clap::error::ErrorKind::DisplayHelp));
        assert!(is_fine, "{place}: {words:?}: {}", parsed.unwrap_err());
    }

    /// The pages of a checkout; none of a published crate, which comes without them.
    fn pages() -> Vec<std::path::PathBuf> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let files = |folder: &str| {
            std::fs::read_dir(root.join(folder))
                .into_iter()
                .flatten()
                .flatten()
        };
        let readmes = ["crates", "packages"]
            .into_iter()
            .flat_map(files)
            .map(|entry| entry.path().join("README.md"));
        let single = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|page| root.join(page));
        let docs = files("docs").map(|entry| entry.path());
        let pages = docs.chain(readmes).chain(single).filter(|path| path.is_file());
        pages
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            // The reference is the help itself, with placeholders.
            .filter(|path| !path.ends_with("commands.md"))
            .collect()
    }

    #[test]
    fn commands_in_the_pages_are_commands_of_the_program() {
        let pages = pages();
        let mut tried = 0;
        for path in &pages {
            for words in command_lines(&std::fs::read_to_string(path).unwrap()) {
                assert_is_command(&words, &path.display());
                tried += 1;
            }
        }
        assert!(pages.is_empty() || tried > 50, "only {tried} commands were found");
    }

    #[test]
    fn examples_in_the_help_are_commands_of_the_program() {
        fn examples(command: &Command, found: &mut Vec<String>) {
            let text = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            found.extend(
                text.lines()
                    .filter_map(|line| line.strip_prefix("  "))
                    .map(str::to_owned),
            );
            command
                .get_subcommands()
                .for_each(|command| examples(command, found));
        }
        let mut found = Vec::new();
        examples(&program(), &mut found);
        let commands: Vec<_> = found.iter().filter_map(|line| command_line(line)).collect();
        for words in &commands {
            assert_is_command(words, &"an example");
        }
        assert!(
            commands.len() > 100,
            "only {} examples were found",
            commands.len()
        );
    }
}
