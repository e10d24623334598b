//! `watch`, and that a restart loses nothing.

use crate::support::World;
use expect_test::{Expect, expect};

/// Versions differ from run to run; they are the last word of each line.
fn without_versions(screen: &str) -> String {
    let cut = |line: &str| match line.rsplit_once("  ") {
        Some((before, version)) if version.parse::<u64>().is_ok() => before.trim_end().to_owned() + "\n",
        _ => line.to_owned() + "\n",
    };
    screen.lines().map(cut).collect()
}

/// Numbers, which differ from run to run, as `N`.
fn without_numbers(screen: &str) -> String {
    let mut text = String::new();
    for letter in screen.chars() {
        match letter.is_ascii_digit() {
            true if text.ends_with('N') => {}
            true => text.push('N'),
            false => text.push(letter),
        }
    }
    text
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
            EVENT      NAMESPACE     NAME                                      STATE                 VERSION
            ADDED      default       configmap/a                               -
            ADDED      default       configmap/b                               -
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
            EVENT      NAMESPACE     NAME                                      STATE                 VERSION
            DELETED    default       configmap/a                               -
            MODIFIED   default       configmap/b                               -
            ADDED      default       configmap/d                               -
        "#]],
    )
    .await;
    world.run("delete cm b").await;
    check(
        &world,
        "watch cm --position @position --count 1",
        expect![[r#"
            EVENT      NAMESPACE     NAME                                      STATE                 VERSION
            DELETED    default       configmap/b                               -
        "#]],
    )
    .await;
}

#[tokio::test]
async fn after_any_gap_exactly_what_differs_is_told() {
    let world = with_config_maps().await;
    world.run("watch cm --position @position --count 2").await;
    // Created and deleted in the meantime, and the server has compacted its history.
    world.write("d.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}");
    world.run("create -f @d.yaml").await;
    world.run("delete cm a").await;
    world.compact().await;
    let screen = world.run("watch cm --position @position --count 2").await;
    expect![[r#"
        EVENT      NAMESPACE     NAME                                      STATE                 VERSION
        RESTARTED  -             configmaps in default                     too old resource version: N (N)  N
        DELETED    default       configmap/a                               final state unknown   N
        ADDED      default       configmap/d                               -                     N
        stderr: Warning: configmaps in default: too old resource version: N (N)
    "#]]
    .assert_eq(&without_numbers(&screen));
    world.run("label cm b app=web").await;
    world.compact().await;
    let screen = world.run("watch cm --position @position --count 1 -o json").await;
    let lines: Vec<serde_json::Value> = screen
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let types: Vec<_> = lines.iter().map(|line| &line["type"]).collect();
    assert_eq!(types, ["RESTARTED", "MODIFIED", "SYNCED"], "{screen}");
    assert_eq!(lines[0]["to"], lines[2]["resourceVersion"]);
    assert!(
        lines[0]["from"].is_string() && lines[0]["reason"].is_string(),
        "{screen}"
    );
}

#[tokio::test]
async fn an_inferred_delete_says_so_and_who_it_was() {
    let world = with_config_maps().await;
    let first = world.run("watch cm --position @position --count 2 -o json").await;
    let first: serde_json::Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "ADDED");
    world.run("delete cm a").await;
    world.compact().await;
    let screen = world.run("watch cm --position @position --count 1 -o json").await;
    let deleted: serde_json::Value = serde_json::from_str(screen.lines().nth(1).unwrap()).unwrap();
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(deleted["inferred"], true);
    for field in [
        "apiVersion",
        "kind",
        "namespace",
        "name",
        "uid",
        "resourceVersion",
    ] {
        assert!(first[field].is_string(), "{first}");
        assert_eq!(deleted[field], first[field], "{screen}");
    }
    assert_eq!(deleted["object"]["metadata"]["uid"], first["uid"]);
}

#[tokio::test]
async fn several_kinds_and_namespaces_are_one_stream() {
    let world = with_config_maps().await;
    let screen = without_versions(
        &world
            .run("watch cm,namespaces -n default,kube-public --count 7")
            .await,
    );
    let mut lines: Vec<_> = screen.lines().skip(1).collect();
    lines.sort_unstable();
    expect![[r#"
        ADDED      -             namespace/default                         Active
        ADDED      -             namespace/kube-node-lease                 Active
        ADDED      -             namespace/kube-public                     Active
        ADDED      -             namespace/kube-system                     Active
        ADDED      default       configmap/a                               -
        ADDED      default       configmap/b                               -
        ADDED      kube-public   configmap/c                               -"#]]
    .assert_eq(&lines.join("\n"));
    check(
        &world,
        "watch cm -l app=web --count 1",
        expect![[r#"
            EVENT      NAMESPACE     NAME                                      STATE                 VERSION
            ADDED      default       configmap/a                               -
        "#]],
    )
    .await;
    check(
        &world,
        "watch configmap/b --count 1",
        expect![[r#"
            EVENT      NAMESPACE     NAME                                      STATE                 VERSION
            ADDED      default       configmap/b                               -
        "#]],
    )
    .await;
    check(
        &world,
        "watch configmap/b --count 1 --no-headers",
        expect![[r#"
            ADDED      default       configmap/b                               -
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
    let file = |world: &World| world.directory.path().join("position");
    std::fs::copy(file(&world), file(&other)).unwrap();
    let screen = other.run("watch cm --position @position --count 1").await;
    assert!(
        screen.starts_with("stderr: error: position is a position in another cluster ("),
        "{screen}"
    );
    assert!(screen.ends_with("exit 1\n"), "{screen}");
    assert_eq!(
        std::fs::read(file(&other)).unwrap(),
        std::fs::read(file(&world)).unwrap(),
        "it is left as it was"
    );
}
