//! The program under another name: as `kube-apiserver` or `etcd`, for test suites that start those.
//!
//! controller-runtime's envtest, jenvtest and others look for these programs in a directory, start them with fixed
//! flags, poll their health, and stop them with SIGTERM. [`envtest-assets`](crate::commands) fills such a directory
//! with links to this program, which acts by the name it was called by. `kubectl` is the program itself, with
//! kubectl's commands.
//!
//! Unknown flags are logged and ignored: suites pass flags of one version of Kubernetes.

mod api_server;
mod etcd;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::failure::Failure;
use crate::session::Session;
use words::Sorted;

/// A program this one stands in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    ApiServer,
    Etcd,
}

impl StandIn {
    /// The program to stand in for, by the name this one was called by.
    pub(crate) fn called(word: Option<&OsString>) -> Option<Self> {
        let name = Path::new(word?).file_name().and_then(OsStr::to_str)?;
        match name.strip_suffix(std::env::consts::EXE_SUFFIX).unwrap_or(name) {
            "kube-apiserver" => Some(Self::ApiServer),
            "etcd" => Some(Self::Etcd),
            _ => None,
        }
    }

    /// Runs as that program.
    pub(crate) async fn run(self, words: &[OsString], session: &mut Session) -> ExitCode {
        match self {
            Self::ApiServer => api_server::run(words, session).await,
            Self::Etcd => etcd::run(words, session).await,
        }
    }
}

/// Parses a command line, and sets up logging, which names the ignored flags. Returns an exit code if help was
/// requested or a value is invalid.
fn read<P>(words: &[OsString], without_effect: &[&str], session: &mut Session) -> Result<P, ExitCode>
where
    P: CommandFactory + clap::FromArgMatches + AsRef<watchkeeper_logging::Options>,
{
    let mut program = P::command();
    let Sorted { known, ignored } = words::sort(words, &mut program);
    let read = program
        .try_get_matches_from(known)
        .and_then(|matches| P::from_arg_matches(&matches));
    let read = read.map_err(|error| crate::usage::report(&error, None, session))?;
    if session.logs
        && let Err(error) = watchkeeper_logging::init(read.as_ref())
    {
        return Err(crate::finish(Err(Failure::other(error)), session));
    }
    for word in ignored {
        let flag = word.trim_start_matches('-');
        match without_effect.contains(&flag) {
            true => tracing::info!("{word} has no effect here"),
            false => tracing::warn!("unknown flag is ignored: {word}"),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_it_is_called_by_decides() {
        let called = |word: &str| StandIn::called(Some(&word.into()));
        assert_eq!(called("/assets/bin/kube-apiserver"), Some(StandIn::ApiServer));
        assert_eq!(called("etcd"), Some(StandIn::Etcd));
        assert_eq!(called("kubectl"), None);
        assert_eq!(called("/usr/bin/watchkeeper"), None);
        assert_eq!(StandIn::called(None), None);
    }
}
