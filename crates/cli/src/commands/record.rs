//! `record`: writes lists and watch events into a file that `replay`, `history`, `diff`, `bisect` and `get --at` read.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use watchkeeper_recording::{RecordOptions, Recorded, Recorder, Redaction, Rotation, Summary};

use crate::cluster::Cluster;
use crate::duration;
use crate::failure::Failure;
use crate::selection::{Selectors, select};
use crate::session::Session;
use crate::stop;

/// Events are read at most this often. Their recorded times are later than the events by no more.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// Record what happens in a cluster into a file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper record -o incident.rec                    all kinds but Secrets, all namespaces
  watchkeeper record pods,deployments -n shop -o shop.rec
  watchkeeper record --secrets --redact -o all.rec      Secrets too, their data masked
  watchkeeper record --redact 'spec.containers[*].env[*].value'
  watchkeeper record --rotate-age 1h --keep 24          the last day, hour by hour

The same command with the same file continues where the file ends. Changes made in between are
recorded, or a gap if the server no longer has them. Kinds that are added later are recorded too.

Read it with `watchkeeper replay`, `history`, `diff`, `bisect` and `get --recording`.")]
pub(crate) struct Record {
    /// Which kinds; all that can be listed and watched if not given
    #[arg(value_name = "KIND")]
    kinds: Vec<String>,

    /// The file; further segments are FILE.2, FILE.3 …
    #[arg(short, long, value_name = "FILE", default_value = "watchkeeper.rec")]
    output: PathBuf,

    #[command(flatten)]
    selectors: Selectors,

    /// In all namespaces, which is the default unless -n names some
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Record Secrets as well
    #[arg(long)]
    secrets: bool,

    /// Mask the data of Secrets and, if given, what this path leads to in any object; may be repeated
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "")]
    redact: Vec<String>,

    /// Begin another segment after so many MiB of events
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    rotate_size: u64,

    /// Begin another segment after so long
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    rotate_age: Option<Duration>,

    /// Keep only so many segments
    #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,

    /// End after so many events, but not in the midst of a list
    #[arg(long, value_name = "EVENTS")]
    count: Option<usize>,

    /// End after so long
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,
}

/// Records until the user, `--count`, `--for` or `--request-timeout` ends it.
pub(crate) async fn run(record: Record, cluster: &Cluster, session: &mut Session) -> Result<(), Failure> {
    let options = record.options(cluster).await?;
    let started = Recorder::start(&cluster.client, &record.output, options).await;
    let mut recorder = started.map_err(Failure::other)?;
    let result = tokio::select! {
        result = follow(&mut recorder, &record, session) => result,
        () = stop::requested() => Ok(()),
        () = sleep(record.duration) => Ok(()),
        () = cluster.watch_timeout() => Ok(()),
    };
    let finished = recorder.finish().map_err(Failure::other);
    if let Ok(summary) = &finished {
        session.err.line(in_words(summary, &record));
    }
    result.and(finished.map(drop))
}

impl Record {
    /// True if no kind was named.
    pub(crate) fn is_of_all_kinds(&self) -> bool {
        self.kinds.is_empty()
    }

    async fn options(&self, cluster: &Cluster) -> Result<RecordOptions, Failure> {
        let resources = match self.kinds.is_empty() {
            true => None,
            false => {
                let selected = select(cluster, &[self.kinds.join(",")]).await?;
                let resources = selected.into_iter().map(|one| one.resource.resource);
                Some(resources.collect())
            }
        };
        let namespaces = match cluster.namespace_typed && !self.all_namespaces {
            true => cluster.namespace.split(',').map(str::to_owned).collect(),
            false => Vec::new(),
        };
        let paths: Vec<_> = self.redact.iter().filter(|path| !path.is_empty()).collect();
        let redaction = match self.redact.is_empty() {
            true => Redaction::default(),
            false => Redaction::new(&paths).map_err(Failure::other)?,
        };
        Ok(RecordOptions {
            resources,
            namespaces,
            labels: self.selectors.labels()?,
            fields: self.selectors.fields()?,
            secrets: self.secrets,
            redaction,
            rotation: Rotation {
                bytes: self.rotate_size << 20,
                age: self.rotate_age,
                keep: self.keep,
            },
        })
    }
}

async fn sleep(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

async fn follow(recorder: &mut Recorder, record: &Record, session: &mut Session) -> Result<(), Failure> {
    let (mut left, mut is_listing) = (record.count.unwrap_or(usize::MAX), true);
    while left > 0 || recorder.is_listing() {
        match recorder.next().await.map_err(Failure::other)? {
            Recorded::Event(_, event) => left = left.saturating_sub(usize::from(event.key().is_some())),
            Recorded::Failed(stream, reason) => session.err.line(format!("Warning: {stream}: {reason}")),
            Recorded::Began(stream) if !is_listing => {
                session.err.line(format!("{stream}: recorded from now on"))
            }
            Recorded::Began(_) => {}
            Recorded::Ended(stream, reason) => session.err.line(format!("{stream}: {reason}")),
        }
        if is_listing && !recorder.is_listing() {
            is_listing = false;
            session.err.line(format!(
                "Recording {} of {} into {}; end with Ctrl-C",
                plural(recorder.state().len(), "object"),
                plural(recorder.streams().count(), "stream"),
                record.output.display(),
            ));
        }
    }
    Ok(())
}

fn in_words(summary: &Summary, record: &Record) -> String {
    let events = usize::try_from(summary.events).unwrap_or(usize::MAX);
    let exist = if summary.objects == 1 { "exists" } else { "exist" };
    format!(
        "Recorded {} into {}; {} {exist} now",
        plural(events, "event"),
        record.output.display(),
        plural(summary.objects, "object"),
    )
}

pub(super) fn plural(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}
