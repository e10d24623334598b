//! Durations on the command line: Go's notation (`20s`, `1m30s`, `500ms`, `2h`), or a number of seconds.

use std::time::Duration;

use watchkeeper_wire::values;

/// Parses a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let read = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => text
            .parse::<values::Duration>()
            .ok()
            .and_then(values::Duration::to_std),
    };
    read.ok_or_else(|| format!("{text:?} is no duration: type 20s, 1m30s or 500ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_type_them() {
        let check = |text, milliseconds: Option<u64>| {
            assert_eq!(
                parse(text).ok(),
                milliseconds.map(Duration::from_millis),
                "{text:?}"
            );
        };
        check("20s", Some(20_000));
        check("1m30s", Some(90_000));
        check("1.5h", Some(5_400_000));
        check("250ms", Some(250));
        check("7", Some(7_000));
        check("0", Some(0));
        check("", None);
        check("20", Some(20_000));
        check("20 s", None);
        check("-1s", None);
        check("1d", None);
        check("1e999", None);
    }
}
