//! Flags and commands that people know from kubectl: sorting, raw answers, subresources, dry runs, objects from flags,
//! differences, rollouts, Events.

use crate::support::World;
use expect_test::{Expect, expect};

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&world.run(line).await);
}

async fn with_config_maps() -> World {
    let world = World::new().await;
    world.write(
        "maps.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: pod-9, labels: {a: b}}, data: {count: '2'}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: pod-10}, data: {count: '10'}}
",
    );
    world.run("apply -f @maps.yaml").await;
    world
}

#[tokio::test]
async fn objects_are_sorted_by_a_field() {
    let world = with_config_maps().await;
    check(
        &world,
        "get cm --sort-by .metadata.name -o name",
        expect![[r#"
            configmap/pod-10
            configmap/pod-9
        "#]],
    )
    .await;
    for line in [
        "get cm --sort-by .data.cuont",
        "get cm --sort-by {.data.cuont} -o name",
    ] {
        check(
            &world,
            line,
            expect![[r#"
                stderr: error: couldn't find any field with path "{.data.cuont}" in the list of objects
                exit 1
            "#]],
        )
        .await;
    }
    let table = world.run("get cm --sort-by {.data.count} --no-headers").await;
    let names: Vec<_> = table.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["pod-9", "pod-10"]);
    let table = world
        .run("get cm --sort-by .metadata.labels.a --no-headers")
        .await;
    assert!(
        table.starts_with("pod-10"),
        "without the field, an object is first: {table}"
    );
}

#[tokio::test]
async fn objects_of_manifests_raw_answers_and_subresources_are_shown() {
    let world = with_config_maps().await;
    check(
        &world,
        "get -f @maps.yaml -o name",
        expect![[r#"
            configmap/pod-9
            configmap/pod-10
        "#]],
    )
    .await;
    check(
        &world,
        "get --raw /readyz",
        expect![[r#"
        ok
    "#]],
    )
    .await;
    check(
        &world,
        "get --raw readyz",
        expect![[r#"
            stderr: error: --raw takes a path of the server, as in /api/v1/namespaces
            exit 1
        "#]],
    )
    .await;
    world.run("create deployment web --image web --replicas 3").await;
    check(
        &world,
        "get deployment web --subresource scale -o jsonpath={.kind}:{.spec.replicas}",
        expect!["Scale:3"],
    )
    .await;
}

#[tokio::test]
async fn dry_runs_store_nothing() {
    let world = with_config_maps().await;
    check(
        &world,
        "delete cm pod-9 --dry-run=server",
        expect![[r#"
            configmap/pod-9 deleted (server dry run)
        "#]],
    )
    .await;
    check(
        &world,
        "delete cm pod-9 --dry-run=client",
        expect![[r#"
            configmap/pod-9 deleted (dry run)
        "#]],
    )
    .await;
    check(
        &world,
        "create configmap new --dry-run=server",
        expect![[r#"
            configmap/new created (server dry run)
        "#]],
    )
    .await;
    check(
        &world,
        "label cm pod-9 c=d --dry-run=server",
        expect![[r#"
            configmap/pod-9 labeled (server dry run)
        "#]],
    )
    .await;
    check(
        &world,
        "label cm pod-9 --list",
        expect![[r#"
            a=b
        "#]],
    )
    .await;
    check(
        &world,
        "get cm -o name",
        expect![[r#"
            configmap/pod-10
            configmap/pod-9
        "#]],
    )
    .await;
}

#[tokio::test]
async fn common_kinds_are_created_from_flags() {
    let world = World::new().await;
    world.write("app.conf", "colour = blue\n");
    for (line, expected) in [
        ("create namespace shop", "namespace/shop created\n"),
        (
            "create deployment web --image registry/web:1 --port 80",
            "deployment.apps/web created\n",
        ),
        (
            "create configmap settings --from-literal a=b --from-file @app.conf",
            "configmap/settings created\n",
        ),
        (
            "create secret generic token --from-literal t=s",
            "secret/token created\n",
        ),
        (
            "create job once --image busybox -- date",
            "job.batch/once created\n",
        ),
        (
            "create serviceaccount robot -n shop",
            "serviceaccount/robot created\n",
        ),
    ] {
        assert_eq!(world.run(line).await, expected, "{line}");
    }
    check(
        &world,
        "get cm settings -o jsonpath={.data.a}{.data.app\\.conf}",
        expect![[r#"
            bcolour = blue
        "#]],
    )
    .await;
    check(&world, "get secret token -o jsonpath={.data.t}", expect!["cw=="]).await;
    check(
        &world,
        "get deployment web -o jsonpath={.spec.template.spec.containers[*].name}:{..containerPort}",
        expect!["web:80"],
    )
    .await;
    check(
        &world,
        "create deployment web --image web --dry-run=client -o yaml",
        expect![[r#"
            apiVersion: apps/v1
            kind: Deployment
            metadata:
              labels:
                app: web
              name: web
            spec:
              replicas: 1
              selector:
                matchLabels:
                  app: web
              template:
                metadata:
                  labels:
                    app: web
                spec:
                  containers:
                  - image: web
                    name: web
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_scale_with_a_precondition_changes_nothing_if_it_does_not_hold() {
    let world = World::new().await;
    world.run("create deployment web --image web --replicas 3").await;
    check(
        &world,
        "scale deployment/web --replicas 5 --current-replicas 2",
        expect![[r#"
            stderr: error: expected deployment.apps/web to have 2 replicas, and it has 3
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "scale deployment/web --replicas 5 --current-replicas 3",
        expect![[r#"
            deployment.apps/web scaled
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_patch_may_be_in_a_file() {
    let world = with_config_maps().await;
    world.write("patch.yaml", "data: {count: '3'}\n");
    check(
        &world,
        "patch cm pod-9 --patch-file @patch.yaml",
        expect![[r#"
            configmap/pod-9 patched
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_diff_of_manifests_shows_what_an_apply_would_change() {
    let world = with_config_maps().await;
    check(&world, "diff -f @maps.yaml", expect![""]).await;
    world.write(
        "maps.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: pod-9}, data: {count: '3'}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: c2VjcmV0}}
",
    );
    let screen = world.run("diff -f @maps.yaml").await;
    assert!(
        screen.contains("MODIFIED  configmap/pod-9 in default\n"),
        "{screen}"
    );
    assert!(screen.contains("    data.count: \"2\" → \"3\"\n"), "{screen}");
    assert!(
        screen.contains("    - metadata.labels"),
        "a label that is no longer applied: {screen}"
    );
    assert!(screen.contains("ADDED     secret/s in default"), "{screen}");
    assert!(!screen.contains("c2VjcmV0"), "{screen}");
    assert!(screen.ends_with("exit 1\n"), "{screen}");
    let screen = world.run("diff -f @missing.yaml").await;
    assert!(screen.ends_with("exit 2\n"), "{screen}");
    check(
        &world,
        "diff",
        expect![[r#"
            stderr: error: name what to compare: manifests with -f FILE, a recording, or kinds of the cluster with --live
            exit 1
        "#]],
    )
    .await;
}
