//! The limits of scaling: recent recommendations, the policies of `behavior`, and min and max replicas.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::item::Item;

/// The history kept: the longest valid window and period.
const MEMORY: Duration = Duration::from_secs(3600);

/// The recent recommendations and scaling of an autoscaler.
#[derive(Debug, Default)]
pub(super) struct History {
    recommended: Vec<(Instant, i64)>,
    changes: Vec<(Instant, i64)>,
}

/// The desired number of replicas, and what limited the proposal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) replicas: i64,
    pub(super) is_stabilized: Option<&'static str>,
    pub(super) limit: Option<(&'static str, &'static str)>,
}

/// The direction of scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl History {
    /// Records a change of the replicas.
    pub(super) fn scaled(&mut self, change: i64) {
        self.changes.push((Instant::now(), change));
        self.changes.retain(|(since, _)| since.elapsed() <= MEMORY);
    }

    /// Limits a proposal by recent recommendations, the policies, and min and max replicas.
    pub(super) fn limit(
        &mut self,
        scaler: &Item,
        current: i64,
        proposed: i64,
        (least, most): (i64, i64),
    ) -> Verdict {
        self.recommended.push((Instant::now(), proposed));
        self.recommended.retain(|(since, _)| since.elapsed() <= MEMORY);
        let rules = |direction: Direction| Rules::of(scaler, direction);
        let within = |window: Duration| {
            let recent = self
                .recommended
                .iter()
                .filter(move |(since, _)| since.elapsed() <= window);
            recent.map(|(_, replicas)| *replicas)
        };
        let floor = within(rules(Direction::Down).window).max().unwrap_or(proposed);
        let ceiling = within(rules(Direction::Up).window).min().unwrap_or(proposed);
        let stable = current.clamp(ceiling.min(floor), floor.max(ceiling));
        let stabilized = (stable != proposed).then_some(match proposed < stable {
            true => "recent recommendations were higher than current one, applying the highest recent recommendation",
            false => "recent recommendations were lower than current one, applying the lowest recent recommendation",
        });
        let allowed = match stable > current {
            true => stable.min(rules(Direction::Up).bound(current, &self.changes)),
            false => stable.max(rules(Direction::Down).bound(current, &self.changes)),
        };
        let limit = match () {
            () if stable > most => Some((
                "TooManyReplicas",
                "the desired replica count is more than the maximum replica count",
            )),
            () if stable < least => Some((
                "TooFewReplicas",
                "the desired replica count is less than the minimum replica count",
            )),
            () if allowed < stable => Some((
                "ScaleUpLimit",
                "the desired replica count is increasing faster than the maximum scale rate",
            )),
            () if allowed > stable => Some((
                "ScaleDownLimit",
                "the desired replica count is decreasing faster than the maximum scale rate",
            )),
            () => None,
        };
        Verdict {
            replicas: allowed.clamp(least, most),
            is_stabilized: stabilized,
            limit,
        }
    }
}

/// The rules of one direction.
struct Rules {
    direction: Direction,
    window: Duration,
    select: String,
    policies: Vec<Value>,
}

impl Rules {
    fn of(scaler: &Item, direction: Direction) -> Self {
        let (stated, window, policies) = match direction {
            Direction::Up => (
                scaler.at("/spec/behavior/scaleUp"),
                0,
                json!([
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15},
                ]),
            ),
            Direction::Down => (
                scaler.at("/spec/behavior/scaleDown"),
                300,
                json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
            ),
        };
        let usual = policies.as_array().cloned().unwrap_or_default();
        Self {
            direction,
            window: Duration::from_secs(stated["stabilizationWindowSeconds"].as_u64().unwrap_or(window)),
            select: stated["selectPolicy"].as_str().unwrap_or("Max").to_owned(),
            policies: stated["policies"].as_array().cloned().unwrap_or(usual),
        }
    }

    /// The largest number of replicas allowed now, or the smallest.
    fn bound(&self, current: i64, changes: &[(Instant, i64)]) -> i64 {
        if self.select == "Disabled" {
            return current;
        }
        let bounds = self.policies.iter().map(|policy| {
            let period = Duration::from_secs(policy["periodSeconds"].as_u64().unwrap_or(15));
            let is_own = |change: &i64| (*change > 0) == (self.direction == Direction::Up);
            let recent = changes
                .iter()
                .filter(|(since, change)| since.elapsed() < period && is_own(change));
            let before = current - recent.map(|(_, change)| change).sum::<i64>();
            let value = policy["value"].as_i64().unwrap_or_default();
            let step = match policy["type"] == "Percent" {
                true => (before * value + 99) / 100,
                false => value,
            };
            match self.direction {
                Direction::Up => before + step,
                Direction::Down => before - step,
            }
        });
        let is_widest = self.select != "Min";
        let bound = match (self.direction == Direction::Up) == is_widest {
            true => bounds.max(),
            false => bounds.min(),
        };
        bound.unwrap_or(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;

    fn scaler(behavior: Value) -> Item {
        item(&json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
            "spec": {"behavior": behavior},
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn fewer_replicas_wait_for_the_highest_recent_recommendation() {
        let (scaler, mut history) = (scaler(json!({})), History::default());
        assert_eq!(history.limit(&scaler, 4, 4, (1, 10)).replicas, 4);
        tokio::time::advance(Duration::from_secs(100)).await;
        let held = history.limit(&scaler, 4, 2, (1, 10));
        assert_eq!(held.replicas, 4);
        assert!(held.is_stabilized.is_some());
        tokio::time::advance(Duration::from_secs(250)).await;
        assert_eq!(history.limit(&scaler, 4, 2, (1, 10)).replicas, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn more_replicas_come_as_fast_as_policies_let_them() {
        let mut history = History::default();
        let usual = scaler(json!({}));
        let up = history.limit(&usual, 2, 20, (1, 100));
        assert_eq!(
            (up.replicas, up.limit.map(|limit| limit.0)),
            (6, Some("ScaleUpLimit"))
        );
        let slow =
            scaler(json!({"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}));
        assert_eq!(history.limit(&slow, 2, 20, (1, 100)).replicas, 3);
        history.scaled(1);
        assert_eq!(history.limit(&slow, 3, 20, (1, 100)).replicas, 3);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(history.limit(&slow, 3, 20, (1, 100)).replicas, 4);
        let most = history.limit(&usual, 9, 20, (1, 10));
        assert_eq!(
            (most.replicas, most.limit.map(|limit| limit.0)),
            (10, Some("TooManyReplicas"))
        );
    }
}
