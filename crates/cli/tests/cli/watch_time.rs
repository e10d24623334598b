//! Watches over time: bookmarks, and their time limits.

use std::time::Duration;

use crate::support::World;
use expect_test::{Expect, expect};
use tokio::time::Instant;
use watchkeeper_meta::Status;
use watchkeeper_server::{RequestMatch, Verb};

/// Longer than any of these watches: one that does not end fails the test.
const FOR_EVER: Duration = Duration::from_secs(60 * 60);

async fn with_config_map(name: &str) -> World {
    let world = World::new().await;
    create(&world, name).await;
    world
}

async fn create(world: &World, name: &str) {
    let manifest = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
    world.write("map.yaml", &manifest);
    assert_eq!(
        world.run("create -f @map.yaml").await,
        format!("configmap/{name} created\n")
    );
}

/// Runs a command that has to end by itself.
async fn run(world: &World, line: &str) -> String {
    let ended = tokio::time::timeout(FOR_EVER, world.run(line)).await;
    ended.expect("it goes on for ever")
}

/// Runs a command that has to end after this many seconds.
async fn check(world: &World, line: &str, seconds: u64, expected: Expect) {
    let begun = Instant::now();
    expected.assert_eq(&run(world, line).await);
    assert_eq!(begun.elapsed().as_secs(), seconds, "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_request_timeout_ends_get_w_without_a_word() {
    let world = with_config_map("a").await;
    check(
        &world,
        "get cm -w --request-timeout=2s",
        2,
        expect![[r#"
            NAME   DATA   AGE
            a      0      0s
        "#]],
    )
    .await;
    check(
        &world,
        "get cm a -o name -w --request-timeout=90",
        90,
        expect![[r#"
            configmap/a
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_begin_in_its_time_has_failed() {
    let world = with_config_map("a").await;
    let watches = RequestMatch::new(Verb::Watch, "configmaps");
    let refusal = Status::service_unavailable("the server is restarting");
    world
        .server
        .faults()
        .answer_next(watches, 1_000, refusal)
        .unwrap();
    check(
        &world,
        "get cm -o name -w --request-timeout=2s",
        2,
        expect![[r#"
            configmap/a
            stderr: Warning: the watch was interrupted: the server is restarting; it goes on when the server answers
            stderr: error: the watch did not begin within the time of --request-timeout
            exit 1
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_timeout_ends_watch_and_keeps_its_position() {
    let world = with_config_map("a").await;
    let watch = "watch cm --position @position --request-timeout=2s -o json";
    let begun = Instant::now();
    let screen = run(&world, watch).await;
    let lines = screen
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let told: Vec<_> = lines
        .map(|line| format!("{} {}", line["type"], line["name"]))
        .collect();
    assert_eq!(told, [r#""ADDED" "a""#, r#""SYNCED" null"#]);
    assert_eq!(begun.elapsed().as_secs(), 2);
    check(&world, watch, 2, expect![[""]]).await;
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_told_where_they_are_asked_for() {
    let world = with_config_map("a").await;
    let types = async |flags: &str| -> Vec<String> {
        let screen = run(
            &world,
            &format!("watch cm -o json --request-timeout=150s {flags}"),
        )
        .await;
        let lines = screen
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines
            .map(|line| line["type"].as_str().unwrap().to_owned())
            .collect()
    };
    // Changes of other resources advance a quiet watch.
    let elsewhere = async |namespace: &str| {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let manifest = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}");
        world.write("ns.yaml", &manifest);
        world.run("create -f @ns.yaml").await;
    };
    let (told, ()) = tokio::join!(types(""), elsewhere("one"));
    assert_eq!(told, ["ADDED", "SYNCED"]);
    let (told, ()) = tokio::join!(types("--bookmarks"), elsewhere("two"));
    assert_eq!(told, ["ADDED", "SYNCED", "BOOKMARK"]);
}

#[tokio::test(start_paused = true)]
async fn get_w_tells_ages_as_they_are_when_something_happens() {
    let world = with_config_map("old").await;
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(5 * 60)).await;
        create(&world, "new").await;
        world.run("label cm old app=web").await;
    };
    let (screen, ()) = tokio::join!(run(&world, "get cm -w --request-timeout=10m"), meanwhile);
    expect![[r#"
        NAME   DATA   AGE
        old    0      0s
        new    0      0s
        old    0      5m
    "#]]
    .assert_eq(&screen);
}

#[tokio::test(start_paused = true)]
async fn the_chunks_get_w_begins_with_are_one_table() {
    let world = with_config_map("a").await;
    create(&world, "b-with-a-long-name").await;
    check(
        &world,
        "get cm -w --chunk-size=1 --request-timeout=2s",
        2,
        expect![[r#"
            NAME                 DATA   AGE
            a                    0      0s
            b-with-a-long-name   0      0s
        "#]],
    )
    .await;
}
