//! The kubelets of all nodes: pods start, run and stop.
//!
//! ```text
//! bound ▶ seen ▶ init containers, one by one ▶ Running ▶ (meant to end) Succeeded or Failed
//!                                                └▶ deleted ▶ stopped, within its grace period
//! ```
//!
//! The durations are in the options; [`program`] simulates a container, [`containers`] has its states. A pod of a
//! deleted node is deleted at once.

mod addresses;
mod containers;
mod program;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use watchkeeper_client::Error;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::controller::{Action, Mapping, Request};
use watchkeeper_runtime::recorder::EventType;
use watchkeeper_wire::Object;

use self::addresses::Addresses;
use self::containers::{Container, Role, Step};
use self::program::Program;
use self::status::Statuses;
use crate::SimulatorOptions;
use crate::cluster::{Cluster, Task};
use crate::events::{self, note};
use crate::item::Item;
use crate::kinds::{nodes, pods};
use crate::pods::has_ended;
use crate::scenario::NodeState;
use crate::scheduler::BY_NODE;
use crate::time;

/// The annotation that keeps a running pod from being ready, if `false`.
const READY: &str = "simulator.watchkeeper/ready";

/// The interval at which a pod looks whether its node is back.
const DOWN: Duration = Duration::from_secs(5);

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster, options: SimulatorOptions) -> Task {
    let kubelet = Arc::new(Kubelet {
        options,
        started: Instant::now(),
        moments: Mutex::default(),
        addresses: Addresses::new(cluster),
    });
    let controller =
        cluster
            .controller("kubelet", &pods())
            .watches(cluster.informer(&nodes()), pods_on(cluster), None);
    cluster.run(controller, move |cluster, request| {
        let kubelet = kubelet.clone();
        async move { kubelet.tend(&cluster, request).await }
    })
}

fn pods_on(cluster: &Cluster) -> Mapping {
    let store = cluster.informer(&pods()).store().clone();
    Arc::new(move |node| {
        let pods = store.snapshot();
        let own = pods.by_index(BY_NODE, node.name()).into_iter().flatten();
        own.map(Object::key).collect()
    })
}

struct Kubelet {
    options: SimulatorOptions,
    /// The time from which the scenario counts.
    started: Instant,
    moments: Mutex<HashMap<ObjectKey, Moments>>,
    addresses: Addresses,
}

/// The times at which pods and containers entered their states. They are lost on a restart.
#[derive(Default)]
struct Moments {
    uid: String,
    since: HashMap<String, Instant>,
}

impl Kubelet {
    async fn tend(&self, cluster: &Cluster, request: Request) -> Result<Action, Error> {
        let Some(pod) = request.object.as_ref().map(Item::read) else {
            self.moments.lock().remove(&request.key);
            self.addresses.free(&request.key);
            return Ok(Action::Done);
        };
        if pod.text("/spec/nodeName").is_empty() {
            return Ok(Action::Done);
        }
        if is_lost(cluster, &pod).await? {
            return self.stop(cluster, &pod).await;
        }
        if self.is_unreachable(cluster, &pod) {
            return Ok(Action::After(DOWN));
        }
        if pod.is_deleting() {
            return self.end(cluster, &pod).await;
        }
        if has_ended(&pod) {
            return Ok(Action::Done);
        }
        if pod.text("/status/startTime").is_empty() {
            let statuses = self.statuses(&pod, |_| Step::Stay);
            cluster
                .report(&pods(), &pod, status::seen(cluster, &pod, &statuses))
                .await?;
            return Ok(Action::Done);
        }
        self.run(cluster, &pod).await
    }

    /// Advances every container.
    async fn run(&self, cluster: &Cluster, pod: &Item) -> Result<Action, Error> {
        let pull = self.options.scenario.image_pull(pod, self.started.elapsed());
        let creation = self.options.container_creation.max(pull.unwrap_or_default());
        if let Some(left) = self.left(pod, "created", creation) {
            return Ok(Action::After(left));
        }
        let steps = self.steps(pod);
        let step_of = |container: &Container<'_>| steps.get(container.name()).copied().unwrap_or(Step::Stay);
        let mut statuses = self.statuses(pod, step_of);
        end_sidecars(pod, &mut statuses);
        let mut status = status::of(pod, &self.addresses.of(pod), &statuses);
        let deadline = deadline(pod);
        if deadline == Deadline::Passed {
            status = status::of(pod, "", &self.statuses(pod, end_by_force));
            status::overdue(&mut status);
        }
        tell(cluster, pod, step_of);
        // The resulting change triggers the next reconcile.
        cluster.report(&pods(), pod, status).await?;
        let waits = steps.values().filter_map(|step| match step {
            Step::Wait(left) => Some(*left),
            _ => None,
        });
        let until_deadline = match deadline {
            Deadline::In(left) => Some(left),
            _ => None,
        };
        Ok(waits
            .chain(until_deadline)
            .min()
            .map_or(Action::Done, Action::After))
    }

    /// The steps of the containers whose turn it is; the others wait for those before them.
    fn steps<'a>(&self, pod: &'a Item) -> HashMap<&'a str, Step> {
        let mut steps = HashMap::new();
        for container in Container::all(pod) {
            let program = self.program(pod, &container);
            let since = self.since(pod, &container.moment());
            let step = container.step(pod, program, since, self.options.restart_backoff);
            let is_done = container.exit_code() == Some(0);
            steps.insert(container.name(), step);
            if container.role == Role::Init && !is_done {
                break;
            }
        }
        steps
    }

    fn program(&self, pod: &Item, container: &Container<'_>) -> Program {
        let crash = self.options.scenario.crash(pod, self.started.elapsed());
        match crash.filter(|_| container.role == Role::Main) {
            Some(crash) => Program::Ends {
                after: crash.after,
                code: crash.code,
            },
            None => Program::of(pod, container.spec, container.role, self.options.run_time),
        }
    }

    /// True if the scenario has taken a pod's node off the network.
    fn is_unreachable(&self, cluster: &Cluster, pod: &Item) -> bool {
        if self.options.scenario.is_empty() {
            return false;
        }
        let nodes = cluster.snapshot(&nodes());
        let node = nodes.find("", pod.text("/spec/nodeName"));
        let state = node.map(|node| self.options.scenario.node(node, self.started.elapsed()));
        state == Some(NodeState::Down)
    }

    fn statuses(&self, pod: &Item, step: impl Fn(&Container<'_>) -> Step) -> Statuses {
        let is_ready = pod.annotation(READY).is_none_or(|ready| ready != "false");
        let all = Container::all(pod);
        let has_init = all.iter().any(|container| container.role != Role::Main);
        let status = |container: &Container<'_>| {
            (
                container.role,
                container.status(pod, step(container), is_ready, !has_init),
            )
        };
        all.iter().map(status).collect()
    }

    /// Stops a deleted pod within its grace period, then removes it.
    async fn end(&self, cluster: &Cluster, pod: &Item) -> Result<Action, Error> {
        let grace = pod.number("/metadata/deletionGracePeriodSeconds");
        let span = self
            .options
            .stop_time
            .min(Duration::from_secs(grace.unsigned_abs()));
        if !self.has_begun(pod, "stopping") {
            let running = Container::all(pod).into_iter().filter(Container::is_running);
            let voice = cluster
                .events
                .voice(events::KUBELET)
                .on_host(pod.text("/spec/nodeName"));
            for container in running {
                let words = format!("Stopping container {}", container.name());
                voice.record_at(
                    pod,
                    &container.field_path(),
                    note(EventType::Normal, "Killing", words),
                );
            }
        }
        match self.left(pod, "stopping", span) {
            Some(left) => Ok(Action::After(left)),
            None => self.stop(cluster, pod).await,
        }
    }

    async fn stop(&self, cluster: &Cluster, pod: &Item) -> Result<Action, Error> {
        let is_kept_running = !matches!(pod.text("/spec/restartPolicy"), "Never" | "OnFailure");
        if !is_kept_running && !has_ended(pod) {
            // Controllers that count finished pods need the final status.
            let status = status::of(pod, "", &self.statuses(pod, end_by_force));
            cluster.report(&pods(), pod, status).await?;
        }
        let is_stopped = pod.is_deleting() && pod.number("/metadata/deletionGracePeriodSeconds") == 0;
        // A stopped pod that still exists waits for a finalizer.
        if !is_stopped || pod.finalizers().is_empty() {
            cluster.delete(&pods(), pod, Some(0)).await?;
        }
        Ok(Action::Done)
    }

    /// True if a pod was in a state before.
    fn has_begun(&self, pod: &Item, moment: &str) -> bool {
        let moments = self.moments.lock();
        let own = moments.get(&pod.key()).filter(|own| own.uid == pod.uid());
        own.is_some_and(|own| own.since.contains_key(moment))
    }

    /// The time a pod or container has been in a state.
    fn since(&self, pod: &Item, moment: &str) -> Duration {
        let mut moments = self.moments.lock();
        let own = moments.entry(pod.key()).or_default();
        if own.uid != pod.uid() {
            *own = Moments {
                uid: pod.uid().to_owned(),
                since: HashMap::new(),
            };
        }
        let begun = own.since.entry(moment.to_owned()).or_insert_with(Instant::now);
        begun.elapsed()
    }

    /// The remaining time of a pod in a state that lasts `span`.
    fn left(&self, pod: &Item, moment: &str, span: Duration) -> Option<Duration> {
        let left = span.checked_sub(self.since(pod, moment))?;
        (!left.is_zero()).then_some(left)
    }
}

/// Stops every container that has not ended.
fn end_by_force(container: &Container<'_>) -> Step {
    match container.exit_code() {
        Some(_) => Step::Stay,
        None => Step::End(status::TERMINATED),
    }
}

/// Sidecars end when all other containers have.
fn end_sidecars(pod: &Item, statuses: &mut Statuses) {
    let mut main = statuses.iter().filter(|(role, _)| *role == Role::Main);
    if !main.all(|(_, status)| status["state"]["terminated"].is_object()) {
        return;
    }
    let sidecars = Container::all(pod)
        .into_iter()
        .filter(|one| one.role == Role::Sidecar);
    for sidecar in sidecars.filter(|sidecar| sidecar.exit_code().is_none()) {
        let told = statuses
            .iter_mut()
            .find(|(_, status)| status["name"] == sidecar.name());
        if let Some((_, status)) = told {
            *status = sidecar.status(pod, Step::End(0), false, true);
        }
    }
}

/// Records Events about containers, as the kubelet of the pod's node.
fn tell(cluster: &Cluster, pod: &Item, step: impl Fn(&Container<'_>) -> Step) {
    let voice = cluster
        .events
        .voice(events::KUBELET)
        .on_host(pod.text("/spec/nodeName"));
    for container in Container::all(pod) {
        let image = container.spec["image"].as_str().unwrap_or_default();
        let path = container.field_path();
        match step(&container) {
            Step::Start => {
                let present = format!("Container image {image:?} already present on machine");
                for (reason, words) in [
                    ("Pulled", present.as_str()),
                    ("Created", "Container created"),
                    ("Started", "Container started"),
                ] {
                    voice.record_at(pod, &path, note(EventType::Normal, reason, words));
                }
            }
            Step::BackOff(_) => {
                let words = format!(
                    "Back-off restarting failed container {} in pod {}_{}({})",
                    container.name(),
                    pod.name(),
                    pod.namespace(),
                    pod.uid()
                );
                voice.record_at(pod, &path, note(EventType::Warning, "BackOff", words));
            }
            Step::Stay | Step::Wait(_) | Step::End(_) => {}
        }
    }
}

/// The active deadline of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deadline {
    None,
    In(Duration),
    Passed,
}

fn deadline(pod: &Item) -> Deadline {
    let seconds = pod.at("/spec/activeDeadlineSeconds").as_i64();
    let start = time::read(pod.at("/status/startTime"));
    match seconds.zip(start) {
        None => Deadline::None,
        Some((seconds, start)) => time::left(start, seconds).map_or(Deadline::Passed, Deadline::In),
    }
}

/// True if a pod's node is gone. Confirmed with the server, because the store may lag behind.
async fn is_lost(cluster: &Cluster, pod: &Item) -> Result<bool, Error> {
    let node = pod.text("/spec/nodeName");
    if cluster.snapshot(&nodes()).find("", node).is_some() {
        return Ok(false);
    }
    match cluster.api(&nodes(), "").get(node).await {
        Err(error) if error.is_not_found() => Ok(true),
        found => found.map(|_| false),
    }
}
