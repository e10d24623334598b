//! The objects a watch begins with, as events in pieces: each piece is made when there is room to send it, and each
//! object is copied once, from where it is stored to where it is sent from.

use bytes::Bytes;
use watchkeeper_meta::{Status, WatchEventKind};

use super::{OutputForm, PIECE_BYTES, Sent, expected_piece_len};
use crate::watch::Watch;

/// The next events of those a watch begins with, as many as make a piece; `None` if there are no more of them.
///
/// An object that cannot be written ends a piece before it, and is an error as the first of the next one.
pub fn initial_events(watch: &mut Watch, form: OutputForm) -> Option<Result<Bytes, Status>> {
    let (definition, initial) = watch.definition_and_initial();
    initial.front()?;
    let sent = Sent::new(definition, form.view);
    let mut out = Vec::with_capacity(expected_piece_len(initial.iter(), form.encoding));
    while out.len() < PIECE_BYTES
        && let Some(object) = initial.front()
    {
        let before = out.len();
        let written = sent.write_event(definition, WatchEventKind::Added, object, form.encoding, &mut out);
        match written {
            Ok(()) => drop(initial.pop_front()),
            Err(status) if before == 0 => return Some(Err(status)),
            Err(_) => {
                out.truncate(before);
                break;
            }
        }
    }
    Some(Ok(out.into()))
}
