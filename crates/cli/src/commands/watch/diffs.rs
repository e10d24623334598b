//! `watch --diff`: what changed in each event, by comparing with the state before.
//!
//! It holds the last state of every object it follows. The first state of an object has nothing to be compared with.

use std::collections::HashMap;
use std::sync::Arc;

use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_recording::Update;
use watchkeeper_runtime::follow::FollowEvent;
use watchkeeper_wire::Object;

use crate::failure::Failure;
use crate::session::Session;
use crate::update_lines::UpdateLines;

/// The last state of every object.
#[derive(Debug)]
pub(super) struct Diffs {
    known: HashMap<(Arc<str>, ObjectKey), Object>,
    /// Show the fields that are folded as well.
    all_fields: bool,
}

impl Diffs {
    pub(super) fn new(all_fields: bool) -> Self {
        Self {
            known: HashMap::new(),
            all_fields,
        }
    }

    /// The changed fields of an event; `None` if it is about the stream.
    pub(super) fn update(
        &mut self,
        event: &FollowEvent,
        stream: &Arc<str>,
    ) -> Result<Option<Update>, Failure> {
        let Some(key) = event.key() else {
            return Ok(None);
        };
        let place = (stream.clone(), key);
        let mut update = match event {
            FollowEvent::Added(object) | FollowEvent::Modified(object) => {
                let before = self.known.insert(place, object.clone());
                Update::between(before.as_ref(), object).map_err(Failure::other)?
            }
            _ => {
                self.known.remove(&place);
                Update::default()
            }
        };
        if self.all_fields {
            update.unfold();
        }
        Ok(Some(update))
    }

    /// Prints an event with what it changed.
    pub(super) fn print(
        &self,
        event: &FollowEvent,
        update: Option<Update>,
        resource: &Resource,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let mut note = None;
        let (name, version) = match event {
            FollowEvent::Added(object) | FollowEvent::Modified(object) => (event.kind(), object.version()),
            FollowEvent::Deleted(gone) => {
                if gone.last.is_none() {
                    note = Some("found by comparison; its end was not seen".to_owned());
                }
                (event.kind(), gone.version.clone())
            }
            FollowEvent::Restarted(restart) => {
                note = Some(format!("events are missing here: {}", restart.reason));
                ("GAP", restart.to.clone().unwrap_or_default())
            }
            FollowEvent::Synced(_) | FollowEvent::Bookmark(_) => return Ok(()),
        };
        let lines = UpdateLines {
            time: None,
            event: name,
            resource,
            key: event.key(),
            version: version.to_string(),
            update: update.unwrap_or_default(),
            note,
        };
        lines.print(session.look, &mut session.out)?;
        Ok(std::io::Write::flush(&mut session.out)?)
    }
}
