//! `check-server` from the command line.

use crate::support::World;
use expect_test::{Expect, expect};
use watchkeeper_server::{Action, Flow, RequestMatch, Rule, Verb};

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&world.run(line).await);
}

#[tokio::test(start_paused = true)]
async fn the_embedded_server_passes_and_nothing_is_left_behind() {
    let world = World::new().await;
    check(
        &world,
        "check-server",
        expect![[r#"
        ordered               passed
        unique                passed
        gap-free              passed
        resumable             passed
        faithful              passed
        label-selector        passed
        field-selector        passed
        bookmarkable          passed
        bookmark-sent         passed
        streaming-list        passed
        expired               passed
        no-op                 passed
        list-latest           passed
        list-any              passed
        list-not-older-than   passed
        list-exact            passed
        list-future           passed
        pagination            passed

        18 passed, 0 failed, 0 skipped (seed 1)
    "#]],
    )
    .await;
    check(&world, "get configmaps -A -o name", expect![[r#""#]]).await;
}

#[tokio::test(start_paused = true)]
async fn checks_are_run_by_name_in_a_namespace_that_exists() {
    let world = World::new().await;
    check(
        &world,
        "check-server gap-free list-latest -n default --seed 7",
        expect![[r#"
            gap-free              passed
            list-latest           passed

            2 passed, 0 failed, 0 skipped (seed 7)
        "#]],
    )
    .await;
    check(
        &world,
        "get namespaces -o name",
        expect![[r#"
        namespace/default
        namespace/kube-node-lease
        namespace/kube-public
        namespace/kube-system
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_promise_is_told_with_what_was_seen() {
    let world = World::new().await;
    let watches = RequestMatch::new(Verb::Watch, "configmaps");
    let rule = Rule::new(watches, Action::Flow(Flow::Stalled));
    world.server.faults().inject(rule).unwrap();
    let screen = world
        .run("check-server gap-free list-latest -n default --patience 200ms")
        .await;
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines[0], "gap-free              failed");
    assert_eq!(lines[1], "    promised: a watch delivers every change");
    assert!(lines[2].starts_with("    seen:     ADDED "), "{screen}");
    assert!(lines[2].contains(" was never delivered"), "{screen}");
    assert_eq!(
        lines[3..],
        [
            "list-latest           passed",
            "",
            "1 passed, 1 failed, 0 skipped (seed 1)",
            "Again, that one alone: watchkeeper check-server gap-free --seed 1",
            "exit 1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn programs_read_json() {
    let world = World::new().await;
    let screen = world.run("check-server pagination -n default -o json").await;
    let mut report: serde_json::Value = serde_json::from_str(&screen).unwrap();
    assert!(report["findings"][0]["seconds"].take().is_f64());
    expect![[r#"
        {
          "findings": [
            {
              "check": "pagination",
              "outcome": "passed",
              "promise": "the pages of a list are one list, whatever is written between them",
              "seconds": null
            }
          ],
          "interrupted": false,
          "seed": 1
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&report).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_exist_is_no_verdict() {
    let world = World::new().await;
    check(&world, "check-server ordred", expect![[r#"
        stderr: error: invalid value 'ordred' for '[CHECK]...': there is no check "ordred"; `watchkeeper check-server --list` prints them
        stderr: See 'watchkeeper check-server --help' for usage.
        exit 2
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn the_checks_are_listed() {
    let world = World::new().await;
    check(&world, "check-server --list", expect![[r#"
        ordered               the events of a watch come in the order of their resourceVersions
        unique                a watch delivers no change twice, and none that its list shows already
        gap-free              a watch delivers every change
        resumable             a watch from a resourceVersion goes on with the next change, or answers 410
        faithful              an event has the type and shows the state of the change that caused it
        label-selector        lists and watches show what the label selector selects; an object that enters it is ADDED, one that leaves it is DELETED
        field-selector        lists and watches show what the field selector selects
        bookmarkable          at a bookmark everything up to its resourceVersion has been delivered
        bookmark-sent         a watch that allows bookmarks gets one before its timeout (not guaranteed by the API; kube-apiserver does it)
        streaming-list        sendInitialEvents begins with every object as ADDED, then a bookmark annotated k8s.io/initial-events-end, then changes
        expired               a resourceVersion that history does not reach back to is answered with 410
        no-op                 a write that changes nothing keeps the resourceVersion and is no event
        list-latest           a list without a resourceVersion shows every write that was answered before
        list-any              a list at resourceVersion 0 shows the objects as they were at its version
        list-not-older-than   a list with resourceVersionMatch NotOlderThan is not older
        list-exact            a list with resourceVersionMatch Exact shows the objects at that version
        list-future           a list that must not be older than a version of the future is refused
        pagination            the pages of a list are one list, whatever is written between them
    "#]]).await;
}
