//! `replay`: a server whose past is a recording, for any client, until Ctrl-C.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use watchkeeper_recording::{Moment, Recording};
use watchkeeper_replay::{LoadOptions, Played, PlayedChange, Player, Replay, Speed};
use watchkeeper_server::Handle;

use crate::failure::Failure;
use crate::listen;
use crate::recorded::{moment, warn_of_end};
use crate::session::Session;
use crate::stop::Stop;

/// The kubeconfig is written here unless --kubeconfig says otherwise.
const DEFAULT_KUBECONFIG: &str = "replay.kubeconfig";

/// A line names that many changed objects.
const MAX_SHOWN: usize = 3;

/// Serve a recording as a cluster that can be written to
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper replay incident.rec                               as it was at the end
  watchkeeper replay incident.rec --at 2026-01-31T12:00:00Z     as it was then
  watchkeeper replay incident.rec --at 1200 --speed 10x         from there, ten times as fast
  watchkeeper replay incident.rec --at 1200 --speed step        a version for each Enter
  KUBECONFIG=replay.kubeconfig kubectl get pods -A

Versions, uids and times are the original ones; watches may start anywhere in the recorded past.
The first write starts a history of its own; the rest of the recording is then not played.")]
pub(crate) struct ReplayArguments {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Begin at this moment: a time, a version of the cluster, or end
    #[arg(long, value_name = "MOMENT", value_parser = moment, default_value = "end")]
    at: Moment,

    /// Play what comes then: 10x, 0.5x, max, or step by step with Enter
    #[arg(long, value_name = "SPEED", value_parser = pace)]
    speed: Option<Pace>,

    /// Play up to this moment
    #[arg(long, value_name = "MOMENT", value_parser = moment, default_value = "end", requires = "speed")]
    until: Moment,

    /// Upper bound on the recorded versions held in memory, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_memory: u32,

    /// Address to listen on; :PORT is on loopback, port 0 is a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443", value_parser = listen::address)]
    listen: SocketAddr,

    /// Say what would be served, and end
    #[arg(long)]
    dry_run: bool,
}

impl ReplayArguments {
    fn load_options(&self) -> LoadOptions {
        LoadOptions {
            at: self.at,
            // Entries that are not played are not needed.
            until: if self.speed.is_some() { self.until } else { self.at },
            max_bytes: (self.max_memory as usize) << 20,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    Speed(Speed),
    Step,
}

fn pace(text: &str) -> Result<Pace, String> {
    let wrong = || format!("{text:?} is no speed: type 10x, 0.5x, max or step");
    match text {
        "max" => Ok(Pace::Speed(Speed::Max)),
        "step" => Ok(Pace::Step),
        text => {
            let times: f64 = text
                .strip_suffix('x')
                .unwrap_or(text)
                .parse()
                .map_err(|_| wrong())?;
            match times.is_finite() && times > 0.0 {
                true => Ok(Pace::Speed(Speed::Times(times))),
                false => Err(wrong()),
            }
        }
    }
}

/// Serves until the user ends it.
pub(crate) async fn run(
    asked: ReplayArguments,
    kubeconfig: Option<PathBuf>,
    session: &mut Session,
) -> Result<(), Failure> {
    let recording = Recording::open(&asked.file).map_err(Failure::other)?;
    let replay = Replay::load(&recording, &asked.load_options())
        .await
        .map_err(Failure::other)?;
    warn_of_end(replay.span(), &asked.at, session);
    for (kind, count) in replay.left_out() {
        session.err.line(format!(
            "Warning: this server has no {kind}: {count} versions are left out"
        ));
    }
    session.out.line(format!(
        "{} at version {}, {}: {} objects",
        asked.file.display(),
        replay.revision(),
        replay.time(),
        replay.snapshot().len(),
    ));
    if asked.dry_run {
        return Ok(());
    }
    let server = replay
        .server()
        .listen(asked.listen)
        .start()
        .await
        .map_err(Failure::other)?;
    let path = kubeconfig.unwrap_or_else(|| DEFAULT_KUBECONFIG.into());
    session.out.line(ready(&server, &path)?);
    let (mut stop, mut player) = (Stop::listen(), replay.player());
    let result = tokio::select! {
        failed = play(&mut player, asked.speed, &server, session) => failed.map(|never| match never {}),
        () = stop.requested() => Ok(()),
    };
    server.shutdown().await;
    result
}

/// Plays, and then goes on for ever: the cluster stays until the user ends it.
async fn play(
    player: &mut Player,
    pace: Option<Pace>,
    server: &Handle,
    session: &mut Session,
) -> Result<Infallible, Failure> {
    let Some(pace) = pace else {
        return std::future::pending().await;
    };
    loop {
        match pace {
            Pace::Speed(speed) => player.pause(speed).await,
            Pace::Step => {
                if !enter(session).await? {
                    return std::future::pending().await;
                }
            }
        }
        match player.step(server.registry()).await.map_err(Failure::other)? {
            Played::Step {
                revision,
                time,
                changes,
            } => {
                session
                    .out
                    .line(format!("{time}  version {revision}  {}", objects(&changes)));
            }
            Played::Forked => {
                session
                    .err
                    .line("Somebody has written: the rest of the recording is not played.");
                return std::future::pending().await;
            }
            Played::Ended => {
                session
                    .err
                    .line("The recording has been played; the cluster stays. End with Ctrl-C.");
                return std::future::pending().await;
            }
        }
    }
}

/// `configmaps/default/settings, pods/default/web deleted and 3 more`.
fn objects(changes: &[PlayedChange]) -> String {
    let shown: Vec<_> = changes
        .iter()
        .take(MAX_SHOWN)
        .map(|change| {
            let object = change.key.trim_start_matches("/registry/");
            let end = if change.is_deleted { " deleted" } else { "" };
            format!("{object}{end}")
        })
        .collect();
    let more = match changes.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// Waits for Enter; false if there is no more input.
async fn enter(session: &mut Session) -> Result<bool, Failure> {
    let input = std::mem::replace(&mut session.input, Box::new(std::io::empty()));
    let read = tokio::task::spawn_blocking(move || {
        let mut input = input;
        let mut byte = [0];
        loop {
            match std::io::Read::read(&mut input, &mut byte) {
                Ok(0) | Err(_) => return (input, false),
                Ok(_) if byte[0] == b'\n' => return (input, true),
                Ok(_) => {}
            }
        }
    });
    let (input, is_open) = read.await.map_err(Failure::other)?;
    session.input = input;
    Ok(is_open)
}

fn ready(server: &Handle, path: &Path) -> Result<String, Failure> {
    let written = server.write_kubeconfig(path);
    let written = written.with_context(|| format!("cannot write {}", path.display()));
    written.map_err(Failure::Other)?;
    let address = server.address().map(|address| address.to_string());
    Ok(format!(
        "replaying at https://{}: export KUBECONFIG={}",
        address.unwrap_or_default(),
        std::path::absolute(path)
            .unwrap_or_else(|_| path.to_owned())
            .display(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read() {
        for (text, expected) in [
            ("10x", Pace::Speed(Speed::Times(10.0))),
            ("0.5x", Pace::Speed(Speed::Times(0.5))),
            ("max", Pace::Speed(Speed::Max)),
            ("step", Pace::Step),
        ] {
            assert_eq!(pace(text), Ok(expected), "{text}");
        }
        for text in ["0x", "-1x", "infx", "NaN", "x", ""] {
            assert!(pace(text).is_err(), "{text:?}");
        }
    }
}
