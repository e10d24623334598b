//! The ages of a Table.

use watchkeeper_meta::{Time, human_duration};

/// The time since a timestamp; `<unknown>` if there is none.
pub(crate) fn age(time: Option<&str>, now: Time) -> String {
    match time.and_then(|text| text.parse::<Time>().ok()) {
        Some(time) => human_duration(now.seconds - time.seconds),
        None => "<unknown>".to_owned(),
    }
}
