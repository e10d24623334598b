//! `view`: a cluster on the whole terminal, live.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;
use tokio::time::Instant;
use watchkeeper_view::feed::Feed;
use watchkeeper_view::table::Tables;
use watchkeeper_view::terminal::{Screen, Sources};

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::stop::Stop;
use crate::watched::Watched;

/// The least time between two pictures of a busy cluster: people do not read faster.
const PAUSE: Duration = Duration::from_millis(200);

/// Ages go on and rates fall also where nothing happens.
const QUIET: Duration = Duration::from_secs(1);

/// The limit on keys that wait to be handled; further ones wait in the terminal.
const KEYS: usize = 64;

/// Look at a cluster on the whole terminal, live
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper view                        every kind that can be watched, but for Secrets
  watchkeeper view pods,deployments -n shop

Kinds with counts, event rates and the state of their watches; objects with the server's columns;
changes field by field; YAML and history of an object. Press ? for the keys.")]
pub(crate) struct View {
    #[command(flatten)]
    watched: Watched,
}

/// Draws until the user has seen enough.
pub(crate) async fn run(view: View, cluster: &Cluster) -> Result<(), Failure> {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::text(
            "view needs a terminal; `watchkeeper watch` prints lines",
        ));
    }
    let what = view.watched.options(cluster).await?;
    let first = what.kinds.first().map(|kind| kind.group_resource().to_string());
    let feed = Feed::new(cluster.client.clone(), what).await?;
    let live = feed.live().clone();
    let tables = Tables::new(cluster.client.clone(), live.selection().clone());
    let title = cluster.client.server_url();
    let sources = Sources {
        live: &live,
        tables: &tables,
        title: &title,
    };
    // Restores the terminal also after a panic.
    let mut terminal = ratatui::try_init()?;
    let result = tokio::select! {
        result = show(Screen::new(first.as_deref()), &mut terminal, &sources) => result,
        () = feed.run() => Err(Failure::text("the view has ended")),
    };
    ratatui::restore();
    result
}

async fn show(
    mut screen: Screen,
    terminal: &mut ratatui::DefaultTerminal,
    sources: &Sources<'_>,
) -> Result<(), Failure> {
    let (mut keys, mut stop, mut changes) = (read_keys(), Stop::listen(), sources.live.changes());
    loop {
        terminal.draw(|frame| screen.draw(frame, sources))?;
        let drawn = Instant::now();
        let changed = async {
            if screen.is_paused() {
                return std::future::pending().await;
            }
            tokio::time::sleep_until(drawn + PAUSE).await;
            let _ = tokio::time::timeout_at(drawn + QUIET, changes.changed()).await;
        };
        tokio::select! {
            event = keys.recv() => match event {
                Some(Event::Key(key)) if screen.key(key).is_some() => return Ok(()),
                Some(_) => {}
                None => return Err(Failure::text("the terminal is gone")),
            },
            () = changed => {}
            () = stop.requested() => return Ok(()),
        }
    }
}

/// Keys as they are typed. The thread ends with the process, or with the terminal.
fn read_keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                break;
            }
        }
    });
    receiver
}
