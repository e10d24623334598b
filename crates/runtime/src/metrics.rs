//! Metrics with Kubernetes' names, in Prometheus' text format.
//!
//! Counting costs one atomic operation; nothing is allocated after a queue or an informer was registered. There is no
//! global registry: create a [`Metrics`], pass it on, and serve [`Metrics::render`]. Other sources, such as a
//! client's request metrics, are added with [`Metrics::add`].
//!
//! ```
//! use watchkeeper_runtime::metrics::Metrics;
//! use watchkeeper_runtime::queue::{AddOptions, Queue, QueueOptions};
//!
//! let metrics = Metrics::new();
//! let pods = metrics.queue("pods");
//! let queue = Queue::new(QueueOptions { observer: Some(pods.clone()), ..Default::default() });
//! pods.watch({
//!     let queue = queue.clone();
//!     move || queue.stats()
//! });
//! queue.add("default/web", AddOptions::default());
//! assert!(metrics.render().contains("workqueue_depth{name=\"pods\"} 1"));
//! ```

mod controllers;

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use watchkeeper_meta::{Bounds, Collect, Histogram, MetricKind, MetricsText};

use crate::informer::{Informer, WeakInformer};
use crate::queue::{QueueObserver, QueueStats};
use crate::view::View;

pub(crate) use controllers::{Active, ControllerMetrics, Counted, Outcome};

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = watchkeeper_meta::METRICS_CONTENT_TYPE;

/// Kubernetes' twelve buckets, 10 ns to 1000 s, with its printed texts: two of the numbers are not exact.
const DURATIONS: Bounds = &[
    (1e-8, "1e-08"),
    (1e-7, "1e-07"),
    (1e-6, "1e-06"),
    (1e-5, "9.999999999999999e-06"),
    (1e-4, "9.999999999999999e-05"),
    (1e-3, "0.001"),
    (1e-2, "0.01"),
    (1e-1, "0.1"),
    (1.0, "1"),
    (10.0, "10"),
    (100.0, "100"),
    (1000.0, "1000"),
];

/// A set of metrics. Clones share it.
#[derive(Clone, Default)]
pub struct Metrics {
    queues: Arc<Mutex<Vec<Arc<QueueMetrics>>>>,
    controllers: Arc<Mutex<Vec<Arc<ControllerMetrics>>>>,
    informers: Arc<Mutex<Vec<(String, WeakInformer)>>>,
    others: Arc<Mutex<Vec<Arc<dyn Collect>>>>,
}

/// The metrics of one queue, to be passed to it as its observer.
pub struct QueueMetrics {
    name: String,
    adds: AtomicU64,
    retries: AtomicU64,
    waited: Histogram,
    worked: Histogram,
    sources: Mutex<Vec<Source>>,
}

/// The current state of a queue; `None` once it is gone.
type Source = Box<dyn Fn() -> Option<QueueStats> + Send + Sync>;

impl Metrics {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The metrics of the queues of this name. Pass them to a queue as its observer, and the queue's state to
    /// [`QueueMetrics::watch`].
    pub fn queue(&self, name: impl Into<String>) -> Arc<QueueMetrics> {
        let name = name.into();
        let mut queues = self.queues.lock();
        if let Some(known) = queues.iter().find(|queue| queue.name == name) {
            return known.clone();
        }
        let queue = Arc::new(QueueMetrics {
            name,
            adds: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            waited: Histogram::new(DURATIONS),
            worked: Histogram::new(DURATIONS),
            sources: Mutex::default(),
        });
        queues.push(queue.clone());
        queue
    }

    /// The metrics of the controllers of this name: the shards of a sharded one share them.
    pub(crate) fn controller(&self, name: &str) -> Arc<ControllerMetrics> {
        let mut controllers = self.controllers.lock();
        if let Some(known) = controllers.iter().find(|controller| controller.name() == name) {
            return known.clone();
        }
        let controller = Arc::new(ControllerMetrics::new(name.to_owned()));
        controllers.push(controller.clone());
        controller
    }

    /// Registers an informer under a name, without keeping it running. It is shown once; if the name is taken by
    /// another informer, a number is appended.
    pub fn informer<K: View>(&self, name: impl Into<String>, informer: &Informer<K>) {
        let mut informers = self.informers.lock();
        informers.retain(|(_, informer)| informer.held().is_some());
        let informer = informer.downgrade();
        if informers.iter().any(|(_, known)| known.is_same(&informer)) {
            return;
        }
        let wanted = name.into();
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let mut names = iter::once(wanted.clone()).chain(numbered);
        let free = names.find(|name| informers.iter().all(|(taken, _)| taken != name));
        informers.push((free.unwrap_or(wanted), informer));
    }

    /// Adds another source of metrics.
    pub fn add(&self, collector: Arc<dyn Collect>) {
        self.others.lock().push(collector);
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = MetricsText::default();
        self.collect(&mut text);
        text.into_string()
    }

    fn collect_queues(&self, text: &mut MetricsText) {
        let queues = self.queues.lock().clone();
        let stats: Vec<QueueStats> = queues.iter().map(|queue| queue.stats()).collect();
        let mut gauge = |name: &str, help: &str, value: &dyn Fn(&QueueStats) -> f64| {
            text.family(name, help, MetricKind::Gauge);
            for (queue, stats) in queues.iter().zip(&stats) {
                text.sample(name, &[("name", &queue.name)], value(stats));
            }
        };
        gauge("workqueue_depth", "Current depth of workqueue", &|stats| {
            stats.ready as f64
        });
        gauge(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work has been done that is in progress",
            &|stats| stats.unfinished.as_secs_f64(),
        );
        gauge(
            "workqueue_longest_running_processor_seconds",
            "How many seconds the longest running processor has been running",
            &|stats| stats.longest_running.as_secs_f64(),
        );
        let mut counter = |name: &str, help: &str, value: &dyn Fn(&QueueMetrics) -> &AtomicU64| {
            text.family(name, help, MetricKind::Counter);
            for queue in &queues {
                let count = value(queue).load(Ordering::Relaxed);
                text.sample(name, &[("name", &queue.name)], count);
            }
        };
        counter(
            "workqueue_adds_total",
            "Total number of adds handled by workqueue",
            &|queue| &queue.adds,
        );
        counter(
            "workqueue_retries_total",
            "Total number of retries handled by workqueue",
            &|queue| &queue.retries,
        );
        let mut histogram = |name: &str, help: &str, value: &dyn Fn(&QueueMetrics) -> &Histogram| {
            text.family(name, help, MetricKind::Histogram);
            for queue in &queues {
                text.histogram(name, &[("name", &queue.name)], value(queue));
            }
        };
        histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            &|queue| &queue.waited,
        );
        histogram(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            &|queue| &queue.worked,
        );
    }

    fn collect_informers(&self, text: &mut MetricsText) {
        let informers = self.informers.lock().clone().into_iter();
        let informers: Vec<(String, Informer)> = informers
            .filter_map(|(name, informer)| Some((name, informer.held()?)))
            .collect();
        let mut gauge = |name: &str, help: &str, value: &dyn Fn(&Informer) -> f64| {
            text.family(name, help, MetricKind::Gauge);
            for (label, informer) in &informers {
                text.sample(name, &[("name", label)], value(informer));
            }
        };
        gauge(
            "informer_queued_items",
            "Changes that wait for the slowest subscriber",
            &|informer| informer.backlog().longest as f64,
        );
        gauge(
            "informer_store_resource_version",
            "The version the store has reached; 0 before the first list",
            &|informer| {
                informer
                    .store()
                    .snapshot()
                    .version()
                    .as_str()
                    .parse()
                    .unwrap_or(0.0)
            },
        );
        gauge("informer_store_objects", "Objects in the store", &|informer| {
            informer.store().snapshot().len() as f64
        });
        gauge("informer_store_bytes", "Memory the store holds", &|informer| {
            informer.store().snapshot().memory_size() as f64
        });
        gauge(
            "informer_synced",
            "1 once the first list is complete",
            &|informer| f64::from(u8::from(informer.health().is_synced())),
        );
        gauge(
            "informer_failing",
            "1 while the server cannot be reached or refuses, or an object cannot be read",
            &|informer| f64::from(u8::from(informer.health().failing.is_some())),
        );
        let name = "informer_undecodable_total";
        let help = "Versions of objects that did not decode for those who read structs";
        text.family(name, help, MetricKind::Counter);
        for (label, informer) in &informers {
            text.sample(name, &[("name", label)], informer.store().decode_failures());
        }
    }
}

impl QueueMetrics {
    /// Adds a source of the current state. Of several, the sum is shown, and the longest time of a running key.
    pub fn watch(&self, stats: impl Fn() -> QueueStats + Send + Sync + 'static) {
        self.watch_while(move || Some(stats()));
    }

    /// Like [`watch`](Self::watch), until the source is gone.
    pub(crate) fn watch_while(&self, stats: impl Fn() -> Option<QueueStats> + Send + Sync + 'static) {
        let mut sources = self.sources.lock();
        sources.retain(|source| source().is_some());
        sources.push(Box::new(stats));
    }

    fn stats(&self) -> QueueStats {
        let sources = self.sources.lock();
        let each = sources.iter().filter_map(|source| source());
        each.fold(QueueStats::default(), |sum, queue| QueueStats {
            ready: sum.ready + queue.ready,
            delayed: sum.delayed + queue.delayed,
            running: sum.running + queue.running,
            unfinished: sum.unfinished + queue.unfinished,
            longest_running: sum.longest_running.max(queue.longest_running),
        })
    }
}

impl QueueObserver for QueueMetrics {
    fn added(&self) {
        self.adds.fetch_add(1, Ordering::Relaxed);
    }

    fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    fn started(&self, waited: Duration) {
        self.waited.record(waited);
    }

    fn finished(&self, worked: Duration) {
        self.worked.record(worked);
    }
}

impl Collect for Metrics {
    fn collect(&self, text: &mut MetricsText) {
        controllers::collect(&self.controllers.lock().clone(), text);
        self.collect_queues(text);
        self.collect_informers(text);
        let others = self.others.lock().clone();
        others.iter().for_each(|other| other.collect(text));
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (queues, informers) = (self.queues.lock().len(), self.informers.lock().len());
        f.debug_struct("Metrics")
            .field("queues", &queues)
            .field("informers", &informers)
            .finish()
    }
}

impl std::fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("QueueMetrics").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::queue::{AddOptions, Queue, QueueOptions};

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_shown_with_kubernetes_names() {
        let metrics = Metrics::new();
        let observer = metrics.queue("pods");
        let queue = Queue::new(QueueOptions {
            observer: Some(observer.clone()),
            ..Default::default()
        });
        let state = queue.clone();
        observer.watch(move || state.stats());
        queue.add("a", AddOptions::default());
        queue.add("b", AddOptions::default());
        tokio::time::advance(Duration::from_millis(20)).await;
        let work = queue.try_next().unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;
        let text = metrics.render();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        expect![[r#"
            workqueue_depth{name="pods"} 1
            workqueue_unfinished_work_seconds{name="pods"} 2
            workqueue_longest_running_processor_seconds{name="pods"} 2
            workqueue_adds_total{name="pods"} 2
            workqueue_retries_total{name="pods"} 0
            workqueue_queue_duration_seconds_bucket{name="pods",le="1e-08"} 0
            workqueue_queue_duration_seconds_bucket{name="pods",le="1e-07"} 0
            workqueue_queue_duration_seconds_bucket{name="pods",le="1e-06"} 0
            workqueue_queue_duration_seconds_bucket{name="pods",le="9.999999999999999e-06"} 0
            workqueue_queue_duration_seconds_bucket{name="pods",le="9.999999999999999e-05"} 0
            workqueue_queue_duration_seconds_bucket{name="pods",le="0.001"} 0
            workqueue_queue_duration_seconds_bucket{name="pods",le="0.01"} 0
            workqueue_queue_duration_seconds_bucket{name="pods",le="0.1"} 1
            workqueue_queue_duration_seconds_bucket{name="pods",le="1"} 1
            workqueue_queue_duration_seconds_bucket{name="pods",le="10"} 1
            workqueue_queue_duration_seconds_bucket{name="pods",le="100"} 1
            workqueue_queue_duration_seconds_bucket{name="pods",le="1000"} 1
            workqueue_queue_duration_seconds_bucket{name="pods",le="+Inf"} 1
            workqueue_queue_duration_seconds_sum{name="pods"} 0.02
            workqueue_queue_duration_seconds_count{name="pods"} 1"#]]
        .assert_eq(&lines[..20].join("\n"));
        drop(work);
        assert!(
            metrics
                .render()
                .contains(r#"workqueue_work_duration_seconds_sum{name="pods"} 2"#)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn queues_of_one_name_are_one_line() {
        let metrics = Metrics::new();
        let start = || {
            let (observer, queue) = (metrics.queue("pods"), Queue::new(QueueOptions::default()));
            queue.observe(observer.clone());
            observer.watch_while(queue.weak_stats());
            queue
        };
        let line = |name: &str| {
            let text = metrics.render();
            let lines: Vec<_> = text.lines().filter(|line| line.starts_with(name)).collect();
            lines.join("\n")
        };
        let (one, two) = (start(), start());
        one.add("a", AddOptions::default());
        two.add("a", AddOptions::default());
        two.add("b", AddOptions::default());
        assert_eq!(
            line("workqueue_adds_total"),
            r#"workqueue_adds_total{name="pods"} 3"#
        );
        assert_eq!(line("workqueue_depth"), r#"workqueue_depth{name="pods"} 3"#);
        drop(two);
        assert_eq!(line("workqueue_depth"), r#"workqueue_depth{name="pods"} 1"#);
        assert_eq!(
            line("workqueue_adds_total"),
            r#"workqueue_adds_total{name="pods"} 3"#
        );
    }

    #[test]
    fn what_others_count_is_shown_too() {
        struct Asked;
        impl Collect for Asked {
            fn collect(&self, text: &mut MetricsText) {
                text.family("rest_client_requests_total", "Requests", MetricKind::Counter);
                text.sample("rest_client_requests_total", &[("code", "200")], 3);
            }
        }
        let metrics = Metrics::new();
        metrics.add(Arc::new(Asked));
        let text = metrics.render();
        assert!(
            text.contains("\nrest_client_requests_total{code=\"200\"} 3\n"),
            "{text}"
        );
    }
}
