//! What `watch` tells, and that a restart loses nothing.

mod support;

use expect_test::{Expect, expect};
use support::World;

/// Versions differ from run to run; they are the last word of each line.
fn without_versions(screen: &str) -> String {
    let cut = |line: &str| match line.rsplit_once("  ") {
        Some((before, version)) if version.parse::<u64>().is_ok() => before.trim_end().to_owned() + "\n",
        _ => line.to_owned() + "\n",
    };
    screen.lines().map(cut).collect()
}

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&without_versions(&world.run(line).await));
}

async fn with_config_maps() -> World {
    let world = World::new().await;
    world.write(
        "maps.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: kube-public}}
",
    );
    world.run("create -f @maps.yaml").await;
    world
}

#[tokio::test]
async fn a_restart_loses_nothing() {
    let world = with_config_maps().await;
    check(
        &world,
        "watch cm --position @position --count 2",
        expect![[r#"
        ADDED     default      configmap/a                     -
        ADDED     default      configmap/b                     -
    "#]],
    )
    .await;
    world.run("delete cm a").await;
    world.run("label cm b app=web").await;
    world.write("d.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}");
    world.run("create -f @d.yaml").await;
    check(
        &world,
        "watch cm --position @position --count 3",
        expect![[r#"
            DELETED   default      configmap/a                     -
            APPLIED   default      configmap/b                     -
            APPLIED   default      configmap/d                     -
        "#]],
    )
    .await;
    world.run("delete cm b").await;
    check(
        &world,
        "watch cm --position @position --count 1",
        expect![[r#"
        DELETED   default      configmap/b                     -
    "#]],
    )
    .await;
}

#[tokio::test]
async fn several_kinds_and_namespaces_are_one_stream() {
    let world = with_config_maps().await;
    let screen = without_versions(
        &world
            .run("watch cm,namespaces -n default,kube-public --count 7")
            .await,
    );
    let mut lines: Vec<_> = screen.lines().collect();
    lines.sort_unstable();
    expect![[r#"
        ADDED     -            namespace/default               Active
        ADDED     -            namespace/kube-node-lease       Active
        ADDED     -            namespace/kube-public           Active
        ADDED     -            namespace/kube-system           Active
        ADDED     default      configmap/a                     -
        ADDED     default      configmap/b                     -
        ADDED     kube-public  configmap/c                     -"#]]
    .assert_eq(&lines.join("\n"));
    check(
        &world,
        "watch cm -l app=web --count 1",
        expect![[r#"
        ADDED     default      configmap/a                     -
    "#]],
    )
    .await;
    check(
        &world,
        "watch configmap/b --count 1",
        expect![[r#"
        ADDED     default      configmap/b                     -
    "#]],
    )
    .await;
}

#[tokio::test]
async fn events_are_json_lines_as_on_the_wire() {
    let world = with_config_maps().await;
    let screen = world.run("watch cm --count 1 --output json").await;
    let event: serde_json::Value = serde_json::from_str(screen.lines().next().unwrap()).unwrap();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["kind"], "ConfigMap");
    assert_eq!(event["object"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn a_file_that_is_no_position_is_named() {
    let world = with_config_maps().await;
    world.write("position", "[1]");
    check(&world, "watch cm --position @position", expect![[r#"
        stderr: error: position is not a position file: invalid type: sequence, expected a map at line 1 column 0
        exit 1
    "#]]).await;
}

#[tokio::test]
async fn a_position_of_another_cluster_is_refused() {
    let world = with_config_maps().await;
    world.run("watch cm --position @position --count 1").await;
    let other = World::new().await;
    let position = std::fs::read_to_string(world.directory.path().join("position")).unwrap();
    other.write("position", &position);
    let screen = other.run("watch cm --position @position --count 1").await;
    assert!(
        screen.starts_with("stderr: error: position is a position in another cluster ("),
        "{screen}"
    );
    assert!(screen.ends_with("exit 1\n"), "{screen}");
    assert_eq!(
        std::fs::read_to_string(other.directory.path().join("position")).unwrap(),
        position,
        "it is left as it was"
    );
}
