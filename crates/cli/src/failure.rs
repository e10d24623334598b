//! Errors of commands, with kubectl's texts and a next step.

use std::fmt;
use std::io;

use watchkeeper_client::discovery::MapError;
use watchkeeper_client::{ConfigError, Error, ErrorKind};
use watchkeeper_meta::{Status, error_chain};

/// The exit code of a command that could not come to a verdict, if 1 is a verdict.
pub(crate) const USAGE: u8 = 2;

/// The reason a command, or one step of it, failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The cluster refused or did not answer. `doing` is a prefix: `error when deleting "demo.yaml"`.
    Cluster { error: Error, doing: Option<String> },
    /// The output cannot be written.
    Output(io::Error),
    /// Anything else, with its causes.
    Other(anyhow::Error),
    /// Several steps failed, in order.
    Several(Vec<Failure>),
    /// There is nothing to check: a path that does not exist, an unknown check. For commands whose exit code is a
    /// verdict.
    Usage(String),
    /// The comparison failed, for a command whose exit code is a verdict.
    Unjudged(Box<Failure>),
    /// The verdict was already printed.
    Judged,
}

impl Failure {
    pub(crate) fn other(error: impl Into<anyhow::Error>) -> Self {
        Self::Other(error.into())
    }

    /// A text of our own.
    pub(crate) fn text(text: impl fmt::Display) -> Self {
        Self::Other(anyhow::anyhow!("{text}"))
    }

    /// Adds the operation and its file.
    pub(crate) fn doing(self, what: &str, source: &str) -> Self {
        match self {
            Self::Cluster { error, doing: None } => Self::Cluster {
                error,
                doing: Some(format!("error when {what} {source:?}")),
            },
            other => other,
        }
    }

    /// No failure, one or several.
    pub(crate) fn all(mut failures: Vec<Self>) -> Result<(), Self> {
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(Self::Several(failures)),
        }
    }

    /// The same, from a command whose exit code is a verdict.
    pub(crate) fn into_usage(self) -> Self {
        match self {
            Self::Other(error) => Self::Usage(format!("{error:#}")),
            other => other,
        }
    }

    /// 1 as in kubectl; 2 from commands that use 1 for a verdict.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Unjudged(_) => USAGE,
            _ => 1,
        }
    }

    /// True if the output was closed.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// True if the object or the resource does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Cluster { error, .. } if error.is_not_found())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Cluster { error, doing: None }
    }
}

impl From<MapError> for Failure {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Discovery(error) => error.into(),
            MapError::NoResource {
                nearest: Some(ref nearest),
                ..
            } => Self::Other(anyhow::anyhow!("{error}; did you mean {nearest:?}?")),
            error => Self::Other(anyhow::anyhow!(
                "{error}; `watchkeeper api-resources` lists those it has"
            )),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let hint = match &error {
            ConfigError::Nothing { .. } => {
                "; start a cluster with `watchkeeper up`, or name a file with --kubeconfig"
            }
            _ => "",
        };
        let error = anyhow::Error::from(error);
        Self::Other(anyhow::anyhow!("{error:#}{hint}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster { error, doing } => f.write_str(&words(error, doing.as_deref())),
            Self::Output(error) => write!(f, "error: cannot write the output: {error}"),
            Self::Other(error) => write!(f, "error: {error:#}"),
            Self::Several(failures) => {
                let lines: Vec<_> = failures.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::Usage(text) => write!(f, "error: {text}"),
            Self::Unjudged(failure) => failure.fmt(f),
            Self::Judged => Ok(()),
        }
    }
}

fn words(error: &Error, doing: Option<&str>) -> String {
    if let Some(status) = error.status() {
        return status_words(status, doing);
    }
    let host = error.url().split('/').nth(2).unwrap_or_default();
    if error.is_connection_refused() {
        return format!(
            "The connection to the server {host} was refused - did you specify the right host or port?"
        );
    }
    let prefix = doing.map(|doing| format!("{doing}: ")).unwrap_or_default();
    match error.kind() {
        ErrorKind::Request(reason) => format!("error: {prefix}{reason}"),
        _ => {
            let reason = error_chain(error);
            let next = match reason.contains(BAD_CERTIFICATE) {
                true => UNTRUSTED,
                false => "",
            };
            format!("error: {prefix}{reason}{next}")
        }
    }
}

/// The server's message. Validation errors are listed under the kind and name of the object.
fn status_words(status: &Status, doing: Option<&str>) -> String {
    if status.is_invalid() {
        return invalid_words(status);
    }
    let prefix = doing.map(|doing| format!("{doing}: ")).unwrap_or_default();
    if status.is_unauthorized() {
        return format!(
            "error: {prefix}You must be logged in to the server ({}){UNAUTHORIZED}",
            status.message
        );
    }
    let next = if is_apply_conflict(status) {
        APPLY_CONFLICT
    } else {
        ""
    };
    match status.reason.to_string() {
        reason if reason.is_empty() => format!("Error from server: {prefix}{}{next}", status.message),
        reason => format!("Error from server ({reason}): {prefix}{}{next}", status.message),
    }
}

/// How rustls begins its errors about a server's certificate.
const BAD_CERTIFICATE: &str = "invalid peer certificate";

/// What to do about a server that is not the one of the kubeconfig.
const UNTRUSTED: &str = "\nThis kubeconfig does not trust the certificate of the server: it may be of another server, or of an \
                         earlier run of `watchkeeper up`.";

/// What to do about credentials that the server does not know.
const UNAUTHORIZED: &str = "\nThe server does not accept the credentials of this kubeconfig: they may have expired, or be \
                            those of another cluster.";

/// What to do about a field that another manager has.
const APPLY_CONFLICT: &str = "\nLeave these fields out of the manifest to let the others keep them, or take them with \
                              --force-conflicts.";

fn is_apply_conflict(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_conflict()
        && causes
            .into_iter()
            .any(|cause| cause.reason == "FieldManagerConflict")
}

/// The message repeats the causes, so it is shown only if there are none.
fn invalid_words(status: &Status) -> String {
    let details = status.details.as_deref().cloned().unwrap_or_default();
    let subject = match details.kind.is_empty() && details.name.is_empty() {
        true if details.causes.is_empty() => format!("The request is invalid: {}", status.message),
        true => "The request is invalid".to_owned(),
        false => format!("The {} {:?} is invalid", details.kind, details.name),
    };
    let mut faults: Vec<String> = Vec::new();
    for cause in &details.causes {
        let fault = format!("{}: {}", cause.field, cause.message);
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    match faults.as_slice() {
        [] => subject,
        [fault] => format!("{subject}: {fault}"),
        faults => format!("{subject}: \n* {}", faults.join("\n* ")),
    }
}
