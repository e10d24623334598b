//! The server's counters and `/metrics`, under kube-apiserver's names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::flow_control::{Figures, FlowFigures, LevelFigures};
use crate::route::{ResourceRoute, Route};

/// The upper bounds of the duration buckets, in seconds.
const BUCKETS: [f64; 10] = [0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

/// The counters of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Labels, Counted>>,
    open_connections: AtomicI64,
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
    code: u16,
}

#[derive(Debug, Default)]
struct Counted {
    requests: u64,
    seconds: f64,
    buckets: [u64; BUCKETS.len()],
}

impl Labels {
    /// The labels of a routed request.
    pub(crate) fn of(route: Option<&Route>) -> Self {
        match route {
            Some(Route::Resource(route)) => Self::of_resource(route),
            Some(_) => Self {
                verb: "GET",
                ..Self::default()
            },
            None => Self::default(),
        }
    }

    fn of_resource(route: &ResourceRoute) -> Self {
        let resource = &route.resource.resource;
        let subresource = route.subresource.as_ref().map(|it| it.name.to_string());
        Self {
            verb: route.verb.as_str(),
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.plural.to_string(),
            subresource: subresource.unwrap_or_default(),
            scope: match (&route.name, &route.namespace) {
                (Some(_), _) => "resource",
                (None, Some(_)) => "namespace",
                (None, None) => "cluster",
            },
            code: 0,
        }
    }
}

impl Metrics {
    /// Counts an answered request.
    pub(crate) fn answered(&self, labels: Labels, code: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut requests = self
            .requests
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let counted = requests.entry(Labels { code, ..labels }).or_default();
        counted.requests += 1;
        counted.seconds += seconds;
        for (count, bound) in counted.buckets.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= bound);
        }
    }

    pub(crate) fn connection_opened(&self) {
        self.open_connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.open_connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// The whole page.
    pub(crate) fn page(
        &self,
        open_streams: usize,
        flow_control: &Figures,
        dropped_audit_events: Option<u64>,
    ) -> String {
        let mut page = String::new();
        let connections = self.open_connections.load(Ordering::Relaxed);
        gauge(
            &mut page,
            "apiserver_open_connections",
            "Connections that are served now.",
            connections,
        );
        gauge(
            &mut page,
            "apiserver_longrunning_requests",
            "Streams that are open now.",
            open_streams as i64,
        );
        if let Some(dropped) = dropped_audit_events {
            const ERRORS: &str = "apiserver_audit_error_total";
            head(&mut page, ERRORS, "counter", "Audit events that were dropped.");
            let _ = writeln!(page, "{ERRORS}{{plugin=\"log\"}} {dropped}");
        }
        write_flow_control(&mut page, flow_control);
        let requests = self
            .requests
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        head(
            &mut page,
            "apiserver_request_total",
            "counter",
            "Requests answered.",
        );
        for (labels, counted) in requests.iter() {
            let labels = labels.text();
            let _ = writeln!(page, "apiserver_request_total{{{labels}}} {}", counted.requests);
        }
        const DURATION: &str = "apiserver_request_duration_seconds";
        head(
            &mut page,
            DURATION,
            "histogram",
            "Time until the answer's head was ready.",
        );
        for (labels, counted) in requests.iter() {
            let labels = labels.text();
            for (count, bound) in counted.buckets.iter().zip(BUCKETS) {
                let _ = writeln!(page, "{DURATION}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let _ = writeln!(
                page,
                "{DURATION}_bucket{{{labels},le=\"+Inf\"}} {}",
                counted.requests
            );
            let _ = writeln!(page, "{DURATION}_sum{{{labels}}} {}", counted.seconds);
            let _ = writeln!(page, "{DURATION}_count{{{labels}}} {}", counted.requests);
        }
        page
    }
}

impl Labels {
    fn text(&self) -> String {
        format!(
            "code=\"{}\",group=\"{}\",resource=\"{}\",scope=\"{}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"",
            self.code,
            self.group,
            self.resource,
            self.scope,
            self.subresource,
            self.verb.to_ascii_uppercase(),
            self.version
        )
    }
}

fn write_flow_control(page: &mut String, figures: &Figures) {
    type Level = (&'static str, &'static str, fn(&LevelFigures) -> usize);
    let levels: [Level; 4] = [
        ("nominal_limit_seats", "Seats of the level.", |level| {
            level.nominal_seats as usize
        }),
        ("current_executing_seats", "Seats that are taken now.", |level| {
            level.seats_in_use as usize
        }),
        ("current_executing_requests", "Requests that run now.", |level| {
            level.running
        }),
        ("current_inqueue_requests", "Requests that wait now.", |level| {
            level.waiting
        }),
    ];
    for (name, help, value) in levels {
        head(page, &format!("apiserver_flowcontrol_{name}"), "gauge", help);
        for level in &figures.levels {
            let labels = format!("priority_level=\"{}\"", level.name);
            let _ = writeln!(page, "apiserver_flowcontrol_{name}{{{labels}}} {}", value(level));
        }
    }
    const DISPATCHED: &str = "apiserver_flowcontrol_dispatched_requests_total";
    head(page, DISPATCHED, "counter", "Requests that got their seats.");
    for flow in &figures.flows {
        let _ = writeln!(page, "{DISPATCHED}{{{}}} {}", flow_labels(flow), flow.dispatched);
    }
    const REJECTED: &str = "apiserver_flowcontrol_rejected_requests_total";
    head(page, REJECTED, "counter", "Requests that were rejected.");
    for flow in &figures.flows {
        for (reason, count) in flow.rejected.iter().filter(|(_, count)| *count > 0) {
            let labels = flow_labels(flow);
            let _ = writeln!(page, "{REJECTED}{{{labels},reason=\"{reason}\"}} {count}");
        }
    }
}

fn flow_labels(flow: &FlowFigures) -> String {
    format!(
        "flow_schema=\"{}\",priority_level=\"{}\"",
        flow.schema, flow.level
    )
}

fn gauge(page: &mut String, name: &str, help: &str, value: i64) {
    head(page, name, "gauge", help);
    let _ = writeln!(page, "{name} {value}");
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let metrics = Metrics::default();
        metrics.answered(Labels::default(), 404, Duration::from_millis(30));
        metrics.answered(Labels::default(), 404, Duration::from_millis(1));
        let page = metrics.page(3, &Figures::default(), None);
        assert!(page.contains("apiserver_longrunning_requests 3\n"), "{page}");
        assert!(page.contains("apiserver_request_total{code=\"404\","), "{page}");
        assert!(page.contains("le=\"0.005\"} 1\n"), "{page}");
        assert!(page.contains("le=\"+Inf\"} 2\n"), "{page}");
    }
}
