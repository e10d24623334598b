//! Verbs on single objects, with kubectl's texts.

use crate::support::World;
use expect_test::{Expect, expect};

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&world.run(line).await);
}

async fn with_a_deployment() -> World {
    let world = World::new().await;
    world.write(
        "web.yaml",
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
",
    );
    world.run("apply -f @web.yaml").await;
    world
}

#[tokio::test]
async fn objects_are_patched_labelled_and_scaled() {
    let world = with_a_deployment().await;
    check(
        &world,
        r#"patch deployment web -p {"spec":{"replicas":2}}"#,
        expect![[r#"
            deployment.apps/web patched
        "#]],
    )
    .await;
    check(
        &world,
        r#"patch deployment/web --type merge -p spec:{replicas:2}"#,
        expect![[r#"
            stderr: Error from server (BadRequest): error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        r#"patch deploy web --type merge -p {"spec":{"replicas":2}}"#,
        expect![[r#"
            deployment.apps/web patched (no change)
        "#]],
    )
    .await;
    check(
        &world,
        r#"patch deploy web --type json -p [{"op":"remove","path":"/nothing"}]"#,
        expect![[r#"
            stderr: The request is invalid: the server rejected our request due to an error in our request
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "label deployment web tier=front",
        expect![[r#"
        deployment.apps/web labeled
    "#]],
    )
    .await;
    check(
        &world,
        "label deployment web tier=front",
        expect![[r#"
        deployment.apps/web not labeled
    "#]],
    )
    .await;
    check(
        &world,
        "label deployment web tier=back",
        expect![[r#"
        stderr: error: 'tier' already has a value (front), and --overwrite is false
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "label deployments --all tier=back --overwrite",
        expect![[r#"
            deployment.apps/web labeled
        "#]],
    )
    .await;
    check(
        &world,
        "label deployment web tier-",
        expect![[r#"
            deployment.apps/web unlabeled
        "#]],
    )
    .await;
    check(
        &world,
        "annotate deployment/web note=seen",
        expect![[r#"
        deployment.apps/web annotated
    "#]],
    )
    .await;
    check(
        &world,
        "scale deployment/web --replicas 4",
        expect![[r#"
        deployment.apps/web scaled
    "#]],
    )
    .await;
    check(
        &world,
        "get deployment web -o jsonpath={.spec.replicas}{.metadata.annotations.note}",
        expect!["4seen"],
    )
    .await;
    check(
        &world,
        "scale configmap/x --replicas 4",
        expect![[r#"
        stderr: error: configmaps cannot be scaled: they have no replicas
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "scale deployment/missing --replicas 4",
        expect![[r#"
        stderr: Error from server (NotFound): deployments.apps "missing" not found
        exit 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn waits_end_when_the_condition_is_met_or_time_is_up() {
    let world = with_a_deployment().await;
    check(
        &world,
        "wait --for=create deployment/web",
        expect![[r#"
        deployment.apps/web condition met
    "#]],
    )
    .await;
    check(&world, "wait --for=delete deployment/missing", expect![""]).await;
    check(
        &world,
        "wait --for=jsonpath={.spec.replicas}=1 deployment/web",
        expect![[r#"
            deployment.apps/web condition met
        "#]],
    )
    .await;
    check(
        &world,
        "wait --for=condition=Available deployment/web --timeout 1ms",
        expect![[r#"
            stderr: error: timed out waiting for the condition on deployments/web
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "wait --for=condition=Available deployment/missing",
        expect![[r#"
            stderr: Error from server (NotFound): deployments.apps "missing" not found
            exit 1
        "#]],
    )
    .await;
    check(&world, "wait --for=luck deployment/web", expect![[r#"
        stderr: error: unrecognized condition: "luck"; use delete, create, condition=NAME or jsonpath={PATH}=VALUE
        exit 1
    "#]]).await;
    let (created, _) = tokio::join!(world.run("wait --for=create cm/late --timeout 5m"), async {
        world.write(
            "late.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: late}}",
        );
        world.run("create -f @late.yaml").await
    });
    expect![[r#"
        configmap/late condition met
    "#]]
    .assert_eq(&created);
}

#[tokio::test]
async fn an_object_is_described_with_its_events() {
    let world = World::new().await;
    world.write(
        "a.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web, tier: front}}, data: {key: value}}",
    );
    world.run("create -f @a.yaml").await;
    let created = world
        .run("get cm a -o jsonpath={.metadata.creationTimestamp}")
        .await;
    let screen = world.run("describe cm a").await.replace(created.trim(), "…");
    expect![[r#"
        Name:         a
        Namespace:    default
        Labels:       app=web
                      tier=front
        Annotations:  <none>

        Data
        ====
        key:
        ----
        value


        BinaryData
        ====

        Events:  <none>
    "#]]
    .assert_eq(&screen);
    let without = world.run("describe cm a --show-events=false").await;
    assert!(!without.contains("Events"), "{without}");
    check(
        &world,
        "describe cm missing",
        expect![[r#"
        stderr: Error from server (NotFound): configmaps "missing" not found
        exit 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn the_start_of_a_name_is_enough_to_describe() {
    let world = World::new().await;
    for name in ["web-1", "web-2", "other"] {
        world.run(&format!("create configmap {name}")).await;
    }
    let described = async |line: &str| {
        let screen = world.run(line).await;
        let names = screen.lines().filter_map(|line| line.strip_prefix("Name:"));
        (
            names.map(|name| name.trim().to_owned()).collect::<Vec<_>>(),
            screen,
        )
    };
    assert_eq!(described("describe cm web").await.0, ["web-1", "web-2"]);
    assert_eq!(described("describe cm web-2").await.0, ["web-2"]);
    let (names, screen) = described("describe cm/web").await;
    assert!(
        names.is_empty() && screen.contains("configmaps \"web\" not found"),
        "{screen}"
    );
}

#[tokio::test]
async fn a_secret_is_described_without_what_it_hides() {
    let world = World::new().await;
    world.write(
        "s.yaml",
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: c2VjcmV0}}",
    );
    world.run("create -f @s.yaml").await;
    let screen = world.run("describe secret s").await;
    assert!(screen.contains("password:  6 bytes"), "{screen}");
    assert!(!screen.contains("c2VjcmV0"), "{screen}");
}

#[tokio::test]
async fn marks_are_said_as_kubectl_says_them() {
    let world = World::new().await;
    world.write(
        "a.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web}}}",
    );
    world.run("create -f @a.yaml").await;
    for (line, expected) in [
        (
            "label cm a app=web",
            expect![[r#"
            configmap/a not labeled
        "#]],
        ),
        (
            "label cm a app=db",
            expect![[r#"
            stderr: error: 'app' already has a value (web), and --overwrite is false
            exit 1
        "#]],
        ),
        (
            "label cm a app-",
            expect![[r#"
            configmap/a unlabeled
        "#]],
        ),
        (
            "label cm a app-",
            expect![[r#"
            label "app" not found.
            configmap/a not labeled
        "#]],
        ),
        (
            "label cm a app=db tier-",
            expect![[r#"
            label "tier" not found.
            configmap/a labeled
        "#]],
        ),
        (
            "label cm a",
            expect![[r#"
                stderr: error: at least one label update is required: KEY=VALUE, or KEY- to remove; --list shows what is there
                exit 1
            "#]],
        ),
        (
            "annotate cm a note=x",
            expect![[r#"
            configmap/a annotated
        "#]],
        ),
        (
            "annotate cm a note=x",
            expect![[r#"
            configmap/a annotated
        "#]],
        ),
        (
            "annotate cm a note-",
            expect![[r#"
            configmap/a annotated
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
}

#[tokio::test]
async fn waiting_for_nothing_is_a_failure_unless_it_shall_be_gone() {
    let world = with_a_deployment().await;
    for (line, expected) in [
        (
            "wait --for=condition=Ready pods -l app=nosuch",
            expect![[r#"
            stderr: error: no matching resources found
            exit 1
        "#]],
        ),
        (
            "wait --for=condition=Ready pods",
            expect![[r#"
            stderr: error: resource(s) were provided, but no name was specified; -l or --all selects several
            exit 1
        "#]],
        ),
        ("wait --for=delete pods --all", expect![[r#""#]]),
        (
            "wait --for=jsonpath={.spec.replicas}=1 deployments --all",
            expect![[r#"
            deployment.apps/web condition met
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
}

#[tokio::test]
async fn a_write_prints_the_object_where_it_is_asked_to() {
    let world = World::new().await;
    world.write("a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
    for (line, expected) in [
        (
            "create -f @a.yaml -o name",
            expect![[r#"
            configmap/a
        "#]],
        ),
        (
            "apply -f @a.yaml -o jsonpath={.kind}/{.metadata.name}",
            expect!["ConfigMap/a"],
        ),
        (
            r#"patch cm a -p {"data":{"k":"v"}} -o custom-columns=KEY:.data.k"#,
            expect![[r#"
            KEY
            v
        "#]],
        ),
        (
            "create -f @a.yaml -o wide",
            expect![[r#"
            stderr: error: -o wide is for get
            exit 1
        "#]],
        ),
        (
            "delete cm a --now",
            expect![[r#"
            configmap/a deleted
        "#]],
        ),
        (
            "delete cm --all",
            expect![[r#"
            No resources found
        "#]],
        ),
        (
            "delete cm",
            expect![[r#"
            stderr: error: resource(s) were provided, but no name was specified; -l or --all selects several
            exit 1
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
}

#[tokio::test]
async fn versions_are_documents_too() {
    let world = World::new().await;
    check(
        &world,
        "version --client -o yaml",
        expect![[r#"
        clientVersion:
          gitVersion: v0.1.0
    "#]],
    )
    .await;
    let text = world.run("version -o json").await;
    let versions: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(versions["serverVersion"]["major"], "1");
}
