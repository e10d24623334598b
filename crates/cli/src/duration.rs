//! Durations as they are typed: `20s`, `1m30s`, `500ms`, `2h`, or a bare number of seconds.

use std::time::Duration;

/// Units, the longer name first where one begins with another.
const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Reads a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: type 20s, 1m30s or 500ms");
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
    }
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, unit) = rest.split_at(digits);
        let found = UNITS.iter().find(|(name, _)| unit.starts_with(name));
        let (name, factor) = found.ok_or_else(wrong)?;
        seconds += number.parse::<f64>().map_err(|_| wrong())? * factor;
        rest = &unit[name.len()..];
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
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
