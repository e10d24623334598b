//! `options`: the flags that every command takes.

use std::io::Write as _;

use clap::{Args, Command};

use crate::failure::Failure;
use crate::program::{WIDTH, global_flags};
use crate::session::{Look, Session};

/// List the flags of all commands: cluster, user, logging
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper options
  watchkeeper get pods --context staging -n shop")]
pub(crate) struct Options {}

/// Prints the flags.
pub(crate) fn run(session: &mut Session) -> Result<(), Failure> {
    let mut flags = Command::new("watchkeeper")
        .disable_help_flag(true)
        .term_width(WIDTH)
        .help_template("Every command takes these flags.\n\n{all-args}\n")
        .args(global_flags());
    let text = flags.render_help();
    match session.look {
        Look::Plain => write!(session.out, "{text}")?,
        Look::Colour => write!(session.out, "{}", text.ansi())?,
    }
    Ok(())
}
