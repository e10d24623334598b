//! Failure scenarios as data: what goes wrong in a simulated cluster, and when.
//!
//! ```yaml
//! apiVersion: simulator.watchkeeper.dev/v1
//! kind: Scenario
//! metadata: {name: bad-day}
//! steps:
//! - {at: 1m, for: 5m, zoneOutage: {zone: simulated-a}}
//! - {at: 0s, flappingNodes: {share: 0.02, up: 40s, down: 20s}}
//! - {for: 10m, slowImagePulls: {share: 0.5, takes: 45s}}
//! - {crashLoops: {share: 0.01, exitCode: 137, after: 5s}}
//! - {at: 2m, preemption: {share: 0.01, every: 1m, notice: 30s}}
//! ```
//!
//! Times count from the start of the simulator; without `for` a step lasts to the end. `share` is the part of all nodes
//! or pods that is affected, chosen by a hash of their names: the same in every run. Nothing here awaits or writes: the
//! parts of the simulator ask what holds now.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use watchkeeper_wire::yaml::{self, Mode};
use watchkeeper_wire::{Object, values};

use crate::stages::{Stage, StageError};

/// The most steps of a scenario.
const MOST_STEPS: usize = 1000;

/// The `apiVersion` of scenarios.
const API_VERSION: &str = "simulator.watchkeeper.dev/v1";

/// Failures of a simulated cluster, with their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    steps: Vec<Step>,
}

/// The content of a scenario file: scenarios and stages.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The steps of all its scenarios.
    pub scenario: Scenario,
    /// Its stages.
    pub stages: Vec<Stage>,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It is not YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::YamlError),
    /// A stage.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// A step of a scenario.
    #[error("step {step} of the scenario: {why}")]
    Step {
        /// Its number, from 1.
        step: usize,
        /// The reason.
        why: String,
    },
    /// A document of another kind.
    #[error("{kind} is neither a Stage of kwok.x-k8s.io/v1alpha1 nor a Scenario of {API_VERSION}")]
    Kind {
        /// Its `apiVersion` and `kind`.
        kind: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    begin: Duration,
    lasts: Option<Duration>,
    trouble: Trouble,
}

#[derive(Clone, Debug, PartialEq)]
enum Trouble {
    ZoneOutage {
        zone: String,
    },
    FlappingNodes {
        share: f64,
        up: Duration,
        down: Duration,
    },
    SlowImagePulls {
        share: f64,
        takes: Duration,
    },
    CrashLoops {
        share: f64,
        code: i64,
        after: Duration,
    },
    Preemption {
        share: f64,
        every: Duration,
        notice: Duration,
    },
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    Up,
    /// It cannot be reached: no heartbeats, and its pods do nothing.
    Down,
    /// It will be taken away.
    Noticed,
    /// It is taken away.
    Preempted,
}

/// The program of a pod that crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) code: i64,
    pub(crate) after: Duration,
}

impl Script {
    /// Reads a file of YAML documents.
    pub fn read(file: &[u8]) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for document in yaml::documents(file, Mode::Strict) {
            let value = document?.value;
            let kind = format!("{} {}", text(&value["apiVersion"]), text(&value["kind"]));
            match kind.as_str() {
                "kwok.x-k8s.io/v1alpha1 Stage" => script.stages.push(Stage::read(&value)?),
                "simulator.watchkeeper.dev/v1 Scenario" => script.scenario.add(&value)?,
                _ => return Err(ScriptError::Kind { kind }),
            }
        }
        Ok(script)
    }
}

impl Scenario {
    fn add(&mut self, scenario: &Value) -> Result<(), ScriptError> {
        let steps = scenario["steps"].as_array().into_iter().flatten();
        for (index, step) in steps.enumerate() {
            let wrong = |why| ScriptError::Step { step: index + 1, why };
            if self.steps.len() == MOST_STEPS {
                return Err(wrong(format!("there are more than {MOST_STEPS}")));
            }
            self.steps.push(Step::read(step).map_err(wrong)?);
        }
        Ok(())
    }

    /// The state of a node at a time after the start.
    pub(crate) fn node(&self, node: &Object, at: Duration) -> NodeState {
        let zone = node.label("topology.kubernetes.io/zone");
        let states = self.current(at).map(|(since, trouble)| match trouble {
            Trouble::ZoneOutage { zone: out } if zone.as_deref() == Some(out) => NodeState::Down,
            Trouble::FlappingNodes { share, up, down } if hits(node.name(), *share) => {
                let phase = since.as_millis() % (*up + *down).as_millis().max(1);
                if phase < up.as_millis() {
                    NodeState::Up
                } else {
                    NodeState::Down
                }
            }
            Trouble::Preemption { share, every, notice } => {
                preempted(node.name(), *share, since, *every, *notice)
            }
            _ => NodeState::Up,
        });
        states.max_by_key(|state| *state as u8).unwrap_or(NodeState::Up)
    }

    /// The time the images of a pod take, if they are slow.
    pub(crate) fn image_pull(&self, pod: &Object, at: Duration) -> Option<Duration> {
        let slow = self.current(at).filter_map(|(_, trouble)| match trouble {
            Trouble::SlowImagePulls { share, takes } if hits(pod.uid(), *share) => Some(*takes),
            _ => None,
        });
        slow.max()
    }

    /// The end of a pod's containers, if they crash.
    pub(crate) fn crash(&self, pod: &Object, at: Duration) -> Option<Crash> {
        self.current(at).find_map(|(_, trouble)| match trouble {
            Trouble::CrashLoops { share, code, after } if hits(pod.uid(), *share) => Some(Crash {
                code: *code,
                after: *after,
            }),
            _ => None,
        })
    }

    /// True if nothing can go wrong.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The troubles at a time, each with the time since its begin.
    fn current(&self, at: Duration) -> impl Iterator<Item = (Duration, &Trouble)> {
        self.steps.iter().filter_map(move |step| {
            let since = at.checked_sub(step.begin)?;
            step.lasts
                .is_none_or(|lasts| since < lasts)
                .then_some((since, &step.trouble))
        })
    }
}

/// In each period another share of the nodes is noticed, and then taken away until the period ends.
fn preempted(name: &str, share: f64, since: Duration, every: Duration, notice: Duration) -> NodeState {
    let every = every.as_millis().max(1);
    let (period, phase) = (since.as_millis() / every, since.as_millis() % every);
    match hits(&format!("{name}/{period}"), share) {
        false => NodeState::Up,
        true if phase < notice.as_millis() => NodeState::Noticed,
        true => NodeState::Preempted,
    }
}

/// True for this share of all names.
fn hits(name: &str, share: f64) -> bool {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The last bytes reach the upper bits only after further rounds.
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 11) as f64 / (1_u64 << 53) as f64) < share
}

impl Step {
    fn read(step: &Value) -> Result<Self, String> {
        let members = step.as_object().ok_or("it is no object")?;
        let troubles: BTreeSet<&str> = members
            .keys()
            .map(String::as_str)
            .filter(|name| !["at", "for"].contains(name))
            .collect();
        let [trouble] = Vec::from_iter(troubles)[..] else {
            return Err("it has not exactly one failure beside at and for".to_owned());
        };
        Ok(Self {
            begin: duration(&step["at"])?.unwrap_or_default(),
            lasts: duration(&step["for"])?,
            trouble: Trouble::read(trouble, &step[trouble])?,
        })
    }
}

impl Trouble {
    fn read(name: &str, value: &Value) -> Result<Self, String> {
        let known: &[&str] = match name {
            "zoneOutage" => &["zone"],
            "flappingNodes" => &["share", "up", "down"],
            "slowImagePulls" => &["share", "takes"],
            "crashLoops" => &["share", "exitCode", "after"],
            "preemption" => &["share", "every", "notice"],
            other => return Err(format!("there is no failure {other:?}")),
        };
        let mut fields = value.as_object().into_iter().flatten().map(|(field, _)| field);
        if let Some(field) = fields.find(|field| !known.contains(&field.as_str())) {
            return Err(format!("{name} has no field {field:?}"));
        }
        let time = |field: &str, usual: u64| {
            Ok::<_, String>(duration(&value[field])?.unwrap_or(Duration::from_secs(usual)))
        };
        let share = match &value["share"] {
            Value::Null => 1.0,
            share => share
                .as_f64()
                .filter(|share| (0.0..=1.0).contains(share))
                .ok_or("share must be from 0 to 1")?,
        };
        Ok(match name {
            "zoneOutage" => Self::ZoneOutage {
                zone: value["zone"]
                    .as_str()
                    .ok_or("zoneOutage needs a zone")?
                    .to_owned(),
            },
            "flappingNodes" => Self::FlappingNodes {
                share,
                up: time("up", 60)?,
                down: time("down", 30)?,
            },
            "slowImagePulls" => Self::SlowImagePulls {
                share,
                takes: time("takes", 60)?,
            },
            "crashLoops" => Self::CrashLoops {
                share,
                code: value["exitCode"].as_i64().unwrap_or(1),
                after: time("after", 1)?,
            },
            _ => Self::Preemption {
                share,
                every: time("every", 300)?,
                notice: time("notice", 30)?,
            },
        })
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `1m30s`; nothing is `None`.
fn duration(value: &Value) -> Result<Option<Duration>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let parsed = value
        .as_str()
        .and_then(|text| text.parse::<values::Duration>().ok()?.to_std());
    parsed
        .map(Some)
        .ok_or_else(|| format!("{value} is no duration, such as 1m30s"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::item::Item;
    use crate::item::tests::item;

    fn scenario(steps: &str) -> Scenario {
        let file = format!("apiVersion: {API_VERSION}\nkind: Scenario\nsteps:\n{steps}");
        Script::read(file.as_bytes()).unwrap().scenario
    }

    fn node(name: &str, zone: &str) -> Item {
        item(
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}}}),
        )
    }

    fn pod(uid: &str) -> Item {
        item(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": uid}}))
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_scenario_of_the_page_is_read() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md");
        let Ok(page) = std::fs::read_to_string(page) else {
            // A published crate comes without the pages.
            return;
        };
        let block = page
            .split("```yaml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let scenario = Script::read(block.unwrap().as_bytes()).unwrap().scenario;
        assert_eq!(
            scenario.node(&node("n", "simulated-a"), seconds(60)),
            NodeState::Down
        );
    }

    #[test]
    fn a_zone_is_out_for_its_time() {
        let outage = scenario("- {at: 1m, for: 30s, zoneOutage: {zone: a}}");
        let states = [59, 60, 89, 90].map(|at| outage.node(&node("n", "a"), seconds(at)));
        assert_eq!(
            states,
            [NodeState::Up, NodeState::Down, NodeState::Down, NodeState::Up]
        );
        assert_eq!(outage.node(&node("n", "b"), seconds(70)), NodeState::Up);
    }

    #[test]
    fn flapping_nodes_go_and_come_back() {
        let flapping = scenario("- {flappingNodes: {up: 10s, down: 5s}}");
        let downs = (0..30).filter(|at| flapping.node(&node("n", "a"), seconds(*at)) == NodeState::Down);
        assert_eq!(
            downs.collect::<Vec<_>>(),
            [10, 11, 12, 13, 14, 25, 26, 27, 28, 29]
        );
    }

    #[test]
    fn preemption_gives_notice_and_takes_another_share_each_time() {
        let preemption = scenario("- {preemption: {share: 0.2, every: 1m, notice: 20s}}");
        let taken = |at: u64| -> Vec<u32> {
            (0..1000)
                .filter(|number| {
                    preemption.node(&node(&format!("node-{number}"), "a"), seconds(at))
                        == NodeState::Preempted
                })
                .collect()
        };
        assert!(taken(10).is_empty(), "only noticed");
        let (first, second) = (taken(30), taken(90));
        assert!((140..260).contains(&first.len()), "{}", first.len());
        assert_ne!(first, second);
    }

    #[test]
    fn pods_pull_slowly_and_crash_by_their_share() {
        let bad = scenario(
            "- {slowImagePulls: {share: 0.5, takes: 45s}}\n- {crashLoops: {share: 0.1, exitCode: 137}}",
        );
        let pods: Vec<Item> = (0..1000).map(|number| pod(&format!("uid-{number}"))).collect();
        let slow = pods
            .iter()
            .filter(|pod| bad.image_pull(pod, seconds(0)) == Some(seconds(45)))
            .count();
        let crashing = pods
            .iter()
            .filter(|pod| bad.crash(pod, seconds(0)).is_some_and(|crash| crash.code == 137))
            .count();
        assert!(
            (430..570).contains(&slow) && (60..140).contains(&crashing),
            "{slow} {crashing}"
        );
        assert!(Scenario::default().is_empty() && Scenario::default().crash(&pods[0], seconds(0)).is_none());
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        let check = |file: &str, expected: &str| {
            assert_eq!(Script::read(file.as_bytes()).unwrap_err().to_string(), expected);
        };
        let step = |step: &str| format!("apiVersion: {API_VERSION}\nkind: Scenario\nsteps:\n- {step}");
        check(
            "{apiVersion: v1, kind: Pod}",
            "v1 Pod is neither a Stage of kwok.x-k8s.io/v1alpha1 nor a Scenario of simulator.watchkeeper.dev/v1",
        );
        check(
            &step("{fire: {}}"),
            "step 1 of the scenario: there is no failure \"fire\"",
        );
        check(
            &step("{zoneOutage: {}}"),
            "step 1 of the scenario: zoneOutage needs a zone",
        );
        check(
            &step("{crashLoops: {share: 2}}"),
            "step 1 of the scenario: share must be from 0 to 1",
        );
        check(
            &step("{crashLoops: {pods: 2}}"),
            "step 1 of the scenario: crashLoops has no field \"pods\"",
        );
        check(
            &step("{at: soon, crashLoops: {}}"),
            "step 1 of the scenario: \"soon\" is no duration, such as 1m30s",
        );
        check(
            &step("{at: 1s}"),
            "step 1 of the scenario: it has not exactly one failure beside at and for",
        );
    }
}
