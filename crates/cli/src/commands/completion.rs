//! `completion`: a script that teaches a shell what may be typed.

use std::io::Write as _;

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::session::Session;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  source <(watchkeeper completion bash)
  watchkeeper completion zsh > \"${fpath[1]}/_watchkeeper\"
  watchkeeper completion fish > ~/.config/fish/completions/watchkeeper.fish")]
pub(crate) struct Completion {
    /// The shell
    shell: KnownShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script.
pub(crate) fn run(completion: &Completion, session: &mut Session) -> Result<(), Failure> {
    let shell = match completion.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "watchkeeper", &mut script);
    Ok(session.out.write_all(&script)?)
}
