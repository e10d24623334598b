//! Why a manager has ended otherwise than it was asked to.

use std::io;
use std::time::Duration;

use watchkeeper_runtime::controller::BoxError;
use watchkeeper_runtime::leader::LeaderOptionsError;

use crate::webhook::WebhookError;

/// Why a manager did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// An address is taken or not ours.
    #[error("cannot listen for {what} on {address}")]
    Listen {
        /// `metrics`, `probes` or `webhooks`.
        what: &'static str,
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The election cannot be taken part in.
    #[error("cannot take part in the election")]
    Election(#[from] LeaderOptionsError),
    /// Webhooks cannot be served.
    #[error("cannot serve webhooks")]
    Webhooks(#[from] WebhookError),
    /// Something that ran has failed.
    #[error("{name} failed")]
    Failed {
        /// Its name.
        name: String,
        /// Why.
        source: BoxError,
    },
    /// Something that ran has panicked.
    #[error("{name} panicked: {message}")]
    Panicked {
        /// Its name.
        name: String,
        /// What the panic said.
        message: String,
    },
    /// The lease could not be renewed in time, or another has taken it.
    #[error("the lease {lease} was lost")]
    LeaseLost {
        /// Its name.
        lease: String,
    },
    /// The shutdown took too long; what still ran was dropped.
    #[error("{unfinished} did not end within {deadline:?}")]
    Deadline {
        /// What still ran.
        unfinished: String,
        /// The time it had.
        deadline: Duration,
    },
    /// A second signal came during the shutdown; what still ran was dropped.
    #[error("a second signal came while {unfinished} still ran")]
    Interrupted {
        /// What still ran.
        unfinished: String,
    },
}
