//! What can go wrong between a store and etcd, and whether the request may have been done all the same.

use std::sync::Arc;

use crate::Revision;

/// Why a call has no answer. Every text names the member.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Nothing of the request left this process.
    #[error("etcd at {endpoint}: {why}")]
    NotSent { endpoint: Arc<str>, why: String },
    /// The request was sent, or may have been, and what became of it is not known.
    #[error("etcd at {endpoint}: {why}")]
    Lost { endpoint: Arc<str>, why: String },
    /// etcd has answered that it will not, or could not.
    #[error("etcd at {endpoint}: {message}")]
    Status {
        endpoint: Arc<str>,
        code: Code,
        message: String,
    },
    /// What answers is not the etcd that is followed. It may have done what it was asked.
    #[error(
        "etcd is at revision {found} of cluster {found_cluster:x}, not at {known} of cluster {known_cluster:x} or later: \
         it was put back to an earlier state, or is another one; start this server anew"
    )]
    OtherEtcd {
        known_cluster: u64,
        known: Revision,
        found_cluster: u64,
        found: Revision,
    },
}

/// The codes of gRPC, as far as they differ in what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The revision is compacted, or has not happened.
    OutOfRange,
    /// A member that cannot do anything now, for want of a leader for instance; another one may.
    Unavailable,
    /// A refusal that comes before anything is done.
    Refused,
    /// Anything else: it may have been done.
    Open,
}

impl Code {
    pub(crate) fn from_number(number: &str) -> Self {
        match number {
            "11" => Self::OutOfRange,
            "14" => Self::Unavailable,
            // Bad argument, not found, exists, no right, no room, precondition, not implemented, not authenticated.
            "3" | "5" | "6" | "7" | "8" | "9" | "12" | "16" => Self::Refused,
            _ => Self::Open,
        }
    }
}

impl CallError {
    /// Whether etcd certainly did nothing.
    pub(crate) fn is_certain(&self) -> bool {
        match self {
            Self::Status { code, .. } => {
                matches!(code, Code::OutOfRange | Code::Refused) || self.is_untried()
            }
            _ => self.is_untried(),
        }
    }

    /// Whether nobody has begun to do it, so that it may be sent again: it never left, or a member without a leader, which
    /// looks for one before anything else, has sent it back.
    pub(crate) fn is_untried(&self) -> bool {
        match self {
            Self::NotSent { .. } => true,
            Self::Lost { .. } | Self::OtherEtcd { .. } => false,
            Self::Status { message, .. } => message == "etcdserver: no leader",
        }
    }

    /// Whether another member, or the same one a moment later, may do better.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::NotSent { .. } | Self::Lost { .. } => true,
            Self::Status { code, .. } => *code == Code::Unavailable,
            Self::OtherEtcd { .. } => false,
        }
    }

    /// Whether the history asked for is gone.
    pub(crate) fn is_compacted(&self) -> bool {
        self.is_out_of_range("compacted")
    }

    /// Whether the revision asked for has not happened.
    pub(crate) fn is_future(&self) -> bool {
        self.is_out_of_range("future")
    }

    fn is_out_of_range(&self, word: &str) -> bool {
        // One code for both; the texts are etcd's own and tested by everybody's clients.
        matches!(self, Self::Status { code: Code::OutOfRange, message, .. } if message.contains(word))
    }
}
