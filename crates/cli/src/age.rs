//! The age of something in an object.

use watchkeeper_meta::{Time, human_duration};

/// The age of a time that stands in an object; `<unknown>` if none does.
pub(crate) fn since(time: Option<Time>, now: Time) -> String {
    match time {
        Some(time) => human_duration(now.seconds - time.seconds),
        None => "<unknown>".to_owned(),
    }
}

/// Now.
pub(crate) fn now() -> Time {
    jiff::Timestamp::now().into()
}
