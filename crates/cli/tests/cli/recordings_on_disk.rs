//! Recordings written and served by the program as a process: a full disk, and a client of a replay.
#![cfg(unix)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::process::{Harbour, PROGRAM, Running};
use watchkeeper_recording::{Entry, Moment, Recording, What};

fn recording(harbour: &Harbour) -> (PathBuf, Recording) {
    let path = harbour.directory.path().join("maps.rec");
    let recording = Recording::open(&path).unwrap();
    (path, recording)
}

fn entries(harbour: &Harbour) -> Vec<Entry> {
    let (_, recording) = recording(harbour);
    recording.entries().map(|entry| entry.unwrap()).collect()
}

fn names(harbour: &Harbour) -> Vec<String> {
    let (_, recording) = recording(harbour);
    let state = recording.state_at(&Moment::End).unwrap();
    state
        .objects()
        .map(|(_, object)| object.name().to_owned())
        .collect()
}

/// Text that cannot be compressed much.
fn noise(length: usize) -> String {
    let mut seed = 7_u64;
    let letter = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (seed >> 33) as u8 % 26)
    };
    (0..length).map(letter).collect()
}

#[test]
fn a_full_disk_ends_the_recording_and_keeps_what_was_flushed() {
    let harbour = Harbour::new();
    harbour.create_config_map("first");
    harbour.run("record configmaps -n default -o maps.rec --count 1");
    let before = std::fs::read(recording(&harbour).0).unwrap();
    let large = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: large}}, data: {{noise: {}}}}}",
        noise(100_000)
    );
    std::fs::write(harbour.directory.path().join("large.yaml"), large).unwrap();
    harbour.run("create -f large.yaml");
    // The shell limits the file size, and the program gets an error in the middle of a block.
    let mut command = Command::new("bash");
    command
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 16; exec \"$0\" record configmaps -n default -o maps.rec",
            PROGRAM,
        ])
        .current_dir(harbour.directory.path())
        .env("KUBECONFIG", "kubeconfig");
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let expected =
        "error: cannot write recording maps.rec; everything flushed before is kept: File too large";
    assert!(err.contains(expected), "{err}");
    assert_eq!(output.status.code(), Some(1));
    let after = std::fs::read(recording(&harbour).0).unwrap();
    assert_eq!(after, before, "the torn block was cut off");

    harbour.run("record configmaps -n default -o maps.rec --count 1");
    assert_eq!(names(&harbour), ["first", "large"]);
    let gaps = entries(&harbour).into_iter();
    assert_eq!(gaps.filter(|entry| matches!(entry.what, What::Gap(_))).count(), 0);
}

#[test]
fn all_kinds_are_recorded_without_warnings_about_some() {
    let harbour = Harbour::new();
    let said = |line: &str| String::from_utf8(harbour.command(line).output().unwrap().stderr).unwrap();
    let all = said("record -o all.rec --count 1");
    assert!(
        all.contains("end with Ctrl-C") && !all.contains("Warning"),
        "{all}"
    );
    let deprecated = said("record endpoints -o endpoints.rec --count 1");
    assert!(
        deprecated.contains("Warning: v1 Endpoints is deprecated"),
        "{deprecated}"
    );
    let nowhere = said("record endpoints -o missing/all.rec");
    assert!(
        nowhere.contains("error: cannot write recording missing/all.rec"),
        "{nowhere}"
    );
}

#[test]
fn a_recording_is_stepped_through_with_enter_while_a_client_reads_it() {
    let harbour = Harbour::new();
    harbour.create_config_map("a");
    harbour.run("record configmaps -n default -o maps.rec --count 1");
    for name in ["b", "c", "d"] {
        harbour.create_config_map(name);
    }
    harbour.run("record configmaps -n default -o maps.rec --count 3");
    let versions: Vec<u64> = entries(&harbour)
        .iter()
        .filter(|entry| entry.object().is_some())
        .filter_map(|entry| entry.revision)
        .collect();
    let [first, b, c, _] = versions[..] else {
        panic!("{versions:?}")
    };
    let line = format!(
        "replay maps.rec --at {first} --speed step --until {c} --listen 127.0.0.1:0 --kubeconfig replayed"
    );
    let errors = std::fs::File::create(harbour.directory.path().join("errors")).unwrap();
    let mut replay = Running::of(harbour.command(&line).stderr(errors).stdin(Stdio::piped()));
    assert!(
        replay
            .line()
            .starts_with(&format!("maps.rec at version {first}, "))
    );
    assert!(replay.line().starts_with("replaying at https://127.0.0.1:"));
    let list = || harbour.run("get cm -n default -o name --kubeconfig replayed");
    assert_eq!(list(), "configmap/a\n");
    for (name, version, expected) in [
        ("b", b, "configmap/a\nconfigmap/b\n"),
        ("c", c, "configmap/a\nconfigmap/b\nconfigmap/c\n"),
    ] {
        replay.type_line("");
        let line = replay.line();
        assert!(
            line.ends_with(&format!("  version {version}  configmaps/default/{name}")),
            "{line}"
        );
        assert_eq!(list(), expected);
    }
    replay.type_line("");
    while !harbour.errors().contains("The recording has been played") {
        std::thread::yield_now();
    }
    harbour.run("delete cm a -n default --kubeconfig replayed");
    assert_eq!(list(), "configmap/b\nconfigmap/c\n", "it can be written to");
    replay.interrupt();
    assert!(replay.ended().success());
}
