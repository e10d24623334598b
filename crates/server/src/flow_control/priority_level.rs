//! Stored priority levels, and the distribution of the server's seats among them.

use http::HeaderValue;
use serde_json::Value;

use super::seats::{Limits, Queuing};

/// A stored priority level.
#[derive(Debug)]
pub(super) struct PriorityLevel {
    pub name: String,
    pub uid: HeaderValue,
    /// Its requests never wait and are not counted.
    pub is_exempt: bool,
    shares: u32,
    lendable_percent: u32,
    /// `None`: no limit.
    borrowing_percent: Option<u32>,
    queuing: Option<Queuing>,
}

impl PriorityLevel {
    pub(super) fn read(level: &Value) -> Self {
        let spec = &level["spec"];
        let is_exempt = spec["type"] == "Exempt";
        let part = &spec[if is_exempt { "exempt" } else { "limited" }];
        let queuing = &part["limitResponse"]["queuing"];
        Self {
            name: level["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            uid: uid(level),
            is_exempt,
            shares: number(&part["nominalConcurrencyShares"]).unwrap_or(0),
            lendable_percent: number(&part["lendablePercent"]).unwrap_or(0).min(100),
            borrowing_percent: number(&part["borrowingLimitPercent"]),
            queuing: queuing.is_object().then(|| Queuing {
                queues: number(&queuing["queues"]).unwrap_or(1).max(1),
                hand_size: number(&queuing["handSize"]).unwrap_or(1).max(1),
                length_limit: number(&queuing["queueLengthLimit"]).unwrap_or(1) as usize,
            }),
        }
    }
}

/// The uid of an object as a header; empty if it is not stored.
pub(super) fn uid(object: &Value) -> HeaderValue {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    HeaderValue::from_str(uid).unwrap_or(HeaderValue::from_static(""))
}

fn number(value: &Value) -> Option<u32> {
    value
        .as_u64()
        .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// The seats of each limited level, in proportion to its shares, rounded up; and the seats that the exempt level
/// lends.
pub(super) fn share_out(levels: &[PriorityLevel], server: u32) -> (Vec<(String, Limits)>, u32) {
    let all: f64 = levels.iter().map(|level| f64::from(level.shares)).sum();
    let nominal = |level: &PriorityLevel| match level.shares {
        0 => 0,
        shares => (f64::from(server) * f64::from(shares) / all).ceil() as u32,
    };
    let lent = |level: &PriorityLevel| percent(nominal(level), level.lendable_percent);
    let spare = levels.iter().filter(|level| level.is_exempt).map(lent).sum();
    let limited = levels.iter().filter(|level| !level.is_exempt);
    let limits = limited.map(|level| {
        let nominal = nominal(level);
        let borrowed = level
            .borrowing_percent
            .map_or(server, |part| percent(nominal, part).min(server));
        let limits = Limits {
            nominal,
            kept: nominal - lent(level),
            max: nominal + borrowed,
            queuing: level.queuing,
        };
        (level.name.clone(), limits)
    });
    (limits.collect(), spare)
}

fn percent(of: u32, percent: u32) -> u32 {
    (f64::from(of) * f64::from(percent) / 100.0).round() as u32
}

#[cfg(test)]
mod tests {
    use watchkeeper_kinds::suggested_priority_levels;

    use super::*;

    /// The numbers are those of a kube-apiserver with 600 seats.
    #[test]
    fn the_seats_of_a_new_cluster() {
        let levels: Vec<_> = suggested_priority_levels()
            .map(|level| PriorityLevel::read(&level))
            .collect();
        let (limits, spare) = share_out(&levels, 600);
        let printed = limits
            .iter()
            .map(|(name, it)| format!("{name} {} {}", it.nominal, it.kept));
        assert_eq!(
            printed.collect::<Vec<_>>(),
            [
                "catch-all 13 13",
                "global-default 49 24",
                "leader-election 25 25",
                "node-high 98 73",
                "system 74 50",
                "workload-high 98 49",
                "workload-low 245 24",
            ]
        );
        assert_eq!(spare, 0);
    }
}
