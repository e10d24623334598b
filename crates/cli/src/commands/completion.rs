//! `completion`: a script that lets a shell ask this program for completions ([`super::complete`]).

use std::io::Write as _;

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::session::Session;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  source <(watchkeeper completion bash)
  watchkeeper completion zsh > \"${fpath[1]}/_watchkeeper\"
  watchkeeper completion fish > ~/.config/fish/completions/watchkeeper.fish
  watchkeeper completion powershell | Out-String | Invoke-Expression

Commands, flags, kinds, names, namespaces and contexts are completed; names come from the cluster.")]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

/// Prints the script.
pub(crate) fn run(completion: &Completion, session: &mut Session) -> Result<(), Failure> {
    let script = match completion.shell {
        Shell::Bash => include_str!("completion/bash.sh"),
        Shell::Zsh => include_str!("completion/zsh.sh"),
        Shell::Fish => include_str!("completion/fish.fish"),
        Shell::Powershell => include_str!("completion/powershell.ps1"),
    };
    Ok(session.out.write_all(script.as_bytes())?)
}
