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
    Man::new(command.clone())
        .title(name.to_uppercase())
        .render(&mut text)?;
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let mut pages = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages += write_page(inner, &format!("{name}-"), directory)?;
    }
    Ok(pages)
}
