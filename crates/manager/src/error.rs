//! Errors of a manager.

use std::io;
use std::time::Duration;

use watchkeeper_runtime::controller::BoxError;
use watchkeeper_runtime::leader::LeaderOptionsError;

use crate::webhook::WebhookError;

/// The reason a manager did not start, or did not end regularly.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// An address is in use or not available.
    #[error("cannot listen for {what} on {address}")]
    Listen {
        /// `metrics`, `probes` or `webhooks`.
        what: &'static str,
        /// The address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The options of the leader election are invalid.
    #[error("invalid leader election options")]
    Election(#[from] LeaderOptionsError),
    /// Webhooks cannot be served.
    #[error("cannot serve webhooks")]
    Webhooks(#[from] WebhookError),
    /// A runnable has failed.
    #[error("{name} failed")]
    Failed {
        /// Its name.
        name: String,
        /// The error.
        source: BoxError,
    },
    /// A runnable has panicked.
    #[error("{name} panicked: {message}")]
    Panicked {
        /// Its name.
        name: String,
        /// The panic message.
        message: String,
    },
    /// The lease could not be renewed in time, or another process holds it.
    #[error("the lease {lease} was lost")]
    LeaseLost {
        /// Its name.
        lease: String,
    },
    /// The shutdown exceeded its deadline; the rest was dropped.
    #[error("{unfinished} did not end within {deadline:?}")]
    Deadline {
        /// The runnables that were still running.
        unfinished: String,
        /// The deadline.
        deadline: Duration,
    },
    /// A second signal came during the shutdown; the rest was dropped.
    #[error("a second signal came while {unfinished} still ran")]
    Interrupted {
        /// The runnables that were still running.
        unfinished: String,
    },
}
