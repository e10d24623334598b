//! The metrics of webhooks, under controller-runtime's names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use watchkeeper_meta::{Bounds, Collect, Histogram, MetricKind, MetricsText};

/// Prometheus' default buckets, in seconds.
const SECONDS: Bounds = &[
    (0.005, "0.005"),
    (0.01, "0.01"),
    (0.025, "0.025"),
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.25, "0.25"),
    (0.5, "0.5"),
    (1.0, "1"),
    (2.5, "2.5"),
    (5.0, "5"),
    (10.0, "10"),
];

/// The requests of every webhook.
pub(super) struct RequestsMetric {
    webhooks: BTreeMap<String, Requests>,
}

/// The requests of one webhook.
struct Requests {
    answered: Mutex<BTreeMap<u16, u64>>,
    latency: Histogram,
    in_flight: AtomicU64,
}

/// The number of times certificates were read or made.
#[derive(Default)]
pub(super) struct CertificatesMetric {
    reads: AtomicU64,
    failures: AtomicU64,
}

impl RequestsMetric {
    pub(super) fn new<'p>(paths: impl Iterator<Item = &'p String>) -> Self {
        let new = |path: &String| {
            let requests = Requests {
                answered: Mutex::default(),
                latency: Histogram::new(SECONDS),
                in_flight: AtomicU64::new(0),
            };
            (path.clone(), requests)
        };
        Self {
            webhooks: paths.map(new).collect(),
        }
    }

    /// A request to a path has started.
    pub(super) fn begun(&self, path: &str) {
        if let Some(requests) = self.webhooks.get(path) {
            requests.in_flight.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A request was answered.
    pub(super) fn answered(&self, path: &str, code: u16, took: Duration) {
        if let Some(requests) = self.webhooks.get(path) {
            requests.in_flight.fetch_sub(1, Ordering::Relaxed);
            requests.latency.record(took);
            *requests.answered.lock().entry(code).or_default() += 1;
        }
    }
}

impl CertificatesMetric {
    pub(super) fn read(&self, succeeded: bool) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(!succeeded), Ordering::Relaxed);
    }
}

impl Collect for RequestsMetric {
    fn collect(&self, text: &mut MetricsText) {
        let name = "controller_runtime_webhook_requests_total";
        let help = "Total number of admission requests by HTTP status code";
        text.family(name, help, MetricKind::Counter);
        for (path, requests) in &self.webhooks {
            for (code, count) in &*requests.answered.lock() {
                text.sample(name, &[("webhook", path), ("code", &code.to_string())], count);
            }
        }
        let name = "controller_runtime_webhook_latency_seconds";
        let help = "Histogram of the latency of processing admission requests";
        text.family(name, help, MetricKind::Histogram);
        for (path, requests) in &self.webhooks {
            text.histogram(name, &[("webhook", path)], &requests.latency);
        }
        let name = "controller_runtime_webhook_requests_in_flight";
        let help = "Current number of admission requests being served";
        text.family(name, help, MetricKind::Gauge);
        for (path, requests) in &self.webhooks {
            let in_flight = requests.in_flight.load(Ordering::Relaxed);
            text.sample(name, &[("webhook", path)], in_flight);
        }
    }
}

impl Collect for CertificatesMetric {
    fn collect(&self, text: &mut MetricsText) {
        let mut counter = |name: &str, help: &str, count: &AtomicU64| {
            text.family(name, help, MetricKind::Counter);
            text.sample(name, &[], count.load(Ordering::Relaxed));
        };
        counter(
            "certwatcher_read_certificate_total",
            "Total number of certificate reads",
            &self.reads,
        );
        counter(
            "certwatcher_read_certificate_errors_total",
            "Total number of certificate read errors",
            &self.failures,
        );
    }
}
