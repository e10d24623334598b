//! One update for people and for programs: what happened to which object, who did it, and the fields that changed.
//!
//! ```text
//! MODIFIED  deployment.apps/web in shop  version 512  by kubectl (Update)
//!     spec.replicas: 1 → 3
//!     (2 more: managed fields, versions, heartbeats)
//! ```

use std::io::{self, Write};

use serde_json::{Value, json};
use watchkeeper_meta::{ObjectKey, Resource, Time};
use watchkeeper_recording::{Author, Change, Entry, Update, What};
use watchkeeper_wire::{Object, WireError};

use crate::palette::{BOLD, CYAN, GREEN, RED, YELLOW};
use crate::session::Look;

/// Longer values are cut in lines; JSON has all of them.
const MAX_VALUE_CHARACTERS: usize = 120;

/// One update, as it is printed.
#[derive(Debug)]
pub(crate) struct UpdateLines<'a> {
    pub(crate) time: Option<Time>,
    /// `ADDED`, `MODIFIED`, `DELETED`, `GAP`, `ENDED`.
    pub(crate) event: &'static str,
    pub(crate) resource: &'a Resource,
    /// The object; `None` for what concerns a whole stream.
    pub(crate) key: Option<ObjectKey>,
    pub(crate) version: String,
    pub(crate) update: Update,
    /// A sentence at the end of the line.
    pub(crate) note: Option<String>,
}

impl<'a> UpdateLines<'a> {
    /// The lines of an entry of a recording.
    pub(crate) fn of_entry(entry: &'a Entry) -> Result<Self, WireError> {
        let update = match &entry.what {
            What::Modified { object, previous } => Update::between(Some(previous), object)?,
            What::Listed(object) | What::Added(object) => Update::between(None, object)?,
            _ => Update::default(),
        };
        let note = match &entry.what {
            What::Deleted { inferred: true, .. } => {
                Some("found by comparison; its end was not seen".to_owned())
            }
            What::Gap(gap) => Some(format!("events are missing here: {}", gap.reason)),
            What::Failed(reason) | What::Ended(reason) => Some(reason.clone()),
            _ => None,
        };
        Ok(Self {
            time: Some(entry.time),
            event: entry.what.word(),
            resource: &entry.stream.resource,
            key: entry.key(),
            version: entry
                .revision
                .map(|revision| revision.to_string())
                .unwrap_or_default(),
            update,
            note,
        })
    }

    /// The lines of an entry of a live cluster, which has no time.
    pub(crate) fn of_remembered(entry: &'a Entry) -> Result<Self, WireError> {
        Ok(Self {
            time: None,
            ..Self::of_entry(entry)?
        })
    }

    /// The lines of an object that differs between two states.
    pub(crate) fn of_difference(
        resource: &'a Resource,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> Result<Self, WireError> {
        let (event, update) = match (old, new) {
            (None, Some(new)) => ("ADDED", Update::between(None, new)?),
            (Some(old), Some(new)) => ("MODIFIED", Update::between(Some(old), new)?),
            (_, None) => ("DELETED", Update::default()),
        };
        let object = new.or(old);
        Ok(Self {
            time: None,
            event,
            resource,
            key: object.map(Object::key),
            version: object
                .map(|object| object.resource_version().to_owned())
                .unwrap_or_default(),
            update,
            note: None,
        })
    }

    /// Prints for people.
    pub(crate) fn print(&self, look: Look, out: &mut impl Write) -> io::Result<()> {
        let mut head = Vec::new();
        if let Some(time) = self.time {
            head.push(format!("{time}"));
        }
        head.push(look.paint(self.colour(), &format!("{:<8}", self.event)));
        head.push(look.paint(BOLD, &self.name()));
        if !self.version.is_empty() {
            head.push(format!("version {}", self.version));
        }
        if !self.update.authors.is_empty() {
            let authors: Vec<_> = self.update.authors.iter().map(Author::to_string).collect();
            head.push(format!("by {}", look.paint(CYAN, &authors.join(", "))));
        }
        head.extend(self.note.clone());
        writeln!(out, "{}", head.join("  "))?;
        for change in &self.update.changes {
            writeln!(out, "    {}", change_line(change, look))?;
        }
        match self.update.folded.len() {
            0 => Ok(()),
            count => writeln!(out, "    ({count} more: managed fields, versions, heartbeats)"),
        }
    }

    /// The same as one JSON document.
    pub(crate) fn to_json(&self) -> Value {
        let mut document = json!({
            "type": self.event,
            "apiVersion": self.resource.group_version_kind().api_version(),
            "kind": self.resource.kind,
            "namespace": self.key.as_ref().map(|key| key.namespace()),
            "name": self.key.as_ref().map(|key| key.name()),
            "resourceVersion": self.version,
        });
        add_update(&mut document, &self.update);
        if let Some(time) = self.time {
            document["time"] = time.to_rfc3339_micro().into();
        }
        if let Some(note) = &self.note {
            document["note"] = note.as_str().into();
        }
        document
    }

    /// Prints in one of the two forms.
    pub(crate) fn print_as(&self, is_json: bool, look: Look, out: &mut impl Write) -> io::Result<()> {
        match is_json {
            true => writeln!(out, "{}", self.to_json()),
            false => self.print(look, out),
        }
    }

    fn name(&self) -> String {
        match &self.key {
            None => self.resource.group_resource().to_string(),
            Some(key) if key.namespace().is_empty() => self.resource.display_name(key.name()),
            Some(key) => format!(
                "{} in {}",
                self.resource.display_name(key.name()),
                key.namespace()
            ),
        }
    }

    fn colour(&self) -> &'static str {
        match self.event {
            "ADDED" | "LISTED" => GREEN,
            "MODIFIED" => YELLOW,
            _ => RED,
        }
    }
}

/// Puts an update into a JSON document: `by`, `changes` and `folded`.
pub(crate) fn add_update(document: &mut Value, update: &Update) {
    let changes = update.changes.iter().map(|change| {
        let mut document = json!({"path": change.path.to_string()});
        for (name, value) in [("old", &change.old), ("new", &change.new)] {
            if let Some(value) = value {
                document[name] = value.clone();
            }
        }
        document
    });
    document["by"] = json!(update.authors);
    document["changes"] = changes.collect();
    document["folded"] = update.folded.len().into();
}

fn change_line(change: &Change, look: Look) -> String {
    let value = |colour, value: &Value| look.paint(colour, &short(value));
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            format!("{}: {} → {}", change.path, value(RED, old), value(GREEN, new))
        }
        (None, Some(new)) => format!("+ {}: {}", change.path, value(GREEN, new)),
        (Some(old), None) => format!("- {}: {}", change.path, value(RED, old)),
        (None, None) => change.path.to_string(),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
