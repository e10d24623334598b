//! Controller metrics under controller-runtime's names, so that its dashboards and alerts work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use watchkeeper_meta::{Bounds, Histogram, MetricKind, MetricsText};

use crate::controller::{OnError, ReconcileError};

/// controller-runtime's forty buckets, 5 ms to a minute.
const DURATIONS: Bounds = &[
    (0.005, "0.005"),
    (0.01, "0.01"),
    (0.025, "0.025"),
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.15, "0.15"),
    (0.2, "0.2"),
    (0.25, "0.25"),
    (0.3, "0.3"),
    (0.35, "0.35"),
    (0.4, "0.4"),
    (0.45, "0.45"),
    (0.5, "0.5"),
    (0.6, "0.6"),
    (0.7, "0.7"),
    (0.8, "0.8"),
    (0.9, "0.9"),
    (1.0, "1"),
    (1.25, "1.25"),
    (1.5, "1.5"),
    (1.75, "1.75"),
    (2.0, "2"),
    (2.5, "2.5"),
    (3.0, "3"),
    (3.5, "3.5"),
    (4.0, "4"),
    (4.5, "4.5"),
    (5.0, "5"),
    (6.0, "6"),
    (7.0, "7"),
    (8.0, "8"),
    (9.0, "9"),
    (10.0, "10"),
    (15.0, "15"),
    (20.0, "20"),
    (25.0, "25"),
    (30.0, "30"),
    (40.0, "40"),
    (50.0, "50"),
    (60.0, "60"),
];

/// The outcome of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    RequeueAfter,
    Error,
    /// It failed and is not retried.
    Terminal,
    Panic,
    Timeout,
}

impl Outcome {
    pub(crate) fn failed(error: &ReconcileError, then: OnError) -> Self {
        match (error, then) {
            (ReconcileError::Panicked { .. }, _) => Self::Panic,
            (ReconcileError::TimedOut { .. }, _) => Self::Timeout,
            (ReconcileError::Failed(_), OnError::GiveUp) => Self::Terminal,
            (ReconcileError::Failed(_), _) => Self::Error,
        }
    }
}

/// The metrics of the controllers of one name.
pub(crate) struct ControllerMetrics {
    name: String,
    workers: AtomicU64,
    active: AtomicU64,
    successes: AtomicU64,
    requeues: AtomicU64,
    errors: AtomicU64,
    terminal: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
    skips: AtomicU64,
    took: Histogram,
}

impl ControllerMetrics {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            workers: AtomicU64::new(0),
            active: AtomicU64::new(0),
            successes: AtomicU64::new(0),
            requeues: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            terminal: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            skips: AtomicU64::new(0),
            took: Histogram::new(DURATIONS),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Counts the workers of a controller, until it is dropped.
    pub(crate) fn with_workers(self: Arc<Self>, workers: usize) -> Counted {
        let workers = workers as u64;
        self.workers.fetch_add(workers, Ordering::Relaxed);
        Counted {
            metrics: self,
            workers,
        }
    }
}

/// The metrics of a running controller.
pub(crate) struct Counted {
    metrics: Arc<ControllerMetrics>,
    workers: u64,
}

impl Counted {
    /// A reconcile has started. One that is dropped before its end is not counted otherwise.
    pub(crate) fn begun(&self, at: Instant) -> Active<'_> {
        self.metrics.active.fetch_add(1, Ordering::Relaxed);
        Active {
            metrics: &self.metrics,
            begun: at,
        }
    }

    /// A key was skipped because an informer does not show an own write.
    pub(crate) fn skipped(&self) {
        self.metrics.skips.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.workers.fetch_sub(self.workers, Ordering::Relaxed);
    }
}

/// A running reconcile.
pub(crate) struct Active<'a> {
    metrics: &'a ControllerMetrics,
    begun: Instant,
}

impl Active<'_> {
    /// The reconcile has ended. Panics and timeouts count as errors too.
    pub(crate) fn ended(self, at: Instant, outcome: Outcome) {
        let metrics = self.metrics;
        metrics.took.record(at.saturating_duration_since(self.begun));
        let counters: &[&AtomicU64] = match outcome {
            Outcome::Success => &[&metrics.successes],
            Outcome::RequeueAfter => &[&metrics.requeues],
            Outcome::Error => &[&metrics.errors],
            Outcome::Terminal => &[&metrics.errors, &metrics.terminal],
            Outcome::Panic => &[&metrics.errors, &metrics.panics],
            Outcome::Timeout => &[&metrics.errors, &metrics.timeouts],
        };
        for counter in counters {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.metrics.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All metrics, as controller-runtime shows them.
pub(super) fn collect(controllers: &[Arc<ControllerMetrics>], text: &mut MetricsText) {
    if controllers.is_empty() {
        return;
    }
    let total = "controller_runtime_reconcile_total";
    text.family(
        total,
        "Total number of reconciliations per controller",
        MetricKind::Counter,
    );
    for controller in controllers {
        for (result, count) in [
            ("error", &controller.errors),
            ("requeue_after", &controller.requeues),
            ("success", &controller.successes),
        ] {
            let labels = [("controller", &*controller.name), ("result", result)];
            text.sample(total, &labels, count.load(Ordering::Relaxed));
        }
    }
    let mut number = |name: &str, help: &str, kind, value: &dyn Fn(&ControllerMetrics) -> u64| {
        text.family(name, help, kind);
        for controller in controllers {
            text.sample(name, &[("controller", &controller.name)], value(controller));
        }
    };
    number(
        "controller_runtime_reconcile_errors_total",
        "Total number of reconciliation errors per controller",
        MetricKind::Counter,
        &|controller| controller.errors.load(Ordering::Relaxed),
    );
    number(
        "controller_runtime_terminal_reconcile_errors_total",
        "Total number of terminal reconciliation errors per controller",
        MetricKind::Counter,
        &|controller| controller.terminal.load(Ordering::Relaxed),
    );
    number(
        "controller_runtime_reconcile_panics_total",
        "Total number of reconciliation panics per controller",
        MetricKind::Counter,
        &|controller| controller.panics.load(Ordering::Relaxed),
    );
    number(
        "controller_runtime_reconcile_timeouts_total",
        "Total number of reconciliation timeouts per controller",
        MetricKind::Counter,
        &|controller| controller.timeouts.load(Ordering::Relaxed),
    );
    number(
        "stale_sync_skips_total",
        "Total number of reconciliations skipped because the cache did not show the controller's own writes",
        MetricKind::Counter,
        &|controller| controller.skips.load(Ordering::Relaxed),
    );
    number(
        "controller_runtime_max_concurrent_reconciles",
        "Maximum number of concurrent reconciles per controller",
        MetricKind::Gauge,
        &|controller| controller.workers.load(Ordering::Relaxed),
    );
    number(
        "controller_runtime_active_workers",
        "Number of currently used workers per controller",
        MetricKind::Gauge,
        &|controller| controller.active.load(Ordering::Relaxed),
    );
    let took = "controller_runtime_reconcile_time_seconds";
    text.family(
        took,
        "Length of time per reconciliation per controller",
        MetricKind::Histogram,
    );
    for controller in controllers {
        text.histogram(took, &[("controller", &controller.name)], &controller.took);
    }
}
