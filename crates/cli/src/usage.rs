//! Usage errors, with kubectl's texts and the nearest alternative.

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::USAGE;
use crate::session::{Look, Session};

/// Prints help if it was requested, else the usage error of a command: `get`, `rollout undo`.
pub(crate) fn report(error: &clap::Error, command: Option<&str>, session: &mut Session) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render();
            let written = match session.look {
                Look::Plain => write!(session.out, "{text}"),
                Look::Colour => write!(session.out, "{}", text.ansi()),
            };
            let _ = written.and_then(|()| session.out.flush());
            ExitCode::SUCCESS
        }
        // No command was given: help, but as a failure.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            session.err.line(error.to_string());
            ExitCode::FAILURE
        }
        _ => {
            session.err.line(explain(error, command));
            exit_code(command)
        }
    }
}

/// The exit code 1 of some commands is a verdict.
fn exit_code(command: Option<&str>) -> ExitCode {
    match command {
        Some("check" | "check-server") => USAGE.into(),
        _ => ExitCode::FAILURE,
    }
}

fn explain(error: &clap::Error, command: Option<&str>) -> String {
    match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_command(error),
        ErrorKind::MissingRequiredArgument => missing(error, command),
        ErrorKind::UnknownArgument => unknown_flag(error, command),
        ErrorKind::InvalidValue if first(error, ContextKind::InvalidValue).is_empty() => {
            let flag = first(error, ContextKind::InvalidArg);
            let flag = flag.split_whitespace().next().unwrap_or_default();
            format!("error: flag needs an argument: {flag}\n{}", see(command))
        }
        _ => plain(&error.to_string(), command),
    }
}

/// The end of clap's own texts.
const CLAP_HINT: &str = "\n\nFor more information, try '--help'.\n";

/// Rust's words for a number that is none.
const NO_NUMBER: [&str; 2] = [
    "invalid digit found in string",
    "cannot parse integer from empty string",
];

/// A text of clap, with the pointer to the help that all usage errors have.
fn plain(text: &str, command: Option<&str>) -> String {
    let text = NO_NUMBER.iter().fold(text.to_owned(), |text, words| {
        text.replace(words, "not a whole number")
    });
    match text.strip_suffix(CLAP_HINT) {
        Some(text) => format!("{text}\n{}", see(command)),
        None => text,
    }
}

/// kubectl's commands that this program does not have.
const ONLY_KUBECTL: [&str; 26] = [
    "alpha",
    "attach",
    "auth",
    "autoscale",
    "certificate",
    "cluster-info",
    "config",
    "cordon",
    "cp",
    "debug",
    "drain",
    "edit",
    "exec",
    "expose",
    "kuberc",
    "kustomize",
    "logs",
    "plugin",
    "port-forward",
    "proxy",
    "replace",
    "run",
    "set",
    "taint",
    "top",
    "uncordon",
];

/// The kinds that `kubectl create` makes from flags and this program does not.
const ONLY_KUBECTL_CREATES: [&str; 15] = [
    "clusterrole",
    "clusterrolebinding",
    "cronjob",
    "docker-registry",
    "ing",
    "ingress",
    "pdb",
    "poddisruptionbudget",
    "priorityclass",
    "quota",
    "role",
    "rolebinding",
    "service",
    "svc",
    "token",
];

/// The verbs of `kubectl rollout` that this program does not have.
const ONLY_KUBECTL_ROLLOUTS: [&str; 2] = ["pause", "resume"];

/// The words before an unknown one, as in `create secret`: nothing for a command itself.
fn parent(error: &clap::Error) -> String {
    let usage = error
        .get(ContextKind::Usage)
        .map(ToString::to_string)
        .unwrap_or_default();
    let words = usage
        .split_whitespace()
        .skip_while(|word| *word != "watchkeeper")
        .skip(1);
    let words: Vec<_> = words
        .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .collect();
    words.join(" ")
}

fn unknown_command(error: &clap::Error) -> String {
    let command = first(error, ContextKind::InvalidSubcommand);
    let parent = parent(error);
    let full = |command: &str| format!("{parent} {command}").trim().to_owned();
    let only_kubectl: &[&str] = match parent.as_str() {
        "" => &ONLY_KUBECTL,
        "create" | "create secret" => &ONLY_KUBECTL_CREATES,
        "rollout" => &ONLY_KUBECTL_ROLLOUTS,
        _ => &[],
    };
    if only_kubectl.contains(&command.as_str()) {
        let full = full(&command);
        return format!(
            "error: {full:?} is a command of kubectl that watchkeeper does not have; kubectl works with the same \
             kubeconfig and cluster:\n\tkubectl {full} --help"
        );
    }
    let program = format!("watchkeeper {parent}").trim().to_owned();
    let mut text = format!("error: unknown command {command:?} for {program:?}");
    let near = all(error, ContextKind::SuggestedSubcommand);
    let near: Vec<_> = near
        .into_iter()
        .filter(|known| is_near(&command, known))
        .collect();
    match near.is_empty() {
        true if parent.is_empty() => text.push_str("\n'watchkeeper help' lists the commands."),
        true => text.push_str(&format!("\n'{program} --help' lists what there is.")),
        false => text.push_str("\n\nDid you mean this?"),
    }
    for command in near {
        text.push_str(&format!("\n\t{command}"));
    }
    text
}

/// kubectl's rule: two letters apart at most, or the beginning of the command. clap alone would offer `backup` for
/// `abc`, and commands that are hidden.
fn is_near(typed: &str, known: &str) -> bool {
    if known.starts_with('_') {
        return false;
    }
    let (typed, known) = (typed.to_lowercase(), known.to_lowercase());
    known.starts_with(&typed) || strsim::levenshtein(&typed, &known) <= 2
}

fn unknown_flag(error: &clap::Error, command: Option<&str>) -> String {
    let flag = first(error, ContextKind::InvalidArg);
    let mut text = match flag.strip_prefix('-') {
        Some(letter) if !letter.starts_with('-') => {
            format!("error: unknown shorthand flag: '{letter}' in {flag}")
        }
        Some(_) => format!("error: unknown flag: {flag}"),
        None => format!("error: unexpected argument: {flag}"),
    };
    if let Some(near) = all(error, ContextKind::SuggestedArg).first() {
        text.push_str(&format!("\n\nDid you mean this?\n\t{near}"));
    }
    text.push('\n');
    text + &see(command)
}

/// A pointer to the help.
fn see(command: Option<&str>) -> String {
    let command = command.map(|command| format!("{command} ")).unwrap_or_default();
    format!("See 'watchkeeper {command}--help' for usage.")
}

/// `--filename <FILE>...` is called `"filename"`, and an argument by its value name.
fn missing(error: &clap::Error, command: Option<&str>) -> String {
    let names = all(error, ContextKind::InvalidArg);
    let quoted: Vec<_> = names
        .iter()
        .map(|name| name.split_whitespace().next().unwrap_or_default())
        .map(|name| format!("\"{}\"", name.trim_matches(['-', '<', '>', '.', '[', ']'])))
        .collect();
    let what = match names.iter().all(|name| name.starts_with('-')) {
        true => "required flag(s)",
        false => "required argument(s)",
    };
    format!("error: {what} {} not set\n{}", quoted.join(", "), see(command))
}

fn first(error: &clap::Error, kind: ContextKind) -> String {
    all(error, kind).into_iter().next().unwrap_or_default()
}

fn all(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}
