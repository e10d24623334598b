//! `man`: manual pages, made from the definition of the commands.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;

use crate::failure::Failure;
use crate::program::program;
use crate::session::Session;

/// Write manual pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper man ~/.local/share/man/man1
  man watchkeeper-get")]
pub(crate) struct Manual {
    /// The directory; it is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes a page per command, and one of the program.
pub(crate) fn run(manual: &Manual, session: &mut Session) -> Result<(), Failure> {
    let pages = write_pages(&manual.directory).map_err(Failure::Other)?;
    Ok(writeln!(
        session.out,
        "{pages} manual pages are in {}",
        manual.directory.display()
    )?)
}

fn write_pages(directory: &Path) -> anyhow::Result<usize> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create the directory {}", directory.display()))?;
    let mut program = program().disable_help_subcommand(true);
    program.build();
    write_page(&program, "", directory)
}

/// Writes the page of a command and those of its own commands; returns their number.
fn write_page(command: &Command, before: &str, directory: &Path) -> anyhow::Result<usize> {
    let name = format!("{before}{}", command.get_name());
    let mut text = Vec::new();
    // The end of the help follows as sections of its own: the library would fill its lines.
    let mut shown = command.clone().after_help(None::<&'static str>);
    if name == "watchkeeper-options" {
        shown = shown.mut_args(|flag| flag.hide(false));
    }
    Man::new(shown)
        .title(name.to_uppercase())
        .source(concat!("watchkeeper ", env!("CARGO_PKG_VERSION")))
        .render(&mut text)?;
    let end = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    text.extend(sections(&end).into_bytes());
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let mut pages = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages += write_page(inner, &format!("{name}-"), directory)?;
    }
    Ok(pages)
}

/// The end of a help text: a paragraph that opens with `Examples:` is a section, lines that are indented keep their ends.
fn sections(help: &str) -> String {
    let mut page = String::new();
    for paragraph in help.split("\n\n") {
        let lines = match paragraph.strip_prefix("Examples:\n") {
            Some(lines) => {
                page.push_str(".SH EXAMPLES\n");
                lines
            }
            None => {
                page.push_str(".PP\n");
                paragraph
            }
        };
        let mut is_filled = true;
        for line in lines.lines() {
            let fills = !line.starts_with(' ');
            if fills != is_filled {
                page.push_str(if fills { ".fi\n" } else { ".nf\n" });
            }
            is_filled = fills;
            page.push_str(&escaped(line));
        }
        page.push_str(if is_filled { "" } else { ".fi\n" });
    }
    page
}

/// A line of text in roff's own language: a hyphen that can be copied, no control line.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}\n"),
        false => format!("{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    #[test]
    fn examples_are_a_section_whose_lines_stay_as_they_are() {
        let help = "Examples:\n  watchkeeper get pods    list\n  watchkeeper get -w\n\nA note\nof two lines.\n\nWith a file:\n  'a\\b'\n'quoted'";
        expect![[r#"
            .SH EXAMPLES
            .nf
              watchkeeper get pods    list
              watchkeeper get \-w
            .fi
            .PP
            A note
            of two lines.
            .PP
            With a file:
            .nf
              'a\eb'
            .fi
            \&'quoted'
        "#]]
        .assert_eq(&super::sections(help));
    }
}
