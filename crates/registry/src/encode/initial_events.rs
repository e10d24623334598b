//! Encodes the initial events of a watch in pieces. Each piece is built when it can be sent, and each object is
//! copied once, from the store's bytes into the piece.

use bytes::Bytes;
use watchkeeper_meta::{Status, WatchEventKind};

use super::{OutputForm, PIECE_BYTES, Sent, expected_piece_len};
use crate::object::StoredObject;
use crate::watch::Watch;

/// The next piece of initial events; `None` if there are no more.
///
/// An object that cannot be encoded ends the piece before it; the next call returns the error. `sent` is called with the
/// size of each event.
pub fn initial_events(
    watch: &mut Watch,
    form: OutputForm,
    mut sent: impl FnMut(usize),
) -> Option<Result<Bytes, Status>> {
    let (definition, initial) = watch.definition_and_initial();
    initial.front()?;
    let form_of_events = Sent::new(definition, form.view);
    let mut out = Vec::with_capacity(expected_piece_len(initial.iter(), form.encoding));
    while out.len() < PIECE_BYTES
        && let Some(item) = initial.front()
    {
        let (before, object) = (out.len(), StoredObject::from(item));
        let written = form_of_events.write_event(
            definition,
            WatchEventKind::Added,
            &object,
            form.encoding,
            &mut out,
        );
        match written {
            Ok(()) => {
                sent(out.len() - before);
                initial.pop_front();
            }
            Err(status) if before == 0 => return Some(Err(status)),
            Err(_) => {
                out.truncate(before);
                break;
            }
        }
    }
    Some(Ok(out.into()))
}
