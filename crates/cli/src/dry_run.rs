//! `--dry-run`: what a write would do.

use clap::{Args, ValueEnum};

use crate::failure::Failure;

/// The flag of a write.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DryRun {
    /// Store nothing: the server checks everything, or the client only prints the object
    #[arg(long, value_name = "MODE", num_args = 0..=1, default_missing_value = "server", default_value = "none",
        hide_default_value = true, hide_possible_values = false, global = true)]
    dry_run: Mode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
#[value(rename_all = "lower")]
enum Mode {
    #[default]
    None,
    Client,
    Server,
}

impl DryRun {
    pub(crate) fn is_server(&self) -> bool {
        self.dry_run == Mode::Server
    }

    pub(crate) fn is_client(&self) -> bool {
        self.dry_run == Mode::Client
    }

    /// Fails where only the server can tell the result.
    pub(crate) fn refuse_client(&self) -> Result<(), Failure> {
        match self.is_client() {
            true => Err(Failure::text(
                "the result is made by the server: use --dry-run=server",
            )),
            false => Ok(()),
        }
    }

    /// The end of the line about a result.
    pub(crate) fn note(&self) -> &'static str {
        match self.dry_run {
            Mode::None => "",
            Mode::Client => " (dry run)",
            Mode::Server => " (server dry run)",
        }
    }
}
