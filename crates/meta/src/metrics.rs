//! Metrics in Prometheus' text format, and a histogram.
//!
//! A component that counts implements [`Collect`]; the handler of `/metrics` writes every collector into one
//! [`MetricsText`]. Nothing is registered globally, and counting costs an atomic addition or two.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The content type of the text.
pub const METRICS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A source of metrics.
///
/// A family may appear in the text only once, so components that share a family share a collector.
pub trait Collect: Send + Sync {
    /// Writes the families and their current samples.
    fn collect(&self, text: &mut MetricsText);
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Counts of observations by bucket.
    Histogram,
}

/// Metrics in Prometheus' text format, as they are written.
#[derive(Clone, Debug, Default)]
pub struct MetricsText {
    text: String,
}

/// The upper bounds of a histogram's buckets: each number, and its text as Kubernetes prints it.
pub type Bounds = &'static [(f64, &'static str)];

/// kube-apiserver's buckets for the durations of requests and of writes to the store, in seconds.
pub const REQUEST_DURATIONS: Bounds = &[
    (0.005, "0.005"),
    (0.025, "0.025"),
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.2, "0.2"),
    (0.4, "0.4"),
    (0.6, "0.6"),
    (0.8, "0.8"),
    (1.0, "1"),
    (1.25, "1.25"),
    (1.5, "1.5"),
    (2.0, "2"),
    (3.0, "3"),
    (4.0, "4"),
    (5.0, "5"),
    (6.0, "6"),
    (8.0, "8"),
    (10.0, "10"),
    (15.0, "15"),
    (20.0, "20"),
    (30.0, "30"),
    (45.0, "45"),
    (60.0, "60"),
];

/// Counts sizes or durations by bucket. Recording takes at most three atomic additions.
#[derive(Debug)]
pub struct Histogram {
    bounds: Bounds,
    /// One more than there are bounds: the last bucket counts what exceeds them all.
    buckets: Box<[AtomicU64]>,
    /// In billionths, so that it can be added to without a lock.
    sum_billionths: AtomicU64,
    sum_whole: AtomicU64,
}

impl MetricsText {
    /// Starts a family; its samples follow.
    pub fn family(&mut self, name: &str, help: &str, kind: MetricKind) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one sample of the current family.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.write(name, "", labels, None, &value);
    }

    /// Writes the buckets, sum and count of a histogram.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let texts = histogram.bounds.iter().map(|(_, text)| *text).chain(["+Inf"]);
        let mut count = 0;
        for (bucket, text) in histogram.buckets.iter().zip(texts) {
            count += bucket.load(Ordering::Relaxed);
            self.write(name, "_bucket", labels, Some(text), &count);
        }
        self.write(name, "_sum", labels, None, &histogram.sum());
        self.write(name, "_count", labels, None, &count);
    }

    /// Appends families that another metrics library has written in this format.
    pub fn append(&mut self, text: &str) {
        self.text.push_str(text);
        if !text.is_empty() && !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// The whole text.
    pub fn into_string(self) -> String {
        self.text
    }

    fn write(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[(&str, &str)],
        bound: Option<&str>,
        value: &dyn Display,
    ) {
        self.text.push_str(name);
        self.text.push_str(suffix);
        let mut open = '{';
        for (label, text) in labels.iter().copied().chain(bound.map(|bound| ("le", bound))) {
            self.text.push(std::mem::replace(&mut open, ','));
            self.text.push_str(label);
            self.text.push_str("=\"");
            self.escape(text);
            self.text.push('"');
        }
        if open == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn escape(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }
}

impl Histogram {
    /// An empty histogram. The bounds must ascend.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_billionths: AtomicU64::new(0),
            sum_whole: AtomicU64::new(0),
        }
    }

    /// Records a duration, in seconds.
    pub fn record(&self, duration: Duration) {
        self.count(duration.as_secs_f64());
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_billionths.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Records an integer, such as a size.
    pub fn record_size(&self, size: u64) {
        self.count(size as f64);
        self.sum_whole.fetch_add(size, Ordering::Relaxed);
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        let mut buckets = self.buckets.iter();
        buckets.all(|bucket| bucket.load(Ordering::Relaxed) == 0)
    }

    fn count(&self, value: f64) {
        let bucket = self.bounds.partition_point(|(bound, _)| *bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
    }

    fn sum(&self) -> f64 {
        let billionths = Duration::from_nanos(self.sum_billionths.load(Ordering::Relaxed));
        self.sum_whole.load(Ordering::Relaxed) as f64 + billionths.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_text_of_another_library_ends_with_a_line() {
        let mut text = MetricsText::default();
        for other in ["a 1", "", "b 2\n"] {
            text.append(other);
        }
        text.sample("c", &[], 3);
        assert_eq!(text.into_string(), "a 1\nb 2\nc 3\n");
    }

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
        let histogram = Histogram::new(&[(0.1, "0.1"), (1.0, "1")]);
        for millis in [50, 100, 101, 5000] {
            histogram.record(Duration::from_millis(millis));
        }
        let mut text = MetricsText::default();
        text.family("open", "What is open", MetricKind::Gauge);
        text.sample("open", &[], 2.5);
        text.family("asked_total", "Who was asked", MetricKind::Counter);
        text.sample("asked_total", &[("host", "a\"b\\c\nd"), ("code", "200")], 7);
        text.family("took_seconds", "How long it took", MetricKind::Histogram);
        text.histogram("took_seconds", &[("verb", "GET")], &histogram);
        expect![[r#"
            # HELP open What is open
            # TYPE open gauge
            open 2.5
            # HELP asked_total Who was asked
            # TYPE asked_total counter
            asked_total{host="a\"b\\c\nd",code="200"} 7
            # HELP took_seconds How long it took
            # TYPE took_seconds histogram
            took_seconds_bucket{verb="GET",le="0.1"} 2
            took_seconds_bucket{verb="GET",le="1"} 3
            took_seconds_bucket{verb="GET",le="+Inf"} 4
            took_seconds_sum{verb="GET"} 5.251
            took_seconds_count{verb="GET"} 4
        "#]]
        .assert_eq(&text.into_string());
    }

    #[test]
    fn sizes_are_counted_like_times() {
        let histogram = Histogram::new(&[(64.0, "64"), (256.0, "256")]);
        for size in [64, 65, 1000] {
            histogram.record_size(size);
        }
        let mut text = MetricsText::default();
        text.histogram("bytes", &[], &histogram);
        expect![[r#"
            bytes_bucket{le="64"} 1
            bytes_bucket{le="256"} 2
            bytes_bucket{le="+Inf"} 3
            bytes_sum 1129
            bytes_count 3
        "#]]
        .assert_eq(&text.into_string());
    }
}
