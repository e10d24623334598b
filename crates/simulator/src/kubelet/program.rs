//! The simulated program of a container: its run time and exit code.
//!
//! Nothing is executed. Annotations on the pod define what its containers do; without them, simple commands are
//! understood: `sleep 30`, `true`, `false`, `sh -c "sleep 5; exit 3"`. Everything else runs until it is stopped if
//! the pod restarts always, and otherwise succeeds after a while.

use std::time::Duration;

use serde_json::Value;

use super::containers::Role;
use crate::item::Item;

/// The exit code of a pod's containers. A pod that would run forever also ends with it, and is restarted.
pub(super) const EXIT_CODE: &str = "simulator.watchkeeper/exit-code";
/// The run time in seconds of a pod that runs to completion.
pub(super) const RUN_SECONDS: &str = "simulator.watchkeeper/run-seconds";

/// The program of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Forever,
    Ends { after: Duration, code: i64 },
}

impl Program {
    /// The program of a container; `usual` is the default run time of its pod.
    pub(super) fn of(pod: &Item, container: &Value, role: Role, usual: Duration) -> Self {
        let stated = (role == Role::Main).then(|| annotated(pod, usual)).flatten();
        if let Some(program) = stated.or_else(|| understood(container)) {
            return program;
        }
        let is_kept_running = !matches!(pod.text("/spec/restartPolicy"), "Never" | "OnFailure");
        match role {
            Role::Init => Self::Ends {
                after: Duration::ZERO,
                code: 0,
            },
            Role::Main if !is_kept_running => Self::Ends {
                after: usual,
                code: 0,
            },
            Role::Main | Role::Sidecar => Self::Forever,
        }
    }
}

fn annotated(pod: &Item, usual: Duration) -> Option<Program> {
    let is_kept_running = !matches!(pod.text("/spec/restartPolicy"), "Never" | "OnFailure");
    let code = pod.annotation(EXIT_CODE);
    let seconds = pod.annotation(RUN_SECONDS).and_then(|text| text.parse().ok());
    let after = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    if code.is_none() && (after.is_none() || is_kept_running) {
        return None;
    }
    Some(Program::Ends {
        after: after.unwrap_or(usual),
        code: code.and_then(|code| code.parse().ok()).unwrap_or_default(),
    })
}

/// The program of a simple command.
fn understood(container: &Value) -> Option<Program> {
    let words = |name: &str| {
        container[name]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    };
    let command: Vec<&str> = words("command").chain(words("args")).collect();
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    match command.as_slice() {
        [shell, "-c", script] if matches!(name(shell).as_str(), "sh" | "bash" | "ash") => run_script(script),
        [first, rest @ ..] => run_command(&name(first), rest),
        [] => None,
    }
}

/// The program of a script of simple commands; `None` if one is not simple.
fn run_script(script: &str) -> Option<Program> {
    let (mut after, mut code) = (Duration::ZERO, 0);
    let script = script.replace("&&", ";");
    for line in script
        .split([';', '\n'])
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["echo" | "date" | "set", ..] => {}
            ["exit", status] => {
                code = status.parse().ok()?;
                return Some(Program::Ends { after, code });
            }
            [first, rest @ ..] => match run_command(first.rsplit('/').next().unwrap_or_default(), rest)? {
                Program::Forever => return Some(Program::Forever),
                Program::Ends {
                    after: more,
                    code: last,
                } => (after, code) = (after + more, last),
            },
            [] => {}
        }
    }
    Some(Program::Ends { after, code })
}

fn run_command(name: &str, arguments: &[&str]) -> Option<Program> {
    let ends = |seconds: f64, code: i64| {
        let after = Duration::try_from_secs_f64(seconds).ok()?;
        Some(Program::Ends { after, code })
    };
    match (name, arguments) {
        ("true", []) => ends(0.0, 0),
        ("false", []) => ends(0.0, 1),
        ("pause", []) | ("sleep", ["infinity" | "inf"]) => Some(Program::Forever),
        ("sleep", [time]) => {
            let (number, unit) = match time.find(|letter: char| letter.is_ascii_alphabetic()) {
                Some(place) => time.split_at(place),
                None => (*time, "s"),
            };
            let factor = match unit {
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86400.0,
                _ => return None,
            };
            ends(number.parse::<f64>().ok()? * factor, 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(command: &[&str], wanted: Option<(u64, i64)>) {
        let program = understood(&json!({"command": command}));
        let found = program.map(|program| match program {
            Program::Forever => (u64::MAX, 0),
            Program::Ends { after, code } => (after.as_secs(), code),
        });
        assert_eq!(found, wanted, "{command:?}");
    }

    #[test]
    fn a_plain_command_is_understood() {
        check(&["sleep", "300"], Some((300, 0)));
        check(&["/bin/sleep", "2m"], Some((120, 0)));
        check(&["sleep", "infinity"], Some((u64::MAX, 0)));
        check(&["/bin/false"], Some((0, 1)));
        check(&["sh", "-c", "echo hello; sleep 5 && exit 3"], Some((5, 3)));
        check(&["/bin/sh", "-c", "sleep 1\nsleep 2"], Some((3, 0)));
        check(&["sh", "-c", "while true; do date; sleep 1; done"], None);
        check(&["nginx", "-g", "daemon off;"], None);
        check(&[], None);
    }
}
