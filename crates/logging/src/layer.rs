//! A `tracing` layer that turns events into lines: the values of the spans, then those of the event.

use std::backtrace::Backtrace;

use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::clock::Clock;
use crate::format::{Formatter, Record};
use crate::severity::Severity;
use crate::sink::Sink;
use crate::trace_location::TraceLocation;
use crate::value::{Fields, Value};

/// Formats events and writes them to a sink. It prints everything; use [`Verbosity`](crate::Verbosity) to filter.
///
/// ```
/// use tracing_subscriber::prelude::*;
/// use watchkeeper_logging::{Formatter, KlogLayer, Verbosity, Writer};
///
/// let layer = KlogLayer::new(Formatter::default(), Writer::new(std::io::sink()));
/// let subscriber = tracing_subscriber::registry().with(layer.with_filter(Verbosity::default()));
/// tracing::subscriber::with_default(subscriber, || tracing::info!("hello"));
/// ```
pub struct KlogLayer {
    formatter: Formatter,
    sink: Box<dyn Sink>,
    clock: Clock,
    process: u32,
    backtrace_at: TraceLocation,
}

impl KlogLayer {
    /// Writes lines of this format to this sink.
    pub fn new(formatter: Formatter, sink: impl Sink + 'static) -> Self {
        Self {
            formatter,
            sink: Box::new(sink),
            clock: Clock::system(),
            process: std::process::id(),
            backtrace_at: TraceLocation::default(),
        }
    }

    /// Sets the clock.
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Adds a stack trace to the messages of one source line.
    pub fn with_backtrace_at(self, backtrace_at: TraceLocation) -> Self {
        Self { backtrace_at, ..self }
    }

    /// Sets the process id.
    pub fn with_process(self, process: u32) -> Self {
        Self { process, ..self }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for KlogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, record: &SpanRecord<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut carried = Carried::default();
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                carried.enter(fields);
            }
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let severity = severity(*metadata.level(), fields.fatal);
        carried.say(fields.values);
        let (file, number) = (metadata.file().unwrap_or("???"), metadata.line().unwrap_or(1));
        let mut line = self.formatter.line(&Record {
            time: &self.clock.now(),
            severity,
            process: self.process,
            file,
            line: number,
            logger: &carried.logger,
            message: &fields.message,
            values: &carried.values,
        });
        if self.backtrace_at.is_at(file, number) {
            // The user asked for the trace, whatever the environment says.
            line.push_str(&Backtrace::force_capture().to_string());
        }
        self.sink.write(severity, &line);
    }
}

fn severity(level: Level, fatal: bool) -> Severity {
    match level {
        _ if fatal => Severity::Fatal,
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        _ => Severity::Info,
    }
}

/// The values of the surrounding spans, the outermost first.
#[derive(Default)]
struct Carried {
    logger: String,
    values: Vec<(&'static str, Value)>,
}

impl Carried {
    fn enter(&mut self, span: &Fields) {
        if let Some(name) = &span.logger {
            if !self.logger.is_empty() {
                self.logger.push('/');
            }
            self.logger.push_str(name);
        }
        self.override_with(span.values.iter().cloned());
    }

    /// Appends the event's own values. A key that occurs twice is printed once, with the inner value.
    fn say(&mut self, values: Vec<(&'static str, Value)>) {
        let error_first = values.first().is_some_and(|(key, _)| *key == "err");
        self.override_with(values.into_iter());
        if error_first && let Some(at) = self.values.iter().position(|(key, _)| *key == "err") {
            self.values[..=at].rotate_right(1);
        }
    }

    fn override_with(&mut self, values: impl Iterator<Item = (&'static str, Value)>) {
        for (key, value) in values {
            self.values.retain(|(old, _)| *old != key);
            self.values.push((key, value));
        }
    }
}
