//! The cells of a pod's row.

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::Time;

use super::{sidecar_names, sidecars};
use crate::kind::RowCondition;
use crate::table::human;

/// The state of a pod, summarized for its row.
pub(crate) struct Summary {
    ready: usize,
    total: usize,
    pub(crate) status: String,
    restarts: i64,
    last_restart: Option<String>,
}

fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Summary {
    pub(crate) fn of(pod: &Value) -> Self {
        let mut summary = Self {
            ready: 0,
            total: items(pod, "/spec/containers").count() + sidecars(pod).count(),
            status: match text(pod, "/status/reason") {
                "" => text(pod, "/status/phase").to_owned(),
                reason => reason.to_owned(),
            },
            restarts: 0,
            last_restart: None,
        };
        if items(pod, "/status/conditions")
            .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated")
        {
            summary.status = "SchedulingGated".to_owned();
        }
        let initializing = summary.read_init_containers(pod);
        let initialized = items(pod, "/status/conditions")
            .any(|condition| condition["type"] == "Initialized" && condition["status"] == "True");
        if !initializing || initialized {
            summary.read_containers(pod);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
            if text(pod, "/status/reason") == "NodeLost" {
                summary.status = "Unknown".to_owned();
            } else if !ended {
                summary.status = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Ready containers: `1/2`.
    pub(crate) fn ready(&self) -> String {
        format!("{}/{}", self.ready, self.total)
    }

    /// Restarts, and the time since the last one: `4 (2m ago)`.
    pub(crate) fn restarts(&self, now: Time) -> Value {
        match &self.last_restart {
            Some(time) if self.restarts > 0 => {
                json!(format!("{} ({} ago)", self.restarts, human::age(Some(time), now)))
            }
            _ => json!(self.restarts.to_string()),
        }
    }

    /// Returns true while an init container is pending or running.
    fn read_init_containers(&mut self, pod: &Value) -> bool {
        let total = items(pod, "/spec/initContainers").count();
        let sidecars = sidecar_names(pod);
        for (index, status) in items(pod, "/status/initContainerStatuses").enumerate() {
            self.count_restarts(status);
            let exit_code = status
                .pointer("/state/terminated/exitCode")
                .and_then(Value::as_i64);
            let reason = text(status, "/state/terminated/reason");
            let waiting = text(status, "/state/waiting/reason");
            if exit_code == Some(0) {
                continue;
            }
            if sidecars.contains(text(status, "/name")) && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.status = match (exit_code, reason, waiting) {
                (Some(code), "", _) => {
                    match status.pointer("/state/terminated/signal").and_then(Value::as_i64) {
                        Some(signal) if signal != 0 => format!("Init:Signal:{signal}"),
                        _ => format!("Init:ExitCode:{code}"),
                    }
                }
                (Some(_), reason, _) => format!("Init:{reason}"),
                (None, _, waiting) if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                _ => format!("Init:{index}/{total}"),
            };
            return true;
        }
        false
    }

    fn read_containers(&mut self, pod: &Value) {
        let mut running = false;
        let statuses: Vec<&Value> = items(pod, "/status/containerStatuses").collect();
        for status in statuses.iter().rev() {
            self.count_restarts(status);
            let waiting = text(status, "/state/waiting/reason");
            let terminated = status.pointer("/state/terminated");
            let reason = text(status, "/state/terminated/reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if !reason.is_empty() {
                self.status = reason.to_owned();
            } else if let Some(terminated) = terminated.filter(|state| !state.is_null()) {
                self.status = match terminated["signal"].as_i64() {
                    Some(signal) if signal != 0 => format!("Signal:{signal}"),
                    _ => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default()),
                };
            } else if status["ready"] == true && !status["state"]["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        // A pod with one completed and one running container shows as running.
        if self.status == "Completed" && running {
            let ready = items(pod, "/status/conditions")
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            self.status = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += status["restartCount"].as_i64().unwrap_or_default();
        let finished = text(status, "/lastState/terminated/finishedAt");
        if !finished.is_empty() && self.last_restart.as_deref().is_none_or(|last| last < finished) {
            self.last_restart = Some(finished.to_owned());
        }
    }
}

/// Readiness gates that are true, of all gates.
pub(crate) fn readiness_gates(pod: &Value) -> String {
    let gates: Vec<&Value> = items(pod, "/spec/readinessGates").collect();
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let holding = items(pod, "/status/conditions").filter(|condition| condition["status"] == "True");
    let holding: HashSet<&str> = holding
        .filter_map(|condition| condition["type"].as_str())
        .collect();
    let open = gates.iter().filter(|gate| {
        let kind = gate["conditionType"].as_str();
        kind.is_some_and(|kind| holding.contains(kind))
    });
    format!("{}/{}", open.count(), gates.len())
}

/// The condition by which clients can hide rows of completed pods.
pub(crate) fn row_condition(pod: &Value) -> Option<RowCondition> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(RowCondition { reason, message })
}
