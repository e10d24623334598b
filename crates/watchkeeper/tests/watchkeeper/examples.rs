//! Every example runs and prints the text in `printed/`.
//!
//! The programs are built by `cargo test` beside this one. They run on an embedded cluster; `.ci/examples` runs them
//! on any other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::expect_file;
use regex::Regex;

/// One test for each run of an example: its arguments, and its exit code if it is not 0.
macro_rules! examples {
    ($($example:ident $(: $($run:ident $arguments:tt $(=> $code:literal)?),+)?;)*) => {
        const EXAMPLES: &[&str] = &[$(stringify!($example)),*];
        $(mod $example {
            examples!(@runs $example $(: $($run $arguments $(=> $code)?),+)?);
        })*
    };
    (@runs $example:ident) => {
        #[test]
        fn plain() {
            super::check(stringify!($example), "", &[], 0);
        }
    };
    (@runs $example:ident: $($run:ident $arguments:tt $(=> $code:literal)?),+) => {
        $(
            #[test]
            fn $run() {
                let code = 0 $(+ $code)?;
                super::check(stringify!($example), concat!("_", stringify!($run)), &$arguments, code);
            }
        )+
    };
}

examples! {
    apply_tool: shown [], no_file ["apply"] => 1, no_command ["abc"] => 1;
    bookmarks;
    clients;
    conflict;
    contextual_log;
    controller;
    create_from_yaml;
    crud;
    custom_kind;
    delaying_queue;
    factory_options;
    indexer;
    informer: verbose ["-v=2"];
    klog_flags: severities [] => 255, help ["-h"];
    list_and_watch;
    lister;
    log_backends;
    log_flags: console [], json ["--log-format=json", "--log-level=6"];
    log_levels: default [], two ["-v=2"], minus_one ["-v=-1"];
    pages;
    patches;
    plain_queue;
    position;
    queue;
    queue_shutdown;
    rate_limited_queue;
    retry_watcher;
    store;
    structured_log;
    timeouts;
    watch;
    watch_filters;
    watch_from_version;
}

#[test]
fn every_example_is_run() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let there: BTreeSet<String> = sources
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let run: BTreeSet<String> = EXAMPLES.iter().map(ToString::to_string).collect();
    assert_eq!(there, run);
}

/// Examples in which several tasks print: the order of their lines is arbitrary.
const UNORDERED: &[&str] = &["controller", "queue"];

/// Examples that watch a pod, whose status may be written any number of times: equal lines count once.
const REPEATING: &[&str] = &["informer", "list_and_watch", "watch"];

/// Runs an example and compares its output and log.
fn check(example: &str, run_name: &str, arguments: &[&str], code: i32) {
    let output = run(example, arguments);
    let mut printed = masked(&output.stdout) + &masked(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    if UNORDERED.contains(&example) {
        let mut lines: Vec<&str> = printed.split_inclusive('\n').collect();
        lines.sort_unstable();
        printed = lines.concat();
    }
    if REPEATING.contains(&example) {
        let mut lines: Vec<&str> = printed.split_inclusive('\n').collect();
        lines.dedup();
        printed = lines.concat();
    }
    expect_file![format!("printed/{example}{run_name}.txt")].assert_eq(&printed);
}

fn run(example: &str, arguments: &[&str]) -> Output {
    let ran = Command::new(program(example))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        // Help is wrapped if another crate of the build enables clap's feature for it.
        .env("COLUMNS", "1000")
        .output();
    ran.unwrap_or_else(|error| panic!("{example} cannot be run: {error}"))
}

/// The binary of an example, which must be newer than its source.
fn program(example: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let examples = deps.parent().and_then(Path::parent).unwrap().join("examples");
    let program = examples.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{example}.rs"));
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    assert!(
        modified(&program) >= modified(&source),
        "{example} is older than its source: run `cargo build --package watchkeeper --examples`"
    );
    program
}

/// The text without the parts that vary.
fn masked(bytes: &[u8]) -> String {
    let masks = [
        (r"sandbox-[a-z0-9]{5}", "sandbox-_"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:_"),
        (r"(ResourceVersion: +)\d+", "${1}_"),
        // Connections end at any time after the example is over.
        (r"(?m)^.*listener\.rs.*\n", ""),
        (r"(?m)^([IWEF])\d{4} \S+ +\d+ ([\w.]+):\d+\]", "$1 $2:_]"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d\d", "<time>"),
        (r"\w+/(\w+\.rs):\d+", "$1:_"),
        (r#"time="[^"]*""#, "time=_"),
        (r"(?i)in \d+ milliseconds", "in _ milliseconds"),
        (r#"(?i)platform(": ?|=)"[^"]*""#, "platform$1\"_\""),
        (r#"goVersion="[^"]*""#, "goVersion=\"_\""),
        (r"Used 0\.\d\d seconds", "Used 0.0_ seconds"),
        (
            r#"(commit|Commit|Date|Version|version|platform)": "[^"]*""#,
            "$1\": \"_\"",
        ),
        (r#"(configmaps|secrets)": "\d+""#, "$1\": \"_\""),
        (r#"(?i)v1\.\d+\.\d+[^\s"]*"#, "v1._"),
    ];
    let text = String::from_utf8_lossy(bytes).into_owned();
    masks.into_iter().fold(text, |text, (pattern, mask)| {
        Regex::new(pattern).unwrap().replace_all(&text, mask).into_owned()
    })
}
