//! Pods on simulated nodes. No process runs in them: their log lists what happened to them, and exec, attach and
//! port-forward are rejected.

use serde_json::Value;
use watchkeeper_meta::{LogOptions, Status, Time};

/// The prefix of a simulated node's container runtime version.
const RUNTIME: &str = "watchkeeper://";

/// True if a node is simulated.
pub(super) fn is_simulated(node: &Value) -> bool {
    let runtime = node["status"]["nodeInfo"]["containerRuntimeVersion"].as_str();
    runtime.is_some_and(|runtime| runtime.starts_with(RUNTIME))
}

/// The error for exec, attach, port-forward and proxy.
pub(super) fn refusal(pod: &str, subresource: &str) -> Status {
    let what = match subresource {
        "exec" => "no command can be executed in it",
        "attach" => "there is nothing to attach to",
        "portforward" => "nothing listens on its ports",
        _ => "nothing answers requests",
    };
    Status::bad_request(format!(
        "pod {pod} is simulated: no process runs in it, so {what}"
    ))
}

/// The life cycle of a container, as log lines.
pub(super) fn log(pod: &Value, options: &LogOptions) -> Result<String, Status> {
    let name = text(&pod["metadata"]["name"]);
    let status = status_of(pod, &options.container);
    let container = match options.container.as_str() {
        "" => text(&pod["spec"]["containers"][0]["name"]),
        container => container,
    };
    let state = &status["state"];
    let last = &status["lastState"]["terminated"];
    let mut lines = Vec::new();
    if options.previous && !last.is_object() {
        let words = format!("previous terminated container {container:?} in pod {name:?} not found");
        return Err(Status::bad_request(words));
    }
    if !options.previous && state["waiting"].is_object() && !last.is_object() {
        let reason = text(&state["waiting"]["reason"]);
        let words = format!("container {container:?} in pod {name:?} is waiting to start: {reason}");
        return Err(Status::bad_request(words));
    }
    let place = format!("{}/{name}", text(&pod["metadata"]["namespace"]));
    lines.push((
        time(&pod["status"]["startTime"]),
        format!(
            "pod {place} on {} is simulated: no process runs in it, and this is not what it would print",
            text(&pod["spec"]["nodeName"])
        ),
    ));
    let image = text(&status["image"]);
    let mut tell = |run: &Value| {
        lines.push((
            time(&run["startedAt"]),
            format!("container {container} started, image {image}"),
        ));
        if let Some(code) = run["exitCode"].as_i64() {
            let reason = text(&run["reason"]);
            let words = format!("container {container} ended with exit code {code} ({reason})");
            lines.push((time(&run["finishedAt"]), words));
        }
    };
    match options.previous {
        true => tell(last),
        false if state["running"].is_object() => tell(&state["running"]),
        false if state["terminated"].is_object() => tell(&state["terminated"]),
        false => tell(last),
    }
    Ok(shown(lines, options))
}

/// The requested lines.
fn shown(mut lines: Vec<(Option<Time>, String)>, options: &LogOptions) -> String {
    let ago = options.since_seconds.map(|seconds| {
        let mut since = Time::from(watchkeeper_clock::now());
        since.seconds -= seconds;
        since
    });
    if let Some(since) = options.since_time.or(ago) {
        lines.retain(|(time, _)| time.is_none_or(|time| time >= since));
    }
    let most = options.tail_lines.and_then(|most| usize::try_from(most).ok());
    let first = lines.len().saturating_sub(most.unwrap_or(usize::MAX));
    let mut log = String::new();
    for (time, words) in &lines[first..] {
        if options.timestamps {
            log += &time.map(|time| time.to_rfc3339() + " ").unwrap_or_default();
        }
        log += words;
        log.push('\n');
    }
    if let Some(limit) = options.limit_bytes.and_then(|limit| usize::try_from(limit).ok()) {
        log.truncate(log.floor_char_boundary(limit));
    }
    log
}

fn status_of<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let lists = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    let mut statuses = lists
        .into_iter()
        .flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let found = statuses.find(|status| container.is_empty() || status["name"] == container);
    found.unwrap_or(&Value::Null)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn time(value: &Value) -> Option<Time> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        let run = |code: i64| {
            json!({"terminated": {
                "exitCode": code, "reason": "Error",
                "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:05Z",
            }})
        };
        json!({
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"nodeName": "node-1", "containers": [{"name": "c"}, {"name": "new"}]},
            "status": {"startTime": "2026-01-01T00:00:00Z", "containerStatuses": [
                {"name": "c", "image": "web:1", "lastState": run(3), "state": {"running": {"startedAt": "2026-01-01T00:00:20Z"}}},
                {"name": "new", "state": {"waiting": {"reason": "ContainerCreating"}}},
            ]},
        })
    }

    #[track_caller]
    fn check(options: LogOptions, wanted: Result<&[&str], &str>) {
        match (log(&pod(), &options), wanted) {
            (Ok(log), Ok(wanted)) => assert_eq!(log.lines().collect::<Vec<_>>(), wanted),
            (Err(status), Err(wanted)) => assert_eq!(status.message, wanted),
            (log, wanted) => panic!("{log:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn a_log_lists_what_happened_to_a_container() {
        let of = |container: &str| LogOptions {
            container: container.to_owned(),
            ..LogOptions::default()
        };
        let first = "pod default/web on node-1 is simulated: no process runs in it, and this is not what it would print";
        check(of("c"), Ok(&[first, "container c started, image web:1"]));
        let previous = LogOptions {
            previous: true,
            ..of("c")
        };
        let ended = "container c ended with exit code 3 (Error)";
        check(previous, Ok(&[first, "container c started, image web:1", ended]));
        let last = LogOptions {
            tail_lines: Some(1),
            timestamps: true,
            ..of("c")
        };
        check(
            last,
            Ok(&["2026-01-01T00:00:20Z container c started, image web:1"]),
        );
        check(
            of("new"),
            Err("container \"new\" in pod \"web\" is waiting to start: ContainerCreating"),
        );
        let previous = LogOptions {
            previous: true,
            ..of("new")
        };
        check(
            previous,
            Err("previous terminated container \"new\" in pod \"web\" not found"),
        );
    }
}
