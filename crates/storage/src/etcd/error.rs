//! Errors of calls to etcd, and whether the request may have been applied.

use std::sync::Arc;

use crate::Revision;

/// The error of a call. Every text names the member.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The request was not sent.
    #[error("etcd at {endpoint}: {why}")]
    NotSent { endpoint: Arc<str>, why: String },
    /// The request was or may have been sent, and its outcome is unknown.
    #[error("etcd at {endpoint}: {why}")]
    Lost { endpoint: Arc<str>, why: String },
    /// etcd answered with an error.
    #[error("etcd at {endpoint}: {message}")]
    Status {
        endpoint: Arc<str>,
        code: Code,
        message: String,
    },
    /// The answer is from another etcd than the one followed. It may have applied the request.
    #[error(
        "etcd is at revision {found} of cluster {found_cluster:x}, not at {known} of cluster {known_cluster:x} or later: \
         it was restored to an earlier state, or is another cluster; restart this server"
    )]
    OtherEtcd {
        known_cluster: u64,
        known: Revision,
        found_cluster: u64,
        found: Revision,
    },
}

/// The gRPC codes that need different handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The revision is compacted, or does not exist yet.
    OutOfRange,
    /// The member is temporarily unavailable, for example without a leader; another one may work.
    Unavailable,
    /// Refused before anything was applied.
    Refused,
    /// Any other code: the request may have been applied.
    Open,
}

impl Code {
    pub(crate) fn from_number(number: &str) -> Self {
        match number {
            "11" => Self::OutOfRange,
            "14" => Self::Unavailable,
            // Invalid argument, not found, already exists, permission denied, resource exhausted, failed
            // precondition, unimplemented, unauthenticated.
            "3" | "5" | "6" | "7" | "8" | "9" | "12" | "16" => Self::Refused,
            _ => Self::Open,
        }
    }
}

impl CallError {
    /// True if etcd certainly applied nothing.
    pub(crate) fn is_certain(&self) -> bool {
        match self {
            Self::Status { code, .. } => {
                matches!(code, Code::OutOfRange | Code::Refused) || self.is_untried()
            }
            _ => self.is_untried(),
        }
    }

    /// True if no member has started the request, so that it may be sent again: it was never sent, or a member without
    /// a leader, which checks for one first, rejected it.
    pub(crate) fn is_untried(&self) -> bool {
        match self {
            Self::NotSent { .. } => true,
            Self::Lost { .. } | Self::OtherEtcd { .. } => false,
            Self::Status { message, .. } => message == "etcdserver: no leader",
        }
    }

    /// True for a transient error: another member, or a retry, may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::NotSent { .. } | Self::Lost { .. } => true,
            Self::Status { code, .. } => *code == Code::Unavailable,
            Self::OtherEtcd { .. } => false,
        }
    }

    /// True if the requested history was compacted.
    pub(crate) fn is_compacted(&self) -> bool {
        self.is_out_of_range("compacted")
    }

    /// True if the requested revision does not exist yet.
    pub(crate) fn is_future(&self) -> bool {
        self.is_out_of_range("future")
    }

    fn is_out_of_range(&self, word: &str) -> bool {
        // Both have the same code. etcd's texts tell them apart; other clients depend on them too.
        matches!(self, Self::Status { code: Code::OutOfRange, message, .. } if message.contains(word))
    }
}
