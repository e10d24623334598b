//! The server's counters and `/metrics`, under kube-apiserver's names and labels.

mod process;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use watchkeeper_meta::{Bounds, Histogram, MetricKind, MetricsText, REQUEST_DURATIONS};

use crate::Verb;
use crate::body::{Pieces, ResponseBody, StreamCut};
use crate::flow_control::{Figures, FlowFigures};
use crate::request_info::{RequestInfo, query_value};
use crate::respond::Answer;
use crate::route::{ResourceRoute, Route};

/// kube-apiserver's buckets of answers, in bytes.
const RESPONSE_SIZES: Bounds = &[
    (1e3, "1000"),
    (1e4, "10000"),
    (1e5, "100000"),
    (1e6, "1e+06"),
    (1e7, "1e+07"),
    (1e8, "1e+08"),
    (1e9, "1e+09"),
];

/// kube-apiserver's buckets of events, in bytes.
const EVENT_SIZES: Bounds = &[
    (1024.0, "1024"),
    (2048.0, "2048"),
    (4096.0, "4096"),
    (8192.0, "8192"),
    (16384.0, "16384"),
    (32768.0, "32768"),
    (65536.0, "65536"),
    (131_072.0, "131072"),
];

/// The answer to a request that was rejected, or took too long: terminated in self-defence.
const TERMINATED: [u16; 2] = [429, 504];

/// The counters of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Labels, Arc<Series>>>,
    watches: Mutex<BTreeMap<WatchLabels, Arc<WatchSeries>>>,
    mutating: Arc<AtomicI64>,
    read_only: Arc<AtomicI64>,
    open_connections: AtomicI64,
}

/// Values read when `/metrics` is requested, beside the counters of requests.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    /// The requests of open streams.
    pub streams: Vec<RequestInfo>,
    pub flow_control: Figures,
    /// Events of the audit log, if there is one.
    pub audit: Option<AuditFigures>,
    /// The number of objects of each resource.
    pub objects: Vec<(String, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct AuditFigures {
    pub written: u64,
    pub dropped: u64,
}

/// The labels of a request. Only names from the catalog are used, so that clients cannot create series.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    dry_run: &'static str,
}

/// Requests with the same labels.
#[derive(Debug)]
struct Series {
    by_code: Mutex<BTreeMap<u16, u64>>,
    durations: Histogram,
    sizes: Histogram,
}

/// A request that is being answered.
pub(crate) struct InFlight(Arc<AtomicI64>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchLabels {
    group: String,
    version: String,
    resource: String,
    kind: String,
}

/// The events that were sent to watches on one resource.
#[derive(Debug)]
pub(crate) struct WatchSeries {
    events: AtomicU64,
    sizes: Histogram,
}

impl WatchSeries {
    pub(crate) fn sent(&self, bytes: usize) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.sizes.record_size(bytes as u64);
    }
}

impl Labels {
    /// The labels of a routed request.
    pub(crate) fn of(route: Option<&Route>, query: &str) -> Self {
        match route {
            Some(Route::Resource(route)) => Self::of_resource(route, query),
            Some(_) => Self {
                verb: "GET",
                ..Self::default()
            },
            None => Self::default(),
        }
    }

    fn of_resource(route: &ResourceRoute, query: &str) -> Self {
        let resource = &route.resource.resource;
        let subresource = route.subresource.as_ref().map(|it| it.name.to_string());
        Self {
            verb: reported(route.verb),
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.plural.to_string(),
            subresource: subresource.unwrap_or_default(),
            scope: scope(route.name.is_some(), route.namespace.is_some()),
            dry_run: match query.contains("dryRun") && query_value(query, "dryRun").is_some() {
                true => "All",
                false => "",
            },
        }
    }

    fn pairs(&self) -> [(&str, &str); 8] {
        [
            ("component", "apiserver"),
            ("dry_run", self.dry_run),
            ("group", &self.group),
            ("resource", &self.resource),
            ("scope", self.scope),
            ("subresource", &self.subresource),
            ("verb", self.verb),
            ("version", &self.version),
        ]
    }

    /// The labels of families that do not tell dry runs apart.
    fn pairs_without_dry_run(&self) -> Vec<(&str, &str)> {
        let pairs = self.pairs().into_iter();
        pairs.filter(|(name, _)| *name != "dry_run").collect()
    }
}

/// A verb as kube-apiserver reports it.
fn reported(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "POST",
        Verb::Delete => "DELETE",
        Verb::DeleteCollection => "DELETECOLLECTION",
        Verb::Get => "GET",
        Verb::List => "LIST",
        Verb::Patch => "PATCH",
        Verb::Update => "PUT",
        Verb::Watch => "WATCH",
    }
}

fn scope(has_name: bool, has_namespace: bool) -> &'static str {
    match (has_name, has_namespace) {
        (true, _) => "resource",
        (false, true) => "namespace",
        (false, false) => "cluster",
    }
}

impl Metrics {
    /// Counts a request until it is answered. Streams are counted by themselves.
    pub(crate) fn begin(&self, info: &RequestInfo) -> Option<InFlight> {
        if info.is_long_running() {
            return None;
        }
        let is_mutating = match Verb::parse(&info.verb) {
            Some(verb) => verb.is_mutating(),
            None => !matches!(info.verb.as_str(), "get" | "head"),
        };
        let count = if is_mutating {
            &self.mutating
        } else {
            &self.read_only
        };
        count.fetch_add(1, Ordering::Relaxed);
        Some(InFlight(count.clone()))
    }

    /// Counts an answered request. The size of a read is counted once it is known, which may be when it was sent.
    pub(crate) fn answered(&self, labels: Labels, answer: Answer, took: Duration) -> Answer {
        let is_read = matches!(labels.verb, "GET" | "LIST");
        let series = self.requests.lock().entry(labels).or_default().clone();
        let code = answer.status().as_u16();
        *series.by_code.lock().entry(code).or_default() += 1;
        series.durations.record(took);
        match is_read {
            true => measured(answer, series),
            false => answer,
        }
    }

    /// The events of watches on a resource.
    pub(crate) fn watches_of(&self, route: &ResourceRoute) -> Arc<WatchSeries> {
        let resource = &route.resource.resource;
        let labels = WatchLabels {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.plural.to_string(),
            kind: resource.kind.to_string(),
        };
        self.watches.lock().entry(labels).or_default().clone()
    }

    pub(crate) fn connection_opened(&self) {
        self.open_connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.open_connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// The whole page.
    pub(crate) fn page(&self, moment: &Moment) -> String {
        let mut text = MetricsText::default();
        self.write_now(&mut text, moment);
        write_audit(&mut text, moment.audit.as_ref());
        write_flow_control(&mut text, &moment.flow_control);
        self.write_requests(&mut text);
        self.write_watches(&mut text);
        write_objects(&mut text, &moment.objects);
        process::write(&mut text);
        text.into_string()
    }

    fn write_now(&self, text: &mut MetricsText, moment: &Moment) {
        const CONNECTIONS: &str = "apiserver_open_connections";
        text.family(CONNECTIONS, "Connections that are served now.", MetricKind::Gauge);
        text.sample(CONNECTIONS, &[], self.open_connections.load(Ordering::Relaxed));
        const IN_FLIGHT: &str = "apiserver_current_inflight_requests";
        text.family(IN_FLIGHT, "Requests that are answered now.", MetricKind::Gauge);
        for (kind, count) in [("mutating", &self.mutating), ("readOnly", &self.read_only)] {
            text.sample(
                IN_FLIGHT,
                &[("request_kind", kind)],
                count.load(Ordering::Relaxed),
            );
        }
        const STREAMS: &str = "apiserver_longrunning_requests";
        text.family(STREAMS, "Streams that are open now.", MetricKind::Gauge);
        let mut counts: BTreeMap<Labels, u64> = BTreeMap::new();
        for info in &moment.streams {
            *counts.entry(Labels::of_stream(info)).or_default() += 1;
        }
        for (labels, count) in counts {
            text.sample(STREAMS, &labels.pairs_without_dry_run(), count);
        }
    }

    fn write_requests(&self, text: &mut MetricsText) {
        let requests = self.requests.lock().clone();
        let by_code = |text: &mut MetricsText, name: &str, is_counted: fn(u16) -> bool| {
            for (labels, series) in &requests {
                for (code, count) in series
                    .by_code
                    .lock()
                    .iter()
                    .filter(|(code, _)| is_counted(**code))
                {
                    let code = code.to_string();
                    let mut pairs = vec![("code", code.as_str())];
                    match is_counted(200) {
                        true => pairs.extend(labels.pairs()),
                        false => pairs.extend(labels.pairs_without_dry_run()),
                    }
                    text.sample(name, &pairs, count);
                }
            }
        };
        const TOTAL: &str = "apiserver_request_total";
        text.family(TOTAL, "Requests answered.", MetricKind::Counter);
        by_code(text, TOTAL, |_| true);
        const TERMINATIONS: &str = "apiserver_request_terminations_total";
        text.family(
            TERMINATIONS,
            "Requests rejected or cut off in self-defence.",
            MetricKind::Counter,
        );
        by_code(text, TERMINATIONS, |code| TERMINATED.contains(&code));
        const DURATION: &str = "apiserver_request_duration_seconds";
        text.family(
            DURATION,
            "Time until the answer's head was ready.",
            MetricKind::Histogram,
        );
        for (labels, series) in &requests {
            text.histogram(DURATION, &labels.pairs(), &series.durations);
        }
        const SIZES: &str = "apiserver_response_sizes";
        text.family(SIZES, "Bytes of the answers to reads.", MetricKind::Histogram);
        for (labels, series) in requests.iter().filter(|(_, series)| !series.sizes.is_empty()) {
            text.histogram(SIZES, &labels.pairs_without_dry_run(), &series.sizes);
        }
    }

    fn write_watches(&self, text: &mut MetricsText) {
        let watches = self.watches.lock().clone();
        const EVENTS: &str = "apiserver_watch_events_total";
        text.family(EVENTS, "Events sent to watches.", MetricKind::Counter);
        for (labels, series) in &watches {
            text.sample(EVENTS, &labels.pairs(), series.events.load(Ordering::Relaxed));
        }
        const SIZES: &str = "apiserver_watch_events_sizes";
        text.family(SIZES, "Bytes of events sent to watches.", MetricKind::Histogram);
        for (labels, series) in &watches {
            text.histogram(SIZES, &labels.pairs(), &series.sizes);
        }
    }
}

impl Labels {
    /// The labels of an open stream, which found its way.
    fn of_stream(info: &RequestInfo) -> Self {
        let resource = info.resource.clone().unwrap_or_default();
        Self {
            verb: Verb::parse(&info.verb).map_or("CONNECT", reported),
            scope: scope(!resource.name.is_empty(), !resource.namespace.is_empty()),
            group: resource.group,
            version: resource.version,
            resource: resource.resource,
            subresource: resource.subresource,
            dry_run: "",
        }
    }
}

impl WatchLabels {
    /// Both the kind and the resource: kube-apiserver had the one and has the other.
    fn pairs(&self) -> [(&str, &str); 4] {
        [
            ("group", &self.group),
            ("kind", &self.kind),
            ("resource", &self.resource),
            ("version", &self.version),
        ]
    }
}

impl Default for Series {
    fn default() -> Self {
        Self {
            by_code: Mutex::default(),
            durations: Histogram::new(REQUEST_DURATIONS),
            sizes: Histogram::new(RESPONSE_SIZES),
        }
    }
}

impl Default for WatchSeries {
    fn default() -> Self {
        Self {
            events: AtomicU64::new(0),
            sizes: Histogram::new(EVENT_SIZES),
        }
    }
}

/// Records the size of an answer: now, or when the last of its pieces was sent.
fn measured(answer: Answer, series: Arc<Series>) -> Answer {
    let (head, body) = answer.into_parts();
    let body = match body {
        ResponseBody::Whole(bytes) => {
            let size = bytes.as_ref().map_or(0, Bytes::len);
            series.sizes.record_size(size as u64);
            ResponseBody::Whole(bytes)
        }
        ResponseBody::Pieces(pieces) => ResponseBody::Pieces(Box::new(MeasuredPieces {
            pieces,
            bytes: 0,
            series,
        })),
        stream => stream,
    };
    Answer::from_parts(head, body)
}

/// The pieces of an answer, and how many bytes of them were sent.
struct MeasuredPieces {
    pieces: Pieces,
    bytes: u64,
    series: Arc<Series>,
}

impl Iterator for MeasuredPieces {
    type Item = Result<Bytes, StreamCut>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.pieces.next()?;
        self.bytes += piece.as_ref().map_or(0, |bytes| bytes.len() as u64);
        Some(piece)
    }
}

impl Drop for MeasuredPieces {
    fn drop(&mut self) {
        self.series.sizes.record_size(self.bytes);
    }
}

fn write_audit(text: &mut MetricsText, figures: Option<&AuditFigures>) {
    let Some(figures) = figures else {
        return;
    };
    const EVENTS: &str = "apiserver_audit_event_total";
    text.family(EVENTS, "Audit events that were logged.", MetricKind::Counter);
    text.sample(EVENTS, &[], figures.written);
    const ERRORS: &str = "apiserver_audit_error_total";
    text.family(ERRORS, "Audit events that were dropped.", MetricKind::Counter);
    text.sample(ERRORS, &[("plugin", "log")], figures.dropped);
}

fn write_objects(text: &mut MetricsText, objects: &[(String, u64)]) {
    const OBJECTS: &str = "apiserver_storage_objects";
    text.family(OBJECTS, "Objects that are stored.", MetricKind::Gauge);
    for (resource, count) in objects {
        text.sample(OBJECTS, &[("resource", resource)], count);
    }
}

fn write_flow_control(text: &mut MetricsText, figures: &Figures) {
    const NOMINAL: &str = "apiserver_flowcontrol_nominal_limit_seats";
    text.family(NOMINAL, "Seats of the level.", MetricKind::Gauge);
    for level in &figures.levels {
        text.sample(NOMINAL, &[("priority_level", &level.name)], level.nominal_seats);
    }
    type Gauge = (&'static str, &'static str, fn(&FlowFigures) -> usize);
    let gauges: [Gauge; 3] = [
        ("current_executing_seats", "Seats that are taken now.", |flow| {
            flow.seats_in_use
        }),
        ("current_executing_requests", "Requests that run now.", |flow| {
            flow.running
        }),
        ("current_inqueue_requests", "Requests that wait now.", |flow| {
            flow.waiting
        }),
    ];
    for (name, help, value) in gauges {
        let name = format!("apiserver_flowcontrol_{name}");
        text.family(&name, help, MetricKind::Gauge);
        for flow in &figures.flows {
            text.sample(&name, &flow_labels(flow), value(flow));
        }
    }
    write_waits(text, &figures.flows);
    const DISPATCHED: &str = "apiserver_flowcontrol_dispatched_requests_total";
    text.family(DISPATCHED, "Requests that got their seats.", MetricKind::Counter);
    for flow in &figures.flows {
        text.sample(DISPATCHED, &flow_labels(flow), flow.dispatched);
    }
    const REJECTED: &str = "apiserver_flowcontrol_rejected_requests_total";
    text.family(REJECTED, "Requests that were rejected.", MetricKind::Counter);
    for flow in &figures.flows {
        for (reason, count) in flow.rejected.iter().filter(|(_, count)| *count > 0) {
            let [schema, level] = flow_labels(flow);
            text.sample(REJECTED, &[schema, level, ("reason", reason)], count);
        }
    }
}

fn write_waits(text: &mut MetricsText, flows: &[FlowFigures]) {
    const WAITS: &str = "apiserver_flowcontrol_request_wait_duration_seconds";
    text.family(WAITS, "Time in a queue.", MetricKind::Histogram);
    for flow in flows {
        let results = [
            ("true", &flow.counts.waited),
            ("false", &flow.counts.waited_in_vain),
        ];
        for (execute, histogram) in results.into_iter().filter(|(_, histogram)| !histogram.is_empty()) {
            let [schema, level] = flow_labels(flow);
            text.histogram(WAITS, &[("execute", execute), schema, level], histogram);
        }
    }
}

fn flow_labels(flow: &FlowFigures) -> [(&str, &str); 2] {
    [("flow_schema", &flow.schema), ("priority_level", &flow.level)]
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    fn answer(code: u16) -> Answer {
        let body = ResponseBody::Whole(Some(Bytes::from_static(b"no")));
        Response::builder().status(code).body(body).unwrap()
    }

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let metrics = Metrics::default();
        for millis in [30, 1] {
            metrics.answered(Labels::default(), answer(404), Duration::from_millis(millis));
        }
        let busy = metrics.begin(&RequestInfo {
            verb: "create".to_owned(),
            ..RequestInfo::default()
        });
        let page = metrics.page(&Moment::default());
        let has = |line: &str| assert!(page.contains(line), "{line} is not in {page}");
        has("apiserver_request_total{code=\"404\",component=\"apiserver\",");
        has("le=\"0.005\"} 1\n");
        has("le=\"+Inf\"} 2\n");
        has("apiserver_current_inflight_requests{request_kind=\"mutating\"} 1\n");
        drop(busy);
        let page = metrics.page(&Moment::default());
        assert!(page.contains("{request_kind=\"mutating\"} 0\n"), "{page}");
    }

    #[test]
    fn a_rejected_request_was_terminated() {
        let metrics = Metrics::default();
        for code in [200, 404, 429, 504] {
            metrics.answered(Labels::default(), answer(code), Duration::ZERO);
        }
        let page = metrics.page(&Moment::default());
        let terminated = page
            .lines()
            .filter(|line| line.starts_with("apiserver_request_terminations_total{"));
        assert_eq!(terminated.count(), 2, "{page}");
    }
}
