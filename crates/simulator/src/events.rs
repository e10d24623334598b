//! Events of the controllers, each under the name of Kubernetes' own controller.
//!
//! Recording never waits and never fails. Equal Events are counted, and too many about one object are dropped, as in
//! client-go.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use watchkeeper_client::Client;
use watchkeeper_runtime::recorder::{EventType, Note, Recorder, Writer};
use watchkeeper_wire::Object;

/// The time queued Events have to be written when the simulation is stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The name of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Component(&'static str);

pub(crate) const AUTOSCALERS: Component = Component("horizontal-pod-autoscaler");
pub(crate) const CRON_JOBS: Component = Component("cronjob-controller");
pub(crate) const DAEMON_SETS: Component = Component("daemonset-controller");
pub(crate) const DEPLOYMENTS: Component = Component("deployment-controller");
pub(crate) const GARBAGE: Component = Component("garbage-collector-controller");
pub(crate) const JOBS: Component = Component("job-controller");
pub(crate) const KUBELET: Component = Component("kubelet");
pub(crate) const NODES: Component = Component("node-controller");
pub(crate) const REPLICA_SETS: Component = Component("replicaset-controller");
pub(crate) const REPLICATION: Component = Component("replication-controller");
pub(crate) const SCHEDULER: Component = Component("default-scheduler");
pub(crate) const STATEFUL_SETS: Component = Component("statefulset-controller");
pub(crate) const TAINT_EVICTION: Component = Component("taint-eviction-controller");
pub(crate) const VOLUMES: Component = Component("persistentvolume-controller");

/// The recorders of all controllers.
#[derive(Clone)]
pub(crate) struct Events {
    client: Client,
    voices: Arc<Mutex<HashMap<Component, (Recorder, Writer)>>>,
}

impl Events {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            voices: Arc::default(),
        }
    }

    /// Records a normal Event.
    pub(crate) fn normal(&self, who: Component, object: &Object, reason: &str, message: impl Into<String>) {
        self.voice(who)
            .record(object, note(EventType::Normal, reason, message));
    }

    /// Records a warning.
    pub(crate) fn warning(&self, who: Component, object: &Object, reason: &str, message: impl Into<String>) {
        self.voice(who)
            .record(object, note(EventType::Warning, reason, message));
    }

    /// The recorder of a controller.
    pub(crate) fn voice(&self, who: Component) -> Recorder {
        let mut voices = self.voices.lock();
        let (voice, _) = voices
            .entry(who)
            .or_insert_with(|| Recorder::start(&self.client, who.0, None));
        voice.clone()
    }

    /// Writes queued Events, up to a time limit.
    pub(crate) async fn stop(&self) {
        let voices = std::mem::take(&mut *self.voices.lock());
        let last_words = async {
            for (_, (_, writer)) in voices {
                writer.drain().await;
            }
        };
        // Events that cannot be written by then are lost.
        let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    }
}

pub(crate) fn note(event_type: EventType, reason: &str, message: impl Into<String>) -> Note {
    Note {
        event_type,
        reason: reason.to_owned(),
        message: message.into(),
    }
}
