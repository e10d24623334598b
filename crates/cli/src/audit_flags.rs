//! The audit log, as the flags of kube-apiserver say it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use watchkeeper_server::{AuditLogOptions, AuditOptions, Builder};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The destination and policy of an audit log.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Audit log")]
pub(crate) struct AuditFlags {
    /// Write audit events to this file, as lines of JSON; - is standard output
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,

    /// The audit.k8s.io/v1 Policy that says what is logged
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,

    /// Rotate the log before it has more megabytes; 0 is never
    #[arg(long, value_name = "MEGABYTES", default_value_t = 100)]
    audit_log_maxsize: u64,

    /// Delete rotated logs that are older; 0 is never
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u32,

    /// Keep that many rotated logs; 0 is all
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    audit_log_maxbackup: usize,
}

impl AuditFlags {
    /// Tells a server what the flags say.
    pub(crate) fn tell(&self, server: Builder) -> Builder {
        let Some((path, policy_file)) = self.audit_log_path.clone().zip(self.audit_policy_file.clone())
        else {
            return server;
        };
        server.audit(AuditOptions {
            policy_file,
            log: AuditLogOptions {
                path,
                max_bytes: Some(self.audit_log_maxsize.saturating_mul(1 << 20)).filter(|bytes| *bytes > 0),
                max_age: Some(DAY * self.audit_log_maxage).filter(|age| !age.is_zero()),
                max_backups: Some(self.audit_log_maxbackup).filter(|count| *count > 0),
            },
        })
    }
}
