//! Events: what controllers tell people, each under the name that Kubernetes' own has.
//!
//! Telling never waits and never fails. Equal Events are counted up, and too many about one object are left out, as
//! client-go does it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use watchkeeper_client::Client;
use watchkeeper_runtime::recorder::{EventType, Note, Recorder, Writer};
use watchkeeper_wire::Object;

/// How long Events that wait may take to be written when the simulation is stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Who tells.
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

/// The voices of all components.
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

    /// Tells that all is well.
    pub(crate) fn normal(&self, who: Component, object: &Object, reason: &str, message: impl Into<String>) {
        self.voice(who)
            .record(object, note(EventType::Normal, reason, message));
    }

    /// Tells that something is not well.
    pub(crate) fn warning(&self, who: Component, object: &Object, reason: &str, message: impl Into<String>) {
        self.voice(who)
            .record(object, note(EventType::Warning, reason, message));
    }

    /// The voice of a component, for more than a word about an object.
    pub(crate) fn voice(&self, who: Component) -> Recorder {
        let mut voices = self.voices.lock();
        let (voice, _) = voices
            .entry(who)
            .or_insert_with(|| Recorder::start(&self.client, who.0, None));
        voice.clone()
    }

    /// Writes what waits, unless that takes too long.
    pub(crate) async fn stop(&self) {
        let voices = std::mem::take(&mut *self.voices.lock());
        let last_words = async {
            for (_, (_, writer)) in voices {
                writer.drain().await;
            }
        };
        // Whoever cannot be told by then is not.
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
