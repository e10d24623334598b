//! The objects of a command: named, in manifests, selected, or all of a kind.

use expect_test::{Expect, expect};

use crate::support::World;

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&world.run(line).await);
}

/// Two deployments, `web` and `db`, and a config map in each of two namespaces.
async fn with_objects() -> World {
    let world = World::new().await;
    for line in [
        "create namespace shop",
        "create deployment web --image web",
        "create deployment db --image db",
        "create configmap a",
        "create configmap b -n shop",
    ] {
        world.run(line).await;
    }
    world.write(
        "maps.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop}}",
    );
    world
}

#[tokio::test]
async fn labels_are_set_on_what_is_named_selected_or_in_a_manifest() {
    let world = with_objects().await;
    for (line, expected) in [
        (
            "label -f @maps.yaml tier=front",
            expect![[r#"
            configmap/a labeled
            configmap/b labeled
        "#]],
        ),
        (
            "label cm -A -l tier=front tier=back --overwrite",
            expect![[r#"
                configmap/a labeled
                configmap/b labeled
            "#]],
        ),
        (
            "label cm -A --all tier-",
            expect![[r#"
            configmap/a unlabeled
            configmap/b unlabeled
        "#]],
        ),
        (
            "label cm --all -l tier=none x=y",
            expect![[r#"
            stderr: No resources found in default namespace.
        "#]],
        ),
        (
            "label cm a -l tier=front x=y",
            expect![[r#"
            stderr: error: name objects or select them, not both
            exit 1
        "#]],
        ),
        (
            "label cm a -A x=y",
            expect![[r#"
            stderr: error: a resource cannot be retrieved by name across all namespaces
            exit 1
        "#]],
        ),
        (
            "annotate -f @maps.yaml cm/a note=x",
            expect![[r#"
            stderr: error: name objects or files with -f, not both
            exit 1
        "#]],
        ),
        (
            "annotate cm a note=x -o jsonpath={.metadata.annotations}",
            expect![[r#"{"note":"x"}"#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
}

#[tokio::test]
async fn deployments_are_scaled_restarted_and_waited_for_together() {
    let world = with_objects().await;
    world.write(
        "web.yaml",
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}",
    );
    for (line, expected) in [
        (
            "scale deployments --replicas 2 -l app=web",
            expect![[r#"
            deployment.apps/web scaled
        "#]],
        ),
        (
            "scale deployments --replicas 2 -l app=none",
            expect![[r#"
            stderr: error: no objects passed to scale
            exit 1
        "#]],
        ),
        (
            "scale deployments --replicas 2",
            expect![[r#"
            stderr: error: resource(s) were provided, but no name was specified; -l or --all selects several
            exit 1
        "#]],
        ),
        (
            "scale -f @web.yaml --replicas 3",
            expect![[r#"
            deployment.apps/web scaled
        "#]],
        ),
        (
            "wait --for=jsonpath={.spec.replicas}=3 -f @web.yaml",
            expect![[r#"
                deployment.apps/web condition met
            "#]],
        ),
        (
            "wait --for=create deployments -A --all",
            expect![[r#"
            deployment.apps/db condition met
            deployment.apps/web condition met
        "#]],
        ),
        (
            "wait --for=delete",
            expect![[r#"
            stderr: error: required argument(s) "RESOURCE" not set
            stderr: See 'watchkeeper wait --help' for usage.
            exit 1
        "#]],
        ),
        (
            "rollout restart deployment",
            expect![[r#"
            deployment.apps/db restarted
            deployment.apps/web restarted
        "#]],
        ),
        (
            "rollout restart deployment -l app=db",
            expect![[r#"
            deployment.apps/db restarted
        "#]],
        ),
        (
            "rollout restart -f @web.yaml",
            expect![[r#"
            deployment.apps/web restarted
        "#]],
        ),
        (
            "rollout restart daemonset",
            expect![[r#"
            stderr: No resources found in default namespace.
        "#]],
        ),
        (
            "rollout restart -k .",
            expect![[r#"
            stderr: error: kustomizations are not supported: pipe `kubectl kustomize .` into -f -
            exit 1
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
}

#[tokio::test]
async fn deletes_reach_all_namespaces() {
    let world = with_objects().await;
    for (line, expected) in [
        (
            "delete cm -A --field-selector metadata.name=b",
            expect![[r#"
            configmap/b deleted
        "#]],
        ),
        (
            "get cm -A -o name",
            expect![[r#"
            configmap/a
        "#]],
        ),
        (
            "delete cm a -A",
            expect![[r#"
            stderr: error: a resource cannot be retrieved by name across all namespaces
            exit 1
        "#]],
        ),
        (
            "delete cm a -o name",
            expect![[r#"
            configmap/a
        "#]],
        ),
        (
            "delete cm a -o yaml",
            expect![[r#"
            stderr: error: invalid value 'yaml' for '--output <name>'
            stderr:   [possible values: name]
            stderr: See 'watchkeeper delete --help' for usage.
            exit 1
        "#]],
        ),
        ("delete cm a --ignore-not-found=true", expect![[r#""#]]),
        (
            "delete cm -n shop kube-root-ca.crt --force --grace-period=0 --ignore-not-found",
            expect![[r#"
                stderr: Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may continue to run on the cluster indefinitely.
            "#]],
        ),
        (
            "delete cm a --force --grace-period=3",
            expect![[r#"
            stderr: error: --force and --grace-period greater than 0 cannot be specified together
            exit 1
        "#]],
        ),
        (
            "delete cm -A --all -l none=x",
            expect![[r#"
            No resources found
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
}

/// A selector beside names would be ignored.
#[tokio::test]
async fn names_and_selectors_exclude_each_other() {
    let world = with_objects().await;
    for (line, expected) in [
        (
            "get cm a -l app=web",
            expect![[r#"
            stderr: error: name objects or select them, not both
            exit 1
        "#]],
        ),
        (
            "get cm/a --field-selector metadata.name=b",
            expect![[r#"
            stderr: error: name objects or select them, not both
            exit 1
        "#]],
        ),
        (
            "get cm a -A",
            expect![[r#"
            stderr: error: a resource cannot be retrieved by name across all namespaces
            exit 1
        "#]],
        ),
        (
            "describe cm a -l app=web",
            expect![[r#"
            stderr: error: name objects or select them, not both
            exit 1
        "#]],
        ),
        (
            "describe cm a -A",
            expect![[r#"
            stderr: error: a resource cannot be retrieved by name across all namespaces
            exit 1
        "#]],
        ),
        (
            "wait --for=create cm a --all",
            expect![[r#"
            stderr: error: name objects or select them, not both
            exit 1
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
    let described = world.run("describe -f @maps.yaml").await;
    let names = described.lines().filter(|line| line.starts_with("Name"));
    expect![[r#"
        Name:         a
        Namespace:    default
        Name:         b
        Namespace:    shop"#]]
    .assert_eq(&names.collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn fields_that_a_kind_does_not_have_are_refused_unless_told_otherwise() {
    let world = World::new().await;
    world.write(
        "map.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, colour: blue}",
    );
    for (line, expected) in [
        (
            "apply -f @map.yaml",
            expect![[r#"
            stderr: Error from server: error when applying "map.yaml": failed to create typed patch object (/a; /v1, Kind=ConfigMap): .colour: field not declared in schema
            exit 1
        "#]],
        ),
        (
            "apply -f @map.yaml --validate=warn",
            expect![[r#"
            stderr: Error from server: error when applying "map.yaml": failed to create typed patch object (/a; /v1, Kind=ConfigMap): .colour: field not declared in schema
            exit 1
        "#]],
        ),
        (
            "create -f @map.yaml",
            expect![[r#"
            stderr: Error from server (BadRequest): error when creating "map.yaml": ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "colour"
            exit 1
        "#]],
        ),
        (
            "create -f @map.yaml --validate=warn",
            expect![[r#"
            configmap/a created
        "#]],
        ),
        (
            "delete cm a",
            expect![[r#"
            configmap/a deleted
        "#]],
        ),
        (
            "create -f @map.yaml --validate=false",
            expect![[r#"
            configmap/a created
        "#]],
        ),
        (
            "create -f @map.yaml --validate=maybe",
            expect![[r#"
            stderr: error: invalid value 'maybe' for '--validate[=<MODE>]'
            stderr:   [possible values: strict, warn, ignore]
            stderr: See 'watchkeeper create --help' for usage.
            exit 1
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
}

#[tokio::test]
async fn events_are_documents_too() {
    let world = World::new().await;
    world.write(
        "event.yaml",
        "{apiVersion: v1, kind: Event, metadata: {name: a.1, namespace: default}, reason: Started, type: Normal, \
         message: it runs, involvedObject: {kind: Pod, name: a, namespace: default}}",
    );
    world.run("apply -f @event.yaml").await;
    for (line, expected) in [
        (
            "events -o name",
            expect![[r#"
            event/a.1
        "#]],
        ),
        ("events -o jsonpath={.items[*].reason}", expect!["Started"]),
        (
            "events -o custom-columns=REASON:.reason,KIND:.kind",
            expect![[r#"
                REASON    KIND
                Started   Event
            "#]],
        ),
        (
            "events -o jsn",
            expect![[r#"
            stderr: error: unable to match a printer suitable for the output format "jsn", allowed formats are: custom-columns,json,jsonpath,name,wide,yaml
            exit 1
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
    let list = world.run("events -o json").await;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&"List".into(), &"Event".into())
    );
}
