//! The in-flight limits of kube-apiserver's flags.

use clap::Args;
use watchkeeper_server::Builder;

/// Limits for servers with many clients.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct RequestFlags {
    /// In-flight limit, together with --max-mutating-requests-inflight; priority levels share the sum
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: u32,

    /// See --max-requests-inflight; the sum counts
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: u32,
}

impl RequestFlags {
    /// Applies the flags to a server.
    pub(crate) fn tell(&self, server: Builder) -> Builder {
        server
            .max_requests_inflight(self.max_requests_inflight as usize)
            .max_mutating_requests_inflight(self.max_mutating_requests_inflight as usize)
    }
}
