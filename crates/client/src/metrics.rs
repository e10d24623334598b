//! Metrics of a client's requests under client-go's names, which dashboards know: `rest_client_requests_total` and
//! others.
//!
//! They are labelled by host and method, answers also by status code. All labels have few values, so memory is
//! bounded. Several clients may share one [`RequestMetrics`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use http::{Method, StatusCode};
use jiff::Timestamp;
use watchkeeper_meta::{Bounds, Collect, Histogram, MetricKind, MetricsText};

/// In seconds, as in client-go.
const SECONDS: Bounds = &[
    (0.005, "0.005"),
    (0.025, "0.025"),
    (0.1, "0.1"),
    (0.25, "0.25"),
    (0.5, "0.5"),
    (1.0, "1"),
    (2.0, "2"),
    (4.0, "4"),
    (8.0, "8"),
    (15.0, "15"),
    (30.0, "30"),
    (60.0, "60"),
];

/// In bytes, as in client-go and as Go prints them.
const BYTES: Bounds = &[
    (64.0, "64"),
    (256.0, "256"),
    (512.0, "512"),
    (1024.0, "1024"),
    (4096.0, "4096"),
    (16384.0, "16384"),
    (65536.0, "65536"),
    (262144.0, "262144"),
    (1048576.0, "1.048576e+06"),
    (4194304.0, "4.194304e+06"),
    (16777216.0, "1.6777216e+07"),
];

/// Lifetimes of plugin certificates, from minutes to years, as in client-go and as Go prints them.
const AGES: Bounds = &[
    (600.0, "600"),
    (1800.0, "1800"),
    (3600.0, "3600"),
    (14400.0, "14400"),
    (86400.0, "86400"),
    (604800.0, "604800"),
    (2592000.0, "2.592e+06"),
    (7776000.0, "7.776e+06"),
    (15552000.0, "1.5552e+07"),
    (31104000.0, "3.1104e+07"),
    (124416000.0, "1.24416e+08"),
];

/// client-go's label for an attempt without an answer.
const NO_ANSWER: &str = "<error>";

/// The metrics of one or several clients: see [`ClientOptions::metrics`].
///
/// ```
/// # use std::sync::Arc;
/// # use watchkeeper_client::{ClientOptions, RequestMetrics};
/// # use watchkeeper_meta::{Collect, MetricsText};
/// let metrics = Arc::new(RequestMetrics::default());
/// let options = ClientOptions { metrics: Some(metrics.clone()), ..Default::default() };
/// // … make clients with the options, and where Prometheus asks:
/// let mut text = MetricsText::default();
/// metrics.collect(&mut text);
/// assert!(text.into_string().contains("rest_client_requests_total"));
/// ```
///
/// [`ClientOptions::metrics`]: crate::ClientOptions::metrics
#[derive(Debug, Default)]
pub struct RequestMetrics {
    series: Mutex<BTreeMap<(String, Method), Arc<Series>>>,
    look_ups: Mutex<BTreeMap<String, Histogram>>,
    plugin_calls: Mutex<BTreeMap<PluginCall, u64>>,
    /// The expiry of certificates issued by plugins; at most one entry per plugin.
    certificate_ends: Mutex<BTreeMap<PluginId, Timestamp>>,
    certificate_ages: OnceLock<Histogram>,
}

/// Identifies a plugin among several clients.
pub(crate) type PluginId = usize;

/// The result of calling a credential plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PluginCall {
    Succeeded,
    /// It failed with this exit code.
    Failed(i32),
    NotFound,
    /// It could not be started or did not end.
    Broke,
}

impl PluginCall {
    /// client-go's labels: an exit code and a status. Without an exit code, it is 1.
    fn labels(self) -> (String, &'static str) {
        let (code, status) = match self {
            Self::Succeeded => (0, "no_error"),
            Self::Failed(code) => (code, "plugin_execution_error"),
            Self::NotFound => (1, "plugin_not_found_error"),
            Self::Broke => (1, "client_internal_error"),
        };
        (code.to_string(), status)
    }
}

/// The metrics of one method on one host.
#[derive(Debug)]
pub(crate) struct Series {
    duration: Histogram,
    throttled: Histogram,
    sent: Histogram,
    received: Histogram,
    answers: Mutex<BTreeMap<String, Answers>>,
}

/// Attempts that ended with one status code.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    all: u64,
    /// Those that were retries.
    retries: u64,
}

impl RequestMetrics {
    /// The metrics of requests with this method to this host.
    pub(crate) fn series(&self, host: &str, method: &Method) -> Arc<Series> {
        let mut series = lock(&self.series);
        let place = series.entry((host.to_owned(), method.clone()));
        place.or_insert_with(|| Arc::new(Series::new())).clone()
    }

    /// Counts a call of a credential plugin.
    pub(crate) fn plugin_called(&self, call: PluginCall) {
        *lock(&self.plugin_calls).entry(call).or_default() += 1;
    }

    /// Records the expiry of a plugin's certificate; `None` if it no longer has one.
    pub(crate) fn certificate_ends(&self, plugin: PluginId, end: Option<Timestamp>) {
        let mut ends = lock(&self.certificate_ends);
        match end {
            Some(end) => ends.insert(plugin, end),
            None => ends.remove(&plugin),
        };
    }

    /// Records the age of a plugin's certificate when it was replaced.
    pub(crate) fn certificate_replaced(&self, age: Duration) {
        self.certificate_ages().record(age);
    }

    fn certificate_ages(&self) -> &Histogram {
        self.certificate_ages.get_or_init(|| Histogram::new(AGES))
    }

    /// Seconds until the first of the certificates expires, as Prometheus writes them.
    fn certificate_seconds_left(&self) -> String {
        let ends = lock(&self.certificate_ends);
        let left = |end: &Timestamp| end.duration_since(Timestamp::now()).as_secs_f64();
        let left = ends.values().min().map(left);
        left.map_or_else(|| "+Inf".to_owned(), |seconds| seconds.to_string())
    }

    /// Records a DNS look-up of the server's name.
    pub(crate) fn resolved(&self, host: &str, took: Duration) {
        let mut look_ups = lock(&self.look_ups);
        let look_ups = look_ups.entry(host.to_owned());
        look_ups.or_insert_with(|| Histogram::new(SECONDS)).record(took);
    }
}

impl Series {
    fn new() -> Self {
        Self {
            duration: Histogram::new(SECONDS),
            throttled: Histogram::new(SECONDS),
            sent: Histogram::new(BYTES),
            received: Histogram::new(BYTES),
            answers: Mutex::default(),
        }
    }

    /// Records the time a request waited for the client's rate limit, possibly zero.
    pub(crate) fn throttled(&self, waited: Duration) {
        self.throttled.record(waited);
    }

    /// Counts a finished attempt, with or without an answer.
    pub(crate) fn attempted(&self, status: Option<StatusCode>, is_retry: bool, sent_bytes: usize) {
        self.sent.record_size(sent_bytes as u64);
        let code = status
            .as_ref()
            .map_or(NO_ANSWER, |status| status.as_str())
            .to_owned();
        let mut answers = lock(&self.answers);
        let answers = answers.entry(code).or_default();
        answers.all += 1;
        answers.retries += u64::from(is_retry);
    }

    /// Records the time of a finished request over all attempts, up to the head of the answer.
    pub(crate) fn finished(&self, took: Duration) {
        self.duration.record(took);
    }

    /// Records the size of a complete body.
    pub(crate) fn received(&self, bytes: u64) {
        self.received.record_size(bytes);
    }
}

impl Collect for RequestMetrics {
    fn collect(&self, text: &mut MetricsText) {
        let series = lock(&self.series).clone();
        let mut counter = |name: &str, help: &str, method_label: &str, count: fn(&Answers) -> u64| {
            text.family(name, help, MetricKind::Counter);
            for ((host, method), series) in &series {
                for (code, answers) in &*lock(&series.answers) {
                    let labels = [("code", &**code), ("host", host), (method_label, method.as_str())];
                    if count(answers) > 0 {
                        text.sample(name, &labels, count(answers));
                    }
                }
            }
        };
        counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host",
            "method",
            |answers| answers.all,
        );
        counter(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host",
            "verb",
            |answers| answers.retries,
        );
        let mut histogram = |name: &str, help: &str, histogram: fn(&Series) -> &Histogram| {
            text.family(name, help, MetricKind::Histogram);
            for ((host, method), series) in &series {
                let labels = [("host", &**host), ("verb", method.as_str())];
                text.histogram(name, &labels, histogram(series));
            }
        };
        histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds, broken down by verb and host",
            |series| &series.duration,
        );
        histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds, broken down by verb and host",
            |series| &series.throttled,
        );
        histogram(
            "rest_client_request_size_bytes",
            "Request size in bytes, broken down by verb and host",
            |series| &series.sent,
        );
        histogram(
            "rest_client_response_size_bytes",
            "Response size in bytes, broken down by verb and host",
            |series| &series.received,
        );
        let name = "rest_client_dns_resolution_duration_seconds";
        text.family(
            name,
            "DNS resolver latency in seconds, broken down by host",
            MetricKind::Histogram,
        );
        for (host, look_ups) in &*lock(&self.look_ups) {
            text.histogram(name, &[("host", host)], look_ups);
        }
        let name = "rest_client_exec_plugin_call_total";
        text.family(
            name,
            "Number of calls to a credential plugin, partitioned by how they ended and the exit code",
            MetricKind::Counter,
        );
        for (call, count) in &*lock(&self.plugin_calls) {
            let (code, status) = call.labels();
            text.sample(name, &[("call_status", status), ("code", &code)], count);
        }
        let name = "rest_client_exec_plugin_ttl_seconds";
        text.family(
            name,
            "Seconds until the first certificate of a credential plugin expires; +Inf where there is none",
            MetricKind::Gauge,
        );
        text.sample(name, &[], self.certificate_seconds_left());
        let name = "rest_client_exec_plugin_certificate_rotation_age";
        text.family(
            name,
            "Age in seconds at which certificates of credential plugins were replaced",
            MetricKind::Histogram,
        );
        text.histogram(name, &[], self.certificate_ages());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
