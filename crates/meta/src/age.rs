//! Ages and durations as kubectl prints them: `5s`, `3m2s`, `2d4h`.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A number of seconds in at most two units: the longer, the coarser. Clocks differ, so that a time may be a second in
/// the future; anything later is `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds, DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds, YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// `3m2s`, or `3m` if the smaller unit is zero.
fn two(seconds: i64, large: i64, large_name: char, small: i64, small_name: char) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, text) in [
            (-60, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (182, "3m2s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (9 * HOUR, "9h"),
            (2 * DAY + 4 * HOUR, "2d4h"),
            (30 * DAY, "30d"),
            (6 * YEAR + 320 * DAY, "6y320d"),
            (9 * YEAR, "9y"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
