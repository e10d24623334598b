//! Computes when a cron job is due: the last missed time, and the time to the next one.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use watchkeeper_meta::Time;
use watchkeeper_wire::values::CronSchedule;

use crate::item::Item;
use crate::time;

/// Beyond this number, missed times are not counted, as in Kubernetes.
const MANY: usize = 100;

/// The due times of a cron job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The time whose job should exist.
    pub(super) now: Option<Timestamp>,
    /// The time until the next one.
    pub(super) next: Option<Duration>,
}

/// The due times of a cron job. The error describes an invalid schedule.
pub(super) fn due(cron_job: &Item, now: Time) -> Result<Due, String> {
    let schedule: CronSchedule = cron_job
        .text("/spec/schedule")
        .parse()
        .map_err(|error| format!("{error}"))?;
    let zone = match cron_job.text("/spec/timeZone") {
        "" => TimeZone::UTC,
        name => TimeZone::get(name).map_err(|error| error.to_string())?,
    };
    let now = now.to_timestamp().unwrap_or_default();
    if cron_job["spec"]["suspend"] == true {
        return Ok(Due {
            now: None,
            next: None,
        });
    }
    let last = time::read(cron_job.at("/status/lastScheduleTime"));
    let mut after = last
        .or(cron_job.creation_timestamp())
        .and_then(Time::to_timestamp)
        .unwrap_or(now);
    if let Some(seconds) = cron_job.at("/spec/startingDeadlineSeconds").as_i64() {
        // Times before the starting deadline are skipped.
        let deadline = now.checked_sub(SignedDuration::from_secs(seconds));
        after = after.max(deadline.unwrap_or(after));
    }
    let missed = last_missed(&schedule, &after.to_zoned(zone.clone()), now);
    let next = schedule.next_after(&now.to_zoned(zone));
    let wait = next.and_then(|next| Duration::try_from(next.timestamp().duration_since(now)).ok());
    Ok(Due {
        now: missed,
        next: wait,
    })
}

/// A time in the time zone of a cron job.
pub(super) fn in_zone(cron_job: &Item, time: Timestamp) -> String {
    let zone = match cron_job.text("/spec/timeZone") {
        "" => None,
        name => TimeZone::get(name).ok(),
    };
    match zone {
        None => Time::from(time).to_rfc3339(),
        Some(zone) => {
            let text = time.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
            text.replace("+00:00", "Z")
        }
    }
}

/// The last scheduled time after `after` and not after `until`. Of very many, one of the last.
fn last_missed(schedule: &CronSchedule, after: &Zoned, until: Timestamp) -> Option<Timestamp> {
    let times = std::iter::successors(schedule.next_after(after), |time| schedule.next_after(time));
    let missed = times.take_while(|time| time.timestamp() <= until).take(MANY);
    let (count, last) = missed.fold((0, None), |(count, _), time| (count + 1, Some(time)));
    let last: Zoned = last?;
    if count < MANY {
        return Some(last.timestamp());
    }
    // Too many to enumerate: continue half-way.
    let half = until.duration_since(last.timestamp()) / 2;
    let half_way = last.checked_add(half).unwrap_or(last.clone());
    if half_way <= last {
        return Some(last.timestamp());
    }
    last_missed(schedule, &half_way, until).or(Some(last.timestamp()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::item::tests::item;

    /// A spec, the last time, and now; the due time, and the seconds to the next.
    #[track_caller]
    fn check(spec: Value, last: &str, now: &str, wanted: (Option<&str>, u64)) {
        let cron_job = item(&json!({
            "apiVersion": "batch/v1", "kind": "CronJob",
            "metadata": {"name": "night"}, "spec": spec, "status": {"lastScheduleTime": last},
        }));
        let due = due(&cron_job, now.parse().unwrap()).unwrap();
        let found = due.now.map(|time| time.to_string());
        let next = due.next.unwrap_or_default().as_secs();
        assert_eq!((found.as_deref(), next), wanted);
    }

    #[test]
    fn the_last_time_that_was_missed_is_due() {
        let hourly = json!({"schedule": "@hourly"});
        let last = "2026-11-16T01:00:00Z";
        check(hourly.clone(), last, "2026-11-16T01:59:00Z", (None, 60));
        check(
            hourly.clone(),
            last,
            "2026-11-16T02:00:00Z",
            (Some("2026-11-16T02:00:00Z"), 3600),
        );
        check(
            hourly.clone(),
            last,
            "2026-11-16T05:30:00Z",
            (Some("2026-11-16T05:00:00Z"), 1800),
        );
        check(
            json!({"schedule": "@hourly", "suspend": true}),
            last,
            "2026-11-16T05:30:00Z",
            (None, 0),
        );
        // A year of hours.
        check(
            hourly,
            last,
            "2027-11-16T05:30:00Z",
            (Some("2027-11-16T05:00:00Z"), 1800),
        );
    }

    #[test]
    fn what_is_too_late_is_left_out() {
        let strict = json!({"schedule": "@hourly", "startingDeadlineSeconds": 60});
        let last = "2026-11-16T01:00:00Z";
        check(
            strict.clone(),
            last,
            "2026-11-16T02:00:59Z",
            (Some("2026-11-16T02:00:00Z"), 3541),
        );
        check(strict, last, "2026-11-16T02:01:01Z", (None, 3539));
    }

    #[test]
    fn a_time_zone_decides_what_nine_is() {
        let spec = json!({"schedule": "0 9 * * *", "timeZone": "America/New_York"});
        let last = "2026-11-15T14:00:00Z";
        check(
            spec,
            last,
            "2026-11-16T14:00:00Z",
            (Some("2026-11-16T14:00:00Z"), 86400),
        );
    }
}
