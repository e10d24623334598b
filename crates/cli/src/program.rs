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

    /// The words of a command line; quotes hold words together, and a pipe, a redirection or a comment ends it.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for character in line.chars() {
            match (quote, character) {
                (Some(open), _) if open == character => quote = None,
                (None, '\'' | '"') => quote = Some(character),
                (None, '|' | '>' | '<' | '#' | '&') => break,
                (None, ' ') => words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty())),
                _ => word.push(character),
            }
        }
        words.extend(Some(word).filter(|word| !word.is_empty()));
        words
    }

    /// Lines of shell blocks, fenced or indented, that run the program.
    fn command_lines(page: &str) -> impl Iterator<Item = Vec<String>> {
        let lines = page.lines().map(str::trim_start);
        let lines = lines.map(|line| line.replacen("cargo run -- ", "watchkeeper ", 1));
        // Not the name of a dependency.
        let lines =
            lines.filter(|line| line.starts_with("watchkeeper ") && !line.starts_with("watchkeeper ="));
        lines.map(|line| words(&line))
    }

    #[test]
    fn commands_in_the_pages_are_commands_of_the_program() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Ok(docs) = std::fs::read_dir(root.join("docs")) else {
            // A published crate comes without the pages.
            return;
        };
        let pages = docs
            .filter_map(|entry| Some(entry.ok()?.path()))
            .chain([root.join("README.md")]);
        let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
        // The reference is the help itself, with placeholders.
        let pages = pages.filter(|path| !path.ends_with("commands.md"));
        let mut tried = 0;
        for path in pages {
            let page = std::fs::read_to_string(&path).unwrap();
            for line in command_lines(&page) {
                let parsed = program().try_get_matches_from(&line);
                let kind = parsed.as_ref().map_err(clap::Error::kind).err();
                let is_fine = matches!(kind, None | Some(clap::error::ErrorKind::DisplayHelp));
                assert!(is_fine, "{}: {line:?}: {}", path.display(), parsed.unwrap_err());
                tried += 1;
            }
        }
        assert!(tried > 30, "only {tried} commands were found");
    }
}
