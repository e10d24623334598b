//! Ages as kubectl prints them: `12s`, `5m2s`, `3h20m`, `2d`.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// An age as kubectl prints it: the older, the coarser.
pub fn human(seconds: i64) -> String {
    let pair = |large: i64, small: i64, names: (&str, &str)| match seconds % large / small {
        0 => format!("{}{}", seconds / large, names.0),
        rest => format!("{}{}{rest}{}", seconds / large, names.0, names.1),
    };
    match seconds {
        // Clocks differ: a creation up to two seconds in the future counts as now.
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => pair(MINUTE, 1, ("m", "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => pair(HOUR, MINUTE, ("h", "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => pair(DAY, HOUR, ("d", "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(YEAR, DAY, ("y", "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_grow_coarser() {
        let check = |seconds, expected| assert_eq!(human(seconds), expected, "{seconds}");
        check(-1, "0s");
        check(-60, "<invalid>");
        check(0, "0s");
        check(119, "119s");
        check(120, "2m");
        check(302, "5m2s");
        check(600, "10m");
        check(3 * HOUR + 20 * MINUTE, "3h20m");
        check(47 * HOUR, "47h");
        check(2 * DAY + HOUR, "2d1h");
        check(100 * DAY, "100d");
        check(3 * YEAR + 4 * DAY, "3y4d");
        check(9 * YEAR, "9y");
    }
}
