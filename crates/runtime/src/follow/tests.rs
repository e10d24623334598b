//! The guarantees of a position, against a small server that keeps its whole history.

mod history;
mod model;

use std::path::{Path, PathBuf};

use self::history::History;
use super::*;
use crate::store::tests::show;

fn show_followed(followed: &Followed) -> String {
    let what = match &followed.what {
        Ok(FollowEvent::Added(object)) => format!("+{}", show(object)),
        Ok(FollowEvent::Modified(object)) => format!("~{}", show(object)),
        Ok(FollowEvent::Deleted(gone)) => {
            let unseen = if gone.last.is_none() { "?" } else { "" };
            format!("-{}@{}#{}{unseen}", gone.key, gone.version, gone.uid)
        }
        Ok(FollowEvent::Synced(version)) => format!("synced {version}"),
        Ok(FollowEvent::Bookmark(version)) => format!("at {version}"),
        Ok(FollowEvent::Restarted(restart)) => {
            let version = |version: &Option<ResourceVersion>| match version {
                Some(version) => version.to_string(),
                None => "?".to_owned(),
            };
            let deletes = if restart.knows_deletes {
                ""
            } else {
                ", deletes unknown"
            };
            let (from, to) = (version(&restart.from), version(&restart.to));
            format!("restart {from}→{to}{deletes}: {}", restart.reason)
        }
        Err(failure) => format!("! {failure}"),
    };
    format!("{}: {what}", followed.stream)
}

async fn take(follow: &mut Follow, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let followed = follow.next().await.unwrap().unwrap();
        seen.push(show_followed(&followed));
    }
    seen
}

/// Starts a follower of one source, as `pods`, with this position file.
fn program(path: &Path, source: &Arc<History>) -> Follow {
    let mut follow = Follow::from_position(Position::open(path).unwrap());
    follow.add("pods", Arc::new(source.clone()), Config::paged());
    follow
}

/// A directory, and the path of a new file in it.
fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("position");
    (directory, path)
}

#[tokio::test(start_paused = true)]
async fn a_restarted_program_sees_what_it_missed_deletes_included() {
    let (_directory, path) = file();
    let source = History::new(&["+a/x@1", "+a/y@2"]);
    let mut first = program(&path, &source);
    let seen = take(&mut first, 3).await;
    assert_eq!(seen, ["pods: +a/x@1", "pods: +a/y@2", "pods: synced 2"]);
    first.finish().unwrap();
    for line in ["-a/x@3", "+a/z@4", "~a/y@5"] {
        source.write(line);
    }
    let mut second = program(&path, &source);
    assert_eq!(
        take(&mut second, 3).await,
        ["pods: -a/x@3#x", "pods: +a/z@4", "pods: ~a/y@5"]
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_gap_exactly_the_differences_are_told() {
    let (_directory, path) = file();
    let source = History::new(&["+a/gone@1", "+a/kept@2", "+a/made-anew@3#one", "+a/modified@4"]);
    let mut first = program(&path, &source);
    take(&mut first, 5).await;
    first.finish().unwrap();
    for line in [
        "-a/gone@5",
        "~a/modified@6",
        "-a/made-anew@7#one",
        "+a/made-anew@8#two",
        "+a/added@9",
        "+a/came@10",
        "-a/came@11",
    ] {
        source.write(line);
    }
    source.compact(11);
    let mut second = program(&path, &source);
    let expected = [
        "pods: ! too old resource version: 4 (11)",
        "pods: restart 4→11: too old resource version: 4 (11)",
        "pods: -a/gone@1#x?",
        "pods: +a/added@9",
        "pods: -a/made-anew@3#one?",
        "pods: +a/made-anew@8",
        "pods: ~a/modified@6",
        "pods: synced 11",
    ];
    assert_eq!(take(&mut second, expected.len()).await, expected);
    second.finish().unwrap();
    source.write("~a/added@12");
    let mut third = program(&path, &source);
    assert_eq!(
        take(&mut third, 1).await,
        ["pods: ~a/added@12"],
        "and then it goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_program_that_stops_in_the_midst_of_a_list_is_told_the_rest() {
    let (_directory, path) = file();
    let source = History::new(&["+a/x@1", "+a/y@2", "+a/z@3"]);
    let mut first = program(&path, &source);
    assert_eq!(take(&mut first, 2).await, ["pods: +a/x@1", "pods: +a/y@2"]);
    first.finish().unwrap();
    source.write("-a/x@4");
    let mut second = program(&path, &source);
    let expected = [
        "pods: restart ?→4: the last list was interrupted",
        "pods: -a/x@1#x?",
        "pods: +a/z@3",
        "pods: synced 4",
    ];
    assert_eq!(take(&mut second, 4).await, expected);
}

#[tokio::test(start_paused = true)]
async fn more_differences_than_may_wait_are_told_before_the_list_ends() {
    let (_directory, path) = file();
    let source = History::new(&["+a/gone@1"]);
    let mut first = program(&path, &source);
    take(&mut first, 2).await;
    first.finish().unwrap();
    source.write("-a/gone@2");
    for version in 3..=MAX_WAITING + 5 {
        source.write(&format!("+a/{version:05}@{version}"));
    }
    source.compact(MAX_WAITING as u64);
    let mut second = program(&path, &source);
    let seen = take(&mut second, MAX_WAITING + 7).await;
    assert_eq!(seen[1], "pods: restart 1→?: too old resource version: 1 (10000)");
    assert_eq!(seen[2], "pods: +a/00003@3");
    let end = ["pods: +a/10005@10005", "pods: -a/gone@1#x?", "pods: synced 10005"];
    assert_eq!(seen[seen.len() - 3..], end);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_not_handled_comes_again() {
    let (_directory, path) = file();
    let source = History::new(&["+a/x@1"]);
    let mut first = program(&path, &source);
    take(&mut first, 2).await;
    first.finish().unwrap();
    source.write("+a/y@2");
    source.write("+a/z@3");
    let mut second = program(&path, &source);
    assert_eq!(take(&mut second, 2).await, ["pods: +a/y@2", "pods: +a/z@3"]);
    // The program crashes while it handles z; only y was handled and, since time has passed, saved.
    tokio::time::advance(SAVE_EVERY).await;
    second.handling = None;
    second.finish().unwrap();
    let mut third = program(&path, &source);
    assert_eq!(take(&mut third, 1).await, ["pods: +a/z@3"]);
}

#[tokio::test(start_paused = true)]
async fn a_position_of_the_first_format_is_read_and_what_it_cannot_know_is_said() {
    let (_directory, path) = file();
    std::fs::write(&path, r#"{"pods": "1000"}"#).unwrap();
    let source = History::new(&["+a/x@1000", "~a/x@1001", "+a/y@1080817"]);
    let mut first = program(&path, &source);
    assert_eq!(
        take(&mut first, 2).await,
        ["pods: ~a/x@1001", "pods: +a/y@1080817"],
        "types as on the wire"
    );
    drop(first);
    source.compact(1_080_816);
    let expected = [
        "pods: ! too old resource version: 1000 (1080816)",
        "pods: restart 1000→1080817, deletes unknown: too old resource version: 1000 (1080816)",
        "pods: +a/x@1001",
        "pods: +a/y@1080817",
        "pods: synced 1080817",
    ];
    assert_eq!(take(&mut program(&path, &source), 5).await, expected);
}

#[tokio::test(start_paused = true)]
async fn several_streams_share_one_file() {
    let (_directory, path) = file();
    let (pods, services) = (History::new(&["+a/pod@1"]), History::new(&["+a/service@5"]));
    let start = || {
        let mut follow = program(&path, &pods);
        follow.add("services", Arc::new(services.clone()), Config::paged());
        follow
    };
    let mut first = start();
    take(&mut first, 4).await;
    first.finish().unwrap();
    pods.write("-a/pod@7");
    services.write("+a/other@8");
    let mut seen = take(&mut start(), 2).await;
    seen.sort();
    assert_eq!(seen, ["pods: -a/pod@7#x", "services: +a/other@8"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_file_a_relist_is_told_as_its_differences_too() {
    let source = History::new(&["+a/x@1", "+a/y@2"]);
    let mut follow = Follow::new();
    follow.add("pods", Arc::new(source.clone()), Config::paged());
    take(&mut follow, 3).await;
    source.write("-a/x@3");
    source.write("~a/y@4");
    source.compact(4);
    let expected = [
        "pods: restart 2→4: too old resource version: 2 (4)",
        "pods: -a/x@1#x?",
        "pods: ~a/y@4",
        "pods: synced 4",
    ];
    assert_eq!(take(&mut follow, 4).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_removed_stream_is_silent_and_begins_from_nothing_when_it_comes_back() {
    let (_directory, path) = file();
    let (pods, services) = (History::new(&["+a/pod@1"]), History::new(&["+a/service@5"]));
    let mut follow = program(&path, &pods);
    follow.add("services", Arc::new(services.clone()), Config::paged());
    take(&mut follow, 4).await;
    follow.remove("pods");
    pods.write("-a/pod@7");
    services.write("+a/other@8");
    assert_eq!(take(&mut follow, 1).await, ["services: +a/other@8"]);
    pods.write("+a/new@9");
    follow.add("pods", Arc::new(pods.clone()), Config::paged());
    assert_eq!(take(&mut follow, 2).await, ["pods: +a/new@9", "pods: synced 9"]);
    follow.remove("pods");
    follow.finish().unwrap();
    let mut second = program(&path, &pods);
    assert_eq!(take(&mut second, 2).await, ["pods: +a/new@9", "pods: synced 9"]);
}
