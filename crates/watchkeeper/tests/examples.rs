//! Every example runs, and prints what it printed before: the text is in `printed/`.
//!
//! The programs are the ones that `cargo test` builds beside this one. They run on an embedded cluster; `.ci/examples`
//! runs them on any other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::expect_file;
use regex::Regex;

/// One test for each example.
macro_rules! examples {
    ($($example:ident)*) => {
        const EXAMPLES: &[&str] = &[$(stringify!($example)),*];
        $(
            #[test]
            fn $example() {
                check(stringify!($example), &[]);
            }
        )*
    };
}

examples! {
    clients
    conflict
    controller
    crud
    delaying_queue
    indexer
    informer
    list_and_watch
    lister
    pages
    patches
    plain_queue
    position
    queue
    queue_shutdown
    rate_limited_queue
    store
    timeouts
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

/// Examples in which several tasks print: each its lines, in no order.
const UNORDERED: &[&str] = &["position", "queue"];

/// Runs an example and compares what it prints.
fn check(example: &str, arguments: &[&str]) {
    let output = run(example, arguments);
    let mut printed = masked(&output.stdout);
    if UNORDERED.contains(&example) {
        let mut lines: Vec<&str> = printed.split_inclusive('\n').collect();
        lines.sort_unstable();
        printed = lines.concat();
    }
    assert!(output.status.success(), "{printed}{}", masked(&output.stderr));
    expect_file![format!("printed/{example}.txt")].assert_eq(&printed);
}

fn run(example: &str, arguments: &[&str]) -> Output {
    let ran = Command::new(program(example))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .output();
    ran.unwrap_or_else(|error| panic!("{example} cannot be run: {error}"))
}

/// The program of an example, which must be newer than its source.
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

/// The text without what is different each time.
fn masked(bytes: &[u8]) -> String {
    let masks = [
        (r"sandbox-[a-z0-9]{5}", "sandbox-_"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:_"),
        (r"ResourceVersion:  \d+", "ResourceVersion:  _"),
        (r"Used 0\.\d\d seconds", "Used 0.0_ seconds"),
        (
            r#"(commit|Commit|Date|Version|version|platform)": "[^"]*""#,
            "$1\": \"_\"",
        ),
        (r#"(configmaps|secrets)": "\d+""#, "$1\": \"_\""),
        (r"v1\.\d+\.\d+\S*", "v1._"),
    ];
    let text = String::from_utf8_lossy(bytes).into_owned();
    masks.into_iter().fold(text, |text, (pattern, mask)| {
        Regex::new(pattern).unwrap().replace_all(&text, mask).into_owned()
    })
}
