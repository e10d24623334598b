//! `bisect`: the event at which a condition became true, in a recording or in the recent history of a live cluster.

use std::cell::Cell;
use std::convert::Infallible;

use clap::Args;
use serde_json::Value;
use watchkeeper_meta::Scope;
use watchkeeper_recording::{Entry, Recording, became};
use watchkeeper_wire::{Object, WireError};

use super::history::Lines;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::json_path::{Path, plain};
use crate::live_past::LivePast;
use crate::recorded::{RecordedObject, RecordingFile};
use crate::session::Session;
use crate::update_lines::UpdateLines;

/// Find the event at which a condition became true
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  watchkeeper bisect deployment web --check '{.spec.replicas}=0'
  watchkeeper bisect deployment web --check '{.spec.replicas}=0' --recording incident.rec
  watchkeeper bisect pods --check '{.status.phase}=Failed' --recording incident.rec
  watchkeeper bisect pods --check '{.metadata.deletionTimestamp}' --all --recording incident.rec

Without --recording, the recent history of the cluster is searched. A path without a value is true
if the field exists. Every version is checked, so --all finds a condition each time it becomes true.")]
pub(crate) struct Bisect {
    /// Which objects: a kind, kind/name, or a kind and a name
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    words: Vec<String>,

    /// The condition: {PATH} or {PATH}=VALUE; the braces may be left out
    #[arg(long, value_name = "CONDITION", value_parser = check)]
    check: Check,

    /// Every event at which it became true, not the first alone
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    file: RecordingFile,

    /// Lines for people, or JSON documents
    #[arg(short, long, value_name = "FORMAT", default_value = "line")]
    output: Lines,
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
struct Check {
    /// As it was typed, without braces.
    typed: String,
    path: Path,
    /// The value the path must lead to; any if not given.
    value: Option<String>,
}

fn check(text: &str) -> Result<Check, String> {
    let (path, value) = match text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((path, "")) => (path, None),
        Some((path, rest)) => match rest.strip_prefix('=') {
            Some(value) => (path, Some(value.to_owned())),
            None => return Err(format!("{text:?} is no condition: type {{.spec.replicas}}=3")),
        },
        None if text.starts_with('{') => return Err(format!("{text:?} has a brace that is not closed")),
        // Without braces, as `kubectl get -o custom-columns` takes paths.
        None => match text.split_once('=') {
            Some((path, value)) => (path, Some(value.to_owned())),
            None => (text, None),
        },
    };
    Ok(Check {
        typed: path.to_owned(),
        path: Path::parse(path)?,
        value,
    })
}

impl Check {
    /// True if the condition holds; notes in `is_known` that the object has the field.
    fn holds(&self, object: &Value, is_known: &Cell<bool>) -> bool {
        let found = self.path.find(object);
        is_known.set(is_known.get() || !found.is_empty());
        match &self.value {
            Some(wanted) => found.into_iter().any(|value| plain(value) == *wanted),
            None => found.into_iter().any(|value| !value.is_null()),
        }
    }
}

impl Bisect {
    /// The recording to read, if one was named.
    pub(crate) fn recording(&self) -> Result<Option<Recording>, Failure> {
        self.file.open()
    }

    fn holds(&self, object: &Object, is_known: &Cell<bool>) -> bool {
        let value = object.to_value();
        value.is_ok_and(|value| self.check.holds(&value, is_known))
    }

    /// Prints the events, or says that there is none.
    fn print<'a>(
        &self,
        found: &'a [Entry],
        is_known: bool,
        lines_of: impl Fn(&'a Entry) -> Result<UpdateLines<'a>, WireError>,
        session: &mut Session,
    ) -> Result<(), Failure> {
        if found.is_empty() {
            let typed = &self.check.typed;
            session.err.line(match is_known {
                true => "The condition was never true.".to_owned(),
                false => format!("The condition was never true: no version has the field {{{typed}}}."),
            });
            return Err(Failure::Judged);
        }
        let count = if self.all { found.len() } else { 1 };
        for entry in found.iter().take(count) {
            let lines = lines_of(entry).map_err(Failure::other)?;
            lines.print_as(self.output == Lines::Json, session.look, &mut session.out)?;
        }
        Ok(())
    }
}

/// Finds the event in a recording.
pub(crate) fn run_recorded(
    bisect: &Bisect,
    recording: &Recording,
    namespace: Option<&str>,
    session: &mut Session,
) -> Result<(), Failure> {
    let object = RecordedObject::find(recording, &bisect.words, namespace)?;
    let key = object.key_if_named();
    let is_known = Cell::new(false);
    let holds = |object: &Object| bisect.holds(object, &is_known);
    let found = recording.became(&object.resource, key.as_ref(), holds);
    let mut found = found.map_err(Failure::other)?;
    if key.is_none() && object.resource.scope == Scope::Namespaced {
        let is_in = |entry: &Entry, wanted| entry.key().is_some_and(|key| key.namespace() == wanted);
        found.retain(|entry| namespace.is_none_or(|wanted| is_in(entry, wanted)));
    }
    bisect.print(&found, is_known.get(), UpdateLines::of_entry, session)
}

/// Finds the event in the recent history of the cluster.
pub(crate) async fn run_live(
    bisect: &Bisect,
    cluster: &Cluster,
    session: &mut Session,
) -> Result<(), Failure> {
    let past = LivePast::find(cluster, &bisect.words).await?;
    let entries = past.entries(session).await?;
    let entries = entries.into_iter().map(Ok::<_, Infallible>);
    let is_known = Cell::new(false);
    let Ok(found) = became(entries, |object| bisect.holds(object, &is_known));
    bisect.print(&found, is_known.get(), UpdateLines::of_remembered, session)
}
