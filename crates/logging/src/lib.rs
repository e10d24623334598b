//! Kubernetes' logging, klog, over `tracing`: its line format, its flags, its V-levels.
//!
//! ```text
//! tracing event ──▶ Verbosity (‑v, ‑‑vmodule; changed while running) ──▶ Layer (names and values of the spans)
//!               ──▶ Format (klog, JSON, console) ──▶ Sink (standard error, one file, a file per severity)
//! ```
//!
//! A program calls [`init`] once. Everything else is plain `tracing`: libraries log with its macros, and another
//! backend is another `tracing` subscriber. Nothing is global before `init`: a [`KlogLayer`] can be built over any
//! writer and any clock.
//!
//! ```
//! use watchkeeper_logging::{ObjectRef, Options, vlog};
//!
//! let verbosity = watchkeeper_logging::init(&Options::default())?; // with the feature `clap`, klog's flags
//! let pod = ObjectRef::new("kube-system", "coredns");
//! tracing::info!(pod = %pod, "Pod is ready"); // I1223 15:37:39.838107    8220 main.rs:4] "Pod is ready" pod="kube-system/coredns"
//! vlog!(4, pod = %pod, "Probe answered"); // only with -v=4 or more
//! verbosity.set_v(4); // from now on
//! # Ok::<(), watchkeeper_logging::InitError>(())
//! ```
//!
//! Severities and levels: `error!` is E and `warn!` is W, always printed. `info!` is I, always printed. [`vlog!`] is
//! I at the level it names. A bare `debug!` counts as level 4, a bare `trace!` as level 10.
//!
//! The fields of a span are added to every message within it; a field `logger` names it. See [`named`].

mod clock;
mod format;
mod layer;
mod macros;
mod object_ref;
mod options;
mod quote;
mod severity;
mod sink;
mod trace_location;
mod value;
mod verbosity;
mod vmodule;

pub use clock::Clock;
pub use format::{Format, Formatter, LevelStyle, Record, TimeStyle};
pub use layer::KlogLayer;
pub use object_ref::ObjectRef;
pub use options::{LOG_FILE_MAX_SIZE_MB, Options};
pub use severity::{ParseSeverityError, Severity};
pub use sink::{Discard, Sink, SinkError, Writer};
pub use trace_location::{ParseTraceLocationError, TraceLocation};
pub use value::{Bare, Value, bare};
pub use verbosity::Verbosity;
pub use vmodule::{ParseVmoduleError, Vmodule};

#[doc(hidden)]
pub use tracing as __tracing;

use tracing_subscriber::layer::SubscriberExt as _;

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A log file cannot be opened.
    #[error("cannot open the log")]
    Sink(#[from] SinkError),
    /// Another subscriber is already installed.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Sends every event of this process to the sinks of the options. Returns the handle to change levels later.
///
/// Call it once, in `main`. A library must not call it.
pub fn init(options: &Options) -> Result<Verbosity, InitError> {
    let verbosity = options.verbosity();
    let layer = layer(options, &verbosity)?;
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| InitError::AlreadySet)?;
    if options.logtostderr && (options.log_file.is_some() || options.log_dir.is_some()) {
        // As in klog; but there it is silent, and the file is missed later.
        tracing::warn!("--log-file and --log-dir have no effect unless --logtostderr=false");
    }
    Ok(verbosity)
}

/// The layer [`init`] installs, to be combined with other layers.
pub fn layer<S>(
    options: &Options,
    verbosity: &Verbosity,
) -> Result<impl tracing_subscriber::Layer<S> + use<S>, SinkError>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    use tracing_subscriber::Layer as _;
    let layer = KlogLayer::new(options.formatter(), sink::open(options)?)
        .with_backtrace_at(options.log_backtrace_at.clone());
    Ok(layer.with_filter(verbosity.clone()))
}

/// A span whose messages have a name, as with `logger.WithName`: `"foo: message"`. Nested names are joined with a
/// slash.
///
/// ```
/// let _guard = watchkeeper_logging::named("informer").entered();
/// tracing::info!(kind = "Pod", "Synced"); // "informer: Synced" kind="Pod"
/// ```
pub fn named(name: &str) -> tracing::Span {
    tracing::info_span!("logger", logger = name)
}

/// Runs the program of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
