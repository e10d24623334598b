//! The durations of admission and of writes to the store, under kube-apiserver's names, labels and buckets.
//!
//! Reads have no durations: they are answered from memory, also where the store is an etcd.

use std::collections::BTreeMap;
use std::future::Future;

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use watchkeeper_meta::{Bounds, Collect, Histogram, MetricKind, MetricsText, REQUEST_DURATIONS, Status};

use crate::definition::Definition;

/// The buckets of admission steps and plugins, in seconds.
const ADMISSION: Bounds = &[
    (0.005, "0.005"),
    (0.025, "0.025"),
    (0.1, "0.1"),
    (0.5, "0.5"),
    (1.0, "1"),
    (2.5, "2.5"),
];

/// The buckets of webhooks, which may take longer.
const WEBHOOKS: Bounds = &[
    (0.005, "0.005"),
    (0.025, "0.025"),
    (0.1, "0.1"),
    (0.5, "0.5"),
    (1.0, "1"),
    (2.5, "2.5"),
    (10.0, "10"),
    (25.0, "25"),
];

/// The limit on webhooks with a duration, each counted once per step, operation and result. The names are the cluster's,
/// and stay after their configurations are gone; calls beyond the limit are not counted.
const MAX_WEBHOOK_SERIES: usize = 1_000;

/// The operations on the store.
const STORE_OPERATIONS: [&str; 3] = ["create", "update", "delete"];

/// A step of admission. Its name is the label `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Mutating.
    Admit,
    Validate,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        }
    }

    /// As kube-apiserver labels calls of webhooks.
    fn name_for_webhooks(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validating",
        }
    }
}

/// A step of admission of an operation, such as `CREATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stage {
    pub(crate) step: Step,
    pub(crate) operation: &'static str,
}

/// The result of a stage; true if it rejected the request.
type Outcome = (Stage, bool);

/// The durations of one registry.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    steps: RwLock<BTreeMap<Outcome, Histogram>>,
    plugins: RwLock<BTreeMap<(&'static str, Outcome), Histogram>>,
    webhooks: Mutex<BTreeMap<(String, Outcome), Histogram>>,
    /// By group and resource, in the order of [`STORE_OPERATIONS`].
    storage: RwLock<BTreeMap<String, BTreeMap<String, [Histogram; 3]>>>,
}

/// Times the plugins of a stage, which run one after the other.
pub(crate) struct Laps<'m> {
    metrics: &'m Metrics,
    stage: Stage,
    since: Instant,
}

impl Laps<'_> {
    /// Records the time since the last plugin as that of this one. Returns its result.
    pub(crate) fn plugin<T>(&mut self, name: &'static str, result: Result<T, Status>) -> Result<T, Status> {
        let (since, outcome) = (self.since, (self.stage, result.is_err()));
        self.since = Instant::now();
        record(
            &self.metrics.plugins,
            (name, outcome),
            ADMISSION,
            self.since - since,
        );
        result
    }
}

fn record<L: Ord>(
    series: &RwLock<BTreeMap<L, Histogram>>,
    labels: L,
    bounds: Bounds,
    took: std::time::Duration,
) {
    if let Some(known) = series.read().get(&labels) {
        return known.record(took);
    }
    let mut series = series.write();
    let histogram = series.entry(labels).or_insert_with(|| Histogram::new(bounds));
    histogram.record(took);
}

impl Metrics {
    /// Begins to time the plugins of a stage.
    pub(crate) fn laps(&self, step: Step, operation: &'static str) -> Laps<'_> {
        Laps {
            metrics: self,
            stage: Stage { step, operation },
            since: Instant::now(),
        }
    }

    /// Records a whole stage: its plugins, policies and webhooks.
    pub(crate) fn stage<T>(&self, stage: Stage, began: Instant, result: &Result<T, Status>) {
        record(&self.steps, (stage, result.is_err()), ADMISSION, began.elapsed());
    }

    /// Records the call of a webhook.
    pub(crate) fn webhook(&self, name: &str, stage: Stage, began: Instant, is_rejected: bool) {
        let mut webhooks = self.webhooks.lock();
        let labels = (name.to_owned(), (stage, is_rejected));
        if webhooks.len() < MAX_WEBHOOK_SERIES || webhooks.contains_key(&labels) {
            let histogram = webhooks.entry(labels).or_insert_with(|| Histogram::new(WEBHOOKS));
            histogram.record(began.elapsed());
        }
    }

    /// Times a write to the store: an operation of [`STORE_OPERATIONS`].
    pub(crate) async fn store<T>(
        &self,
        operation: &'static str,
        definition: &Definition,
        write: impl Future<Output = T>,
    ) -> T {
        let began = Instant::now();
        let written = write.await;
        let took = began.elapsed();
        let (group, plural) = (&*definition.resource.group, &*definition.resource.plural);
        let place = STORE_OPERATIONS.iter().position(|known| *known == operation);
        let place = place.unwrap_or_default();
        let known = |known: &[Histogram; 3]| known[place].record(took);
        if self
            .storage
            .read()
            .get(group)
            .and_then(|it| it.get(plural))
            .map(known)
            .is_none()
        {
            let mut storage = self.storage.write();
            let resources = storage.entry(group.to_owned()).or_default();
            let series = resources.entry(plural.to_owned());
            known(series.or_insert_with(|| STORE_OPERATIONS.map(|_| Histogram::new(REQUEST_DURATIONS))));
        }
        written
    }

    fn write_admission(&self, text: &mut MetricsText) {
        const STEPS: &str = "apiserver_admission_step_admission_duration_seconds";
        text.family(STEPS, "Time of a step of admission.", MetricKind::Histogram);
        for (outcome, histogram) in &*self.steps.read() {
            text.histogram(STEPS, &labels(outcome, outcome.0.step.name()), histogram);
        }
        const PLUGINS: &str = "apiserver_admission_controller_admission_duration_seconds";
        text.family(PLUGINS, "Time of an admission plugin.", MetricKind::Histogram);
        for ((name, outcome), histogram) in &*self.plugins.read() {
            let [operation, rejected, step] = labels(outcome, outcome.0.step.name());
            text.histogram(PLUGINS, &[("name", name), operation, rejected, step], histogram);
        }
        const CALLS: &str = "apiserver_admission_webhook_admission_duration_seconds";
        text.family(CALLS, "Time of a call of a webhook.", MetricKind::Histogram);
        for ((name, outcome), histogram) in &*self.webhooks.lock() {
            let [operation, rejected, step] = labels(outcome, outcome.0.step.name_for_webhooks());
            text.histogram(CALLS, &[("name", name), operation, rejected, step], histogram);
        }
    }

    fn write_storage(&self, text: &mut MetricsText) {
        const WRITES: &str = "etcd_request_duration_seconds";
        text.family(WRITES, "Time of a write to the store.", MetricKind::Histogram);
        for (group, resources) in &*self.storage.read() {
            for (resource, series) in resources {
                let named = STORE_OPERATIONS.into_iter().zip(series);
                for (operation, histogram) in named.filter(|(_, histogram)| !histogram.is_empty()) {
                    let labels = [
                        ("group", &**group),
                        ("operation", operation),
                        ("resource", resource),
                    ];
                    text.histogram(WRITES, &labels, histogram);
                }
            }
        }
    }
}

fn labels((stage, is_rejected): &Outcome, step: &'static str) -> [(&'static str, &'static str); 3] {
    [
        ("operation", stage.operation),
        ("rejected", if *is_rejected { "true" } else { "false" }),
        ("type", step),
    ]
}

impl Collect for Metrics {
    fn collect(&self, text: &mut MetricsText) {
        self.write_admission(text);
        self.write_storage(text);
    }
}
