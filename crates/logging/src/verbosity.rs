//! Filters messages by `-v` and `--vmodule`, which can be changed at run time.
//!
//! `tracing` asks once per call site and caches the answer. A call site without its own level (`info!`, `debug!`) has
//! a constant answer; one of [`vlog!`](crate::vlog) is asked each time, but only if its `tracing` level is enabled. A
//! change of level invalidates the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::RwLock;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

use crate::vmodule::Vmodule;

/// The level of a plain `debug!`: the one client-go uses most.
const DEBUG_LEVEL: i32 = 4;
/// The level of a plain `trace!`: the highest level in use.
const TRACE_LEVEL: i32 = 10;
/// The highest level [`vlog!`](crate::vlog) logs as DEBUG.
const DEBUG_LAST: i32 = 5;

/// Verbose dependencies: their details are logged at level 10.
const TALKATIVE: [&str; 8] = [
    "h2",
    "hyper",
    "hyper_util",
    "mio",
    "rustls",
    "tokio",
    "tokio_util",
    "tower",
];

/// The levels. Clones are handles to the same levels.
#[derive(Clone, Debug)]
pub struct Verbosity(Arc<Levels>);

#[derive(Debug)]
struct Levels {
    v: AtomicI32,
    vmodule: RwLock<Vmodule>,
}

impl Verbosity {
    /// Starts with these levels.
    pub fn new(v: i32, vmodule: Vmodule) -> Self {
        Self(Arc::new(Levels {
            v: v.into(),
            vmodule: RwLock::new(vmodule),
        }))
    }

    /// The global level.
    pub fn v(&self) -> i32 {
        self.0.v.load(Ordering::Relaxed)
    }

    /// Sets the global level.
    pub fn set_v(&self, v: i32) {
        self.0.v.store(v, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    /// The levels by file.
    pub fn vmodule(&self) -> Vmodule {
        self.0.vmodule.read().clone()
    }

    /// Sets the levels by file.
    pub fn set_vmodule(&self, vmodule: Vmodule) {
        *self.0.vmodule.write() = vmodule;
        tracing::callsite::rebuild_interest_cache();
    }

    /// The level of one file: the global one, or its own if that is higher.
    fn level_of(&self, metadata: &Metadata<'_>) -> i32 {
        let (file, module) = (
            metadata.file().unwrap_or(""),
            metadata.module_path().unwrap_or(""),
        );
        let own = self.0.vmodule.read().level(file, module);
        self.v().max(own.unwrap_or(i32::MIN))
    }

    fn allows(&self, level: i32, metadata: &Metadata<'_>) -> bool {
        level <= self.v() || level <= self.level_of(metadata)
    }

    /// The answer for a call site, if it is the same for all its messages.
    fn decide(&self, metadata: &Metadata<'_>) -> Option<bool> {
        if metadata.is_event() && metadata.fields().field("v").is_some() {
            return None;
        }
        Some(match implied_level(metadata) {
            Some(level) => self.allows(level, metadata),
            None => true,
        })
    }
}

impl Default for Verbosity {
    fn default() -> Self {
        Self::new(0, Vmodule::default())
    }
}

/// The level of a call site that names none; `None` is always printed.
fn implied_level(metadata: &Metadata<'_>) -> Option<i32> {
    let krate = metadata.target().split("::").next().unwrap_or("");
    match *metadata.level() {
        Level::ERROR | Level::WARN | Level::INFO => None,
        _ if TALKATIVE.contains(&krate) => Some(TRACE_LEVEL),
        Level::DEBUG => Some(DEBUG_LEVEL),
        Level::TRACE => Some(TRACE_LEVEL),
    }
}

/// Records the level of an event and ignores its other fields.
#[derive(Default)]
struct NamedLevel(Option<i32>);

impl Visit for NamedLevel {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "v" {
            self.0 = i32::try_from(value).ok();
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "v" {
            self.0 = i32::try_from(value).ok();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl<S: tracing::Subscriber> Filter<S> for Verbosity {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.decide(metadata).unwrap_or(true)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.decide(metadata) {
            Some(true) => Interest::always(),
            Some(false) => Interest::never(),
            None => Interest::sometimes(),
        }
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if metadata.fields().field("v").is_none() {
            return true;
        }
        let mut named = NamedLevel::default();
        event.record(&mut named);
        // Warnings and errors are always printed.
        *metadata.level() <= Level::WARN || named.0.is_none_or(|level| self.allows(level, metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let highest = self.0.vmodule.read().highest().unwrap_or(i32::MIN).max(self.v());
        Some(match highest {
            ..=0 => LevelFilter::INFO,
            1..=DEBUG_LAST => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }
}
