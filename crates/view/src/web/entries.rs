//! Log entries in the page's JSON.

use serde_json::{Value, json};

use crate::board::{Change, Entry, Happening};

/// The largest number of fields per entry.
const MAX_FIELDS: usize = 40;

/// The longest value shown.
const MAX_VALUE: usize = 200;

pub(super) fn json(entry: &Entry) -> Value {
    let mut json = match &entry.what {
        Happening::Change(change) => change_json(change),
        Happening::Restarted { reason } => json!({ "type": "RESTARTED", "reason": reason }),
        Happening::Failed { reason } => json!({ "type": "FAILED", "reason": reason }),
    };
    json["sequence"] = entry.sequence.into();
    json["at"] = entry.at.as_millisecond().into();
    json["stream"] = (*entry.stream).into();
    json
}

fn change_json(change: &Change) -> Value {
    let update = change.update();
    let shown = update.changes.iter().take(MAX_FIELDS);
    let shown: Vec<Value> = shown
        .map(|field| json!({ "path": field.path.to_string(), "old": text(&field.old), "new": text(&field.new) }))
        .collect();
    json!({
        "type": change.event,
        "namespace": change.key.namespace(),
        "name": change.key.name(),
        "uid": change.uid,
        "version": change.version,
        "who": change.who,
        "inferred": change.inferred,
        "more": update.changes.len() - shown.len(),
        "folded": update.folded.len(),
        "changes": shown,
    })
}

/// A value on one line, truncated if long.
fn text(value: &Option<Value>) -> Option<String> {
    let text = match value.as_ref()? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    })
}
