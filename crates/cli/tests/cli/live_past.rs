//! `history`, `diff` and `bisect` without a recording: the recent history of the cluster.

use expect_test::{Expect, expect};

use crate::support::World;

/// A sky that was blue, red and green, and is labelled. Returns its versions.
async fn sky() -> (World, Vec<u64>) {
    let world = World::new().await;
    let mut versions = Vec::new();
    for colour in ["blue", "red", "green"] {
        let map = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: sky}}, data: {{colour: {colour}}}}}"
        );
        world.write("sky.yaml", &map);
        world.run("apply -f @sky.yaml").await;
        versions.push(version(&world).await);
    }
    (world, versions)
}

async fn version(world: &World) -> u64 {
    let version = world
        .run("get cm sky -o jsonpath={.metadata.resourceVersion}")
        .await;
    version.parse().unwrap()
}

/// Versions differ from run to run: V1, V2 and so on stand for those of the sky, V for others.
async fn check(world: &World, versions: &[u64], line: &str, expected: Expect) {
    let mut screen = world.run(line).await;
    for (index, version) in versions.iter().enumerate() {
        screen = screen.replace(&format!("version {version}"), &format!("version V{}", index + 1));
    }
    let word = |word: &str| match word.trim_end_matches([';', '.']).parse::<u64>() {
        Ok(number) if number > 9 => word.replace(&number.to_string(), "V"),
        // One more if a second has passed, which managed fields tell.
        _ if word == "(1" || word == "(2" => "(N".to_owned(),
        _ if word.starts_with("cli-") => "cli".to_owned(),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n";
    expected.assert_eq(&screen.lines().map(line).collect::<String>());
}

#[tokio::test]
async fn history_of_a_live_object_is_told_from_its_creation() {
    let (world, versions) = sky().await;
    check(
        &world,
        &versions,
        "history cm sky",
        expect![[r#"
            ADDED     configmap/sky in default  version V1  by watchkeeper (Apply)
            MODIFIED  configmap/sky in default  version V2  by watchkeeper (Apply)
                data.colour: "blue" → "red"
                (N more: managed fields, versions, heartbeats)
            MODIFIED  configmap/sky in default  version V3  by watchkeeper (Apply)
                data.colour: "red" → "green"
                (N more: managed fields, versions, heartbeats)
        "#]],
    )
    .await;
    world.run("delete cm sky").await;
    let screen = world.run("history cm sky -o json").await;
    let words: Vec<_> = screen
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .map(|line| line["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(words, ["ADDED", "MODIFIED", "MODIFIED", "DELETED"], "{screen}");
}

#[tokio::test]
async fn what_a_cluster_has_forgotten_is_said() {
    let (world, versions) = sky().await;
    world.compact().await;
    world.run("label cm sky seen=yes").await;
    let versions = [versions, vec![version(&world).await]].concat();
    check(
        &world,
        &versions,
        "history cm sky",
        expect![[r#"
            LISTED    configmap/sky in default  version V3  by watchkeeper (Apply)
            MODIFIED  configmap/sky in default  version V4  by cli (Update)
                + metadata.labels: {"seen":"yes"}
                (N more: managed fields, versions, heartbeats)
            stderr: The cluster's history starts at version V3; `watchkeeper record` keeps everything from now on.
        "#]],
    )
    .await;
    check(
        &world,
        &versions,
        &format!("diff --live cm -n default --from {}", versions[0]),
        expect![[r#"
            stderr: error: version V1 has expired: the cluster's history starts at version V3
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        &versions,
        "diff --live cm -n default",
        expect![[r#"
            MODIFIED  configmap/sky in default  version V4  by cli (Update)
                + metadata.labels: {"seen":"yes"}
                (N more: managed fields, versions, heartbeats)
            stderr: The cluster's history starts at version V3; `watchkeeper record` keeps everything from now on.
        "#]],
    )
    .await;
    check(
        &world,
        &versions,
        "history cm other",
        expect![[r#"
            stderr: The cluster's history starts at version V3; `watchkeeper record` keeps everything from now on.
            stderr: error: the cluster's recent history has no configmap/other
            exit 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn two_versions_of_a_live_cluster_are_compared() {
    let (world, versions) = sky().await;
    check(
        &world,
        &versions,
        &format!(
            "diff --live cm -n default --from {} --to {}",
            versions[0], versions[1]
        ),
        expect![[r#"
            MODIFIED  configmap/sky in default  version V2  by watchkeeper (Apply)
                data.colour: "blue" → "red"
                (N more: managed fields, versions, heartbeats)
        "#]],
    )
    .await;
    check(
        &world,
        &versions,
        &format!("diff --live cm sky --from {}", versions[0] - 1),
        expect![[r#"
            ADDED     configmap/sky in default  version V3  by watchkeeper (Apply)
        "#]],
    )
    .await;
    check(
        &world,
        &versions,
        "diff --live cm --from 2026-01-01T00:00:00Z",
        expect![[r#"
            stderr: error: the history of a cluster has versions, not times: name a version, or a recording
            exit 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_version_that_does_not_exist_yet_is_refused_at_once() {
    let (world, versions) = sky().await;
    for line in [
        "diff --live cm -n default --from 100000",
        "diff --live cm -n default --to 100000",
        "get cm --at 100000",
        "get cm -o name --at 100000",
    ] {
        check(
            &world,
            &versions,
            line,
            expect![[r#"
                stderr: error: version V does not exist yet: the cluster is at version V3
                exit 1
            "#]],
        )
        .await;
    }
}

#[tokio::test]
async fn the_event_of_a_live_cluster_at_which_a_condition_came_true_is_found() {
    let (world, versions) = sky().await;
    for line in [
        "bisect cm sky --check {.data.colour}=red",
        "bisect cm --check {.data.colour}=red",
    ] {
        check(
            &world,
            &versions,
            line,
            expect![[r#"
                MODIFIED  configmap/sky in default  version V2  by watchkeeper (Apply)
                    data.colour: "blue" → "red"
                    (N more: managed fields, versions, heartbeats)
            "#]],
        )
        .await;
    }
}
