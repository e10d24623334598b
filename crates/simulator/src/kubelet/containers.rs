//! The containers of a pod, and their next steps.
//!
//! ```text
//! waiting ──▶ running ──▶ terminated
//!               ▲  └─(to be restarted)─▶ CrashLoopBackOff ─┐
//!               └──────────────────────────────────────────┘
//! ```
//!
//! Init containers run one after the other, before all others; sidecars among them start and keep running.

use std::time::Duration;

use serde_json::{Value, json};

use super::program::Program;
use crate::item::Item;
use crate::time::timestamp;

/// The longest restart backoff, as in kubelets.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
const BACKING_OFF: &str = "CrashLoopBackOff";

/// The role of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the next one is started.
    Init,
    /// Runs from its turn among the init containers until all others have ended.
    Sidecar,
    Main,
}

/// A container's spec and its last reported status.
#[derive(Clone, Debug)]
pub(super) struct Container<'a> {
    pub(super) role: Role,
    pub(super) spec: &'a Value,
    known: Option<&'a Value>,
}

/// The next step of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    /// Nothing yet, for this long.
    Wait(Duration),
    Start,
    End(i64),
    /// It has ended and will be restarted.
    BackOff(i64),
}

impl<'a> Container<'a> {
    /// All containers of a pod, init containers first.
    pub(super) fn all(pod: &'a Item) -> Vec<Self> {
        let known = |list: &str, name: &Value| pod.list(list).iter().find(|known| known["name"] == *name);
        let init = pod.list("/spec/initContainers").iter().map(|spec| Self {
            role: match spec["restartPolicy"] == "Always" {
                true => Role::Sidecar,
                false => Role::Init,
            },
            spec,
            known: known("/status/initContainerStatuses", &spec["name"]),
        });
        let main = pod.list("/spec/containers").iter().map(|spec| Self {
            role: Role::Main,
            spec,
            known: known("/status/containerStatuses", &spec["name"]),
        });
        init.chain(main).collect()
    }

    pub(super) fn name(&self) -> &'a str {
        self.spec["name"].as_str().unwrap_or_default()
    }

    /// Its field path in the pod.
    pub(super) fn field_path(&self) -> String {
        let list = match self.role {
            Role::Main => "containers",
            Role::Init | Role::Sidecar => "initContainers",
        };
        format!("spec.{list}{{{}}}", self.name())
    }

    pub(super) fn is_running(&self) -> bool {
        self.state("running").is_object()
    }

    /// Its exit code, if it has ended for good.
    pub(super) fn exit_code(&self) -> Option<i64> {
        self.state("terminated")["exitCode"].as_i64()
    }

    pub(super) fn restarts(&self) -> i64 {
        self.known
            .and_then(|known| known["restartCount"].as_i64())
            .unwrap_or_default()
    }

    /// A unique name of the container's current state.
    pub(super) fn moment(&self) -> String {
        let state = ["running", "terminated", "waiting"]
            .into_iter()
            .find(|state| self.state(state).is_object());
        format!(
            "{} {} {}",
            self.name(),
            state.unwrap_or_default(),
            self.restarts()
        )
    }

    fn state(&self, name: &str) -> &'a Value {
        self.known.map_or(&Value::Null, |known| &known["state"][name])
    }

    fn is_backing_off(&self) -> bool {
        self.state("waiting")["reason"] == BACKING_OFF
    }

    /// The next step of a container whose turn it is and that has been in its state for `since`.
    pub(super) fn step(&self, pod: &Item, program: Program, since: Duration, backoff: Duration) -> Step {
        let wait = |span: Duration, step: Step| match span.checked_sub(since) {
            Some(left) if !left.is_zero() => Step::Wait(left),
            _ => step,
        };
        if self.exit_code().is_some() {
            return Step::Stay;
        }
        if self.is_backing_off() {
            let doublings = u32::try_from(self.restarts() - 1).unwrap_or_default();
            let span = backoff.saturating_mul(2_u32.saturating_pow(doublings));
            return wait(span.min(MAX_BACKOFF), Step::Start);
        }
        if !self.is_running() {
            return Step::Start;
        }
        match program {
            Program::Forever => Step::Stay,
            Program::Ends { after, code } if self.is_restarted(pod, code) => wait(after, Step::BackOff(code)),
            Program::Ends { after, code } => wait(after, Step::End(code)),
        }
    }

    /// True if a container with this exit code is restarted.
    fn is_restarted(&self, pod: &Item, code: i64) -> bool {
        match (self.role, pod.text("/spec/restartPolicy")) {
            (Role::Sidecar, _) => true,
            (_, "Never") => false,
            (Role::Init, _) | (_, "OnFailure") => code != 0,
            _ => true,
        }
    }

    /// Its status after a step.
    pub(super) fn status(&self, pod: &Item, step: Step, is_meant_ready: bool, is_initialized: bool) -> Value {
        let known = self.known.unwrap_or(&Value::Null);
        let mut restarts = self.restarts();
        let mut last_state = known["lastState"].clone();
        let state = match step {
            Step::Start => json!({"running": {"startedAt": timestamp()}}),
            Step::End(code) => self.terminated(pod, code),
            Step::BackOff(code) => {
                last_state = self.terminated(pod, code);
                restarts += 1;
                let delay = format!(
                    "back-off restarting failed container={} pod={}_{}({})",
                    self.name(),
                    pod.name(),
                    pod.namespace(),
                    pod.uid()
                );
                json!({"waiting": {"reason": BACKING_OFF, "message": delay}})
            }
            Step::Stay | Step::Wait(_) if known["state"].is_object() => known["state"].clone(),
            Step::Stay | Step::Wait(_) => {
                let reason = if is_initialized {
                    "ContainerCreating"
                } else {
                    "PodInitializing"
                };
                json!({"waiting": {"reason": reason}})
            }
        };
        let is_running = state["running"].is_object();
        let is_ready = match self.role {
            Role::Init => state["terminated"]["exitCode"] == 0,
            Role::Sidecar | Role::Main => is_running && is_meant_ready,
        };
        let has_begun = is_running || state["terminated"].is_object() || restarts > 0;
        let id = container_id(pod, self.name(), restarts);
        // Fields the server has added to the status are kept.
        let mut status = self.known.cloned().unwrap_or_else(|| json!({}));
        let image_id = if has_begun {
            self.spec["image"].clone()
        } else {
            json!("")
        };
        for (name, value) in [
            ("name", self.spec["name"].clone()),
            ("image", self.spec["image"].clone()),
            ("imageID", image_id),
            ("ready", json!(is_ready)),
            ("started", json!(is_running)),
            ("restartCount", json!(restarts)),
            ("state", state),
        ] {
            status[name] = value;
        }
        if last_state.as_object().is_some_and(|state| !state.is_empty()) {
            status["lastState"] = last_state;
        }
        if has_begun {
            status["containerID"] = json!(id);
        }
        if self.spec["resources"]
            .as_object()
            .is_some_and(|resources| !resources.is_empty())
        {
            status["resources"] = self.spec["resources"].clone();
            if self.spec["resources"]["requests"].is_object() {
                status["allocatedResources"] = self.spec["resources"]["requests"].clone();
            }
        }
        status
    }

    fn terminated(&self, pod: &Item, code: i64) -> Value {
        json!({"terminated": {
            "containerID": container_id(pod, self.name(), self.restarts()),
            "exitCode": code,
            "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": self.state("running")["startedAt"],
            "finishedAt": timestamp(),
        }})
    }
}

/// A unique id for each start of each container: 64 digits, as in runtimes.
fn container_id(pod: &Item, name: &str, restarts: i64) -> String {
    let text = format!("{}/{name}/{restarts}", pod.uid());
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut digits = String::from("watchkeeper://");
    for _ in 0..4 {
        // FNV-1a, four times in a row.
        hash = text.bytes().fold(hash, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        digits += &format!("{hash:016x}");
    }
    digits
}
