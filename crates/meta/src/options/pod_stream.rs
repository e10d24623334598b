//! Options of the streaming subresources of pods: log, exec, attach, port-forward.

use super::query::{QueryParams, QueryWriter};
use crate::field_error::{FieldError, FieldErrors, FieldPath};
use crate::{GroupKind, Status, Time};

/// Options of a pod's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container; required if the pod has several.
    pub container: String,
    /// Keep the stream open and send new lines.
    pub follow: bool,
    /// The log of the container's previous run.
    pub previous: bool,
    /// Only lines of the last seconds; not with `since_time`.
    pub since_seconds: Option<i64>,
    /// Only lines since this time; not with `since_seconds`.
    pub since_time: Option<Time>,
    /// Prefix each line with its time.
    pub timestamps: bool,
    /// Only this many lines from the end.
    pub tail_lines: Option<i64>,
    /// Stop after this many bytes.
    pub limit_bytes: Option<i64>,
    /// Do not check the node's certificate.
    pub insecure_skip_tls_verify_backend: bool,
    /// `All`, `Stdout` or `Stderr`. Servers refuse it unless the feature gate `PodLogsQuerySplitStreams` is on.
    pub stream: Option<String>,
}

/// Options of an exec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// The command and its arguments; no shell is involved.
    pub command: Vec<String>,
    /// The container; if empty, the first one.
    pub container: String,
    /// Open the command's standard input.
    pub stdin: bool,
    /// Open its standard output.
    pub stdout: bool,
    /// Open its standard error.
    pub stderr: bool,
    /// Allocate a terminal.
    pub tty: bool,
}

/// Options of an attach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachOptions {
    /// The container; if empty, the first one.
    pub container: String,
    /// Open the process's standard input.
    pub stdin: bool,
    /// Open its standard output.
    pub stdout: bool,
    /// Open its standard error.
    pub stderr: bool,
    /// The process has a terminal.
    pub tty: bool,
}

/// Options of a port-forward.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortForwardOptions {
    /// The pod's ports; clients that open one stream per port leave them out.
    pub ports: Vec<u16>,
}

impl LogOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        let mut query = QueryWriter::default();
        query.push_text("container", &self.container);
        query.push_flag("follow", self.follow);
        query.push_flag(
            "insecureSkipTLSVerifyBackend",
            self.insecure_skip_tls_verify_backend,
        );
        query.push_some("limitBytes", self.limit_bytes);
        query.push_flag("previous", self.previous);
        query.push_some("sinceSeconds", self.since_seconds);
        query.push_some("sinceTime", self.since_time);
        query.push_some("stream", self.stream.as_deref());
        query.push_some("tailLines", self.tail_lines);
        query.push_flag("timestamps", self.timestamps);
        query.finish()
    }

    /// Reads and checks the options of a log request for the pod of that name.
    pub fn from_query(query: &str, pod: &str) -> Result<Self, Status> {
        let params = QueryParams::parse(query);
        let since_time = params.first("sinceTime").filter(|time| !time.is_empty());
        let options = Self {
            container: params.text("container").to_owned(),
            follow: params.flag("follow"),
            previous: params.flag("previous"),
            since_seconds: params.number("sinceSeconds")?,
            since_time: since_time
                .map(|time| {
                    time.parse::<Time>()
                        .map_err(|error| Status::bad_request(error.to_string()))
                })
                .transpose()?,
            timestamps: params.flag("timestamps"),
            tail_lines: params.number("tailLines")?,
            limit_bytes: params.number("limitBytes")?,
            insecure_skip_tls_verify_backend: params.flag("insecureSkipTLSVerifyBackend"),
            stream: params.first("stream").map(str::to_owned),
        };
        let errors = options.errors();
        match errors.is_empty() {
            true => Ok(options),
            false => Err(Status::invalid(
                &GroupKind::new("", "PodLogOptions"),
                pod,
                &errors,
            )),
        }
    }

    fn errors(&self) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let mut at_least = |name: &str, value: Option<i64>, least: i64, why: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                errors.push(FieldError::invalid(&FieldPath::new(name), value, why));
            }
        };
        at_least(
            "tailLines",
            self.tail_lines,
            0,
            "must be greater than or equal to 0",
        );
        at_least("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        match self.since_time {
            Some(_) if self.since_seconds.is_some() => {
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                errors.push(FieldError::forbidden(&FieldPath::new(""), why));
            }
            _ => at_least("sinceSeconds", self.since_seconds, 1, "must be greater than 0"),
        }
        // The feature gate that allows it is off by default.
        if self.stream.is_some() {
            errors.push(FieldError::forbidden(
                &FieldPath::new("stream"),
                "may not be specified",
            ));
        }
        errors
    }
}

impl ExecOptions {
    /// As client-go sends it: one parameter per word of the command.
    pub fn to_query(&self) -> String {
        let mut query = QueryWriter::default();
        for word in &self.command {
            query.push("command", word);
        }
        push_streams(
            &mut query,
            &self.container,
            [self.stderr, self.stdin, self.stdout, self.tty],
        );
        query.finish()
    }

    /// Reads a query.
    pub fn from_query(query: &str) -> Self {
        let params = QueryParams::parse(query);
        Self {
            command: params.all("command").map(str::to_owned).collect(),
            container: params.text("container").to_owned(),
            stdin: params.flag("stdin"),
            stdout: params.flag("stdout"),
            stderr: params.flag("stderr"),
            tty: params.flag("tty"),
        }
    }
}

impl AttachOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        let mut query = QueryWriter::default();
        push_streams(
            &mut query,
            &self.container,
            [self.stderr, self.stdin, self.stdout, self.tty],
        );
        query.finish()
    }

    /// Reads a query.
    pub fn from_query(query: &str) -> Self {
        let params = QueryParams::parse(query);
        Self {
            container: params.text("container").to_owned(),
            stdin: params.flag("stdin"),
            stdout: params.flag("stdout"),
            stderr: params.flag("stderr"),
            tty: params.flag("tty"),
        }
    }
}

impl PortForwardOptions {
    /// As client-go sends it.
    pub fn to_query(&self) -> String {
        let mut query = QueryWriter::default();
        for port in &self.ports {
            query.push("ports", &port.to_string());
        }
        query.finish()
    }

    /// Reads a query; ports may be repeated or comma-separated.
    pub fn from_query(query: &str) -> Result<Self, Status> {
        let params = QueryParams::parse(query);
        let words = params.all("ports").flat_map(|ports| ports.split(','));
        let port = |word: &str| {
            let port = word.parse::<u16>().ok().filter(|port| *port > 0);
            port.ok_or_else(|| Status::bad_request(format!("unable to parse {word} as a port")))
        };
        Ok(Self {
            ports: words.map(port).collect::<Result<_, _>>()?,
        })
    }
}

fn push_streams(query: &mut QueryWriter, container: &str, [stderr, stdin, stdout, tty]: [bool; 4]) {
    query.push_text("container", container);
    query.push_flag("stderr", stderr);
    query.push_flag("stdin", stdin);
    query.push_flag("stdout", stdout);
    query.push_flag("tty", tty);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_those_of_client_go() {
        let exec = ExecOptions {
            command: vec!["sh".into(), "-c".into(), "echo a&b".into()],
            container: "c".into(),
            stdin: true,
            stdout: true,
            stderr: false,
            tty: true,
        };
        assert_eq!(
            exec.to_query(),
            "command=sh&command=-c&command=echo+a%26b&container=c&stdin=true&stdout=true&tty=true"
        );
        assert_eq!(ExecOptions::from_query(&exec.to_query()), exec);
        let log = LogOptions {
            follow: true,
            since_time: Some("2020-01-01T00:00:00Z".parse().unwrap()),
            tail_lines: Some(10),
            ..Default::default()
        };
        assert_eq!(
            log.to_query(),
            "follow=true&sinceTime=2020-01-01T00%3A00%3A00Z&tailLines=10"
        );
        assert_eq!(LogOptions::from_query(&log.to_query(), "p").unwrap(), log);
        let forward = PortForwardOptions { ports: vec![80, 443] };
        assert_eq!(
            PortForwardOptions::from_query(&forward.to_query()).unwrap(),
            forward
        );
        assert_eq!(PortForwardOptions::from_query("ports=80,443").unwrap(), forward);
    }

    #[test]
    fn logs_are_refused_in_kubernetes_words() {
        for (query, code, message) in [
            (
                "tailLines=-1",
                422,
                r#"PodLogOptions "b" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0"#,
            ),
            (
                "tailLines=x",
                400,
                r#"strconv.ParseInt: parsing "x": invalid syntax"#,
            ),
            (
                "sinceSeconds=1&sinceTime=2020-01-01T00%3A00%3A00Z",
                422,
                r#"PodLogOptions "b" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"#,
            ),
            (
                "sinceSeconds=0&sinceTime=2020-01-01T00%3A00%3A00Z",
                422,
                r#"PodLogOptions "b" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"#,
            ),
            (
                "stream=Stdout&limitBytes=0",
                422,
                r#"PodLogOptions "b" is invalid: [limitBytes: Invalid value: 0: must be greater than 0, stream: Forbidden: may not be specified]"#,
            ),
        ] {
            let status = LogOptions::from_query(query, "b").unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (code, message));
        }
    }
}
