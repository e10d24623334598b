//! The session of a user with one file: created, unchanged, configured, deleted, not found, invalid.

use crate::support::World;
use expect_test::{Expect, expect};

const SERVICE: &str = "apiVersion: v1
kind: Service
metadata:
  name: demo
  labels: {app: LABEL}
spec:
  type: TYPE
  selector: {app: demo}
  ports: [{port: 80}]
";

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: demo}
spec:
  replicas: 1
  selector: {matchLabels: {app: demo}}
  template:
    metadata: {labels: {app: demo}}
    spec: {containers: [{name: demo, image: nginx}]}
";

fn manifest(label: &str, service_type: &str) -> String {
    let service = SERVICE.replace("LABEL", label).replace("TYPE", service_type);
    format!("{service}---\n{DEPLOYMENT}")
}

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&world.run(line).await);
}

#[tokio::test]
async fn a_file_is_applied_and_deleted_in_kubectls_words() {
    let world = World::new().await;
    world.write("demo.yaml", &manifest("demo", "ClusterIP"));
    check(
        &world,
        "apply -f @demo.yaml",
        expect![[r#"
            service/demo created
            deployment.apps/demo created
        "#]],
    )
    .await;
    check(
        &world,
        "apply -f @demo.yaml",
        expect![[r#"
            service/demo unchanged
            deployment.apps/demo unchanged
        "#]],
    )
    .await;
    world.write("demo.yaml", &manifest("changed", "ClusterIP"));
    check(
        &world,
        "apply -f @demo.yaml",
        expect![[r#"
            service/demo configured
            deployment.apps/demo unchanged
        "#]],
    )
    .await;
    check(
        &world,
        "delete -f @demo.yaml",
        expect![[r#"
            service/demo deleted
            deployment.apps/demo deleted
        "#]],
    )
    .await;
    check(
        &world,
        "delete -f @demo.yaml",
        expect![[r#"
            stderr: Error from server (NotFound): error when deleting "demo.yaml": services "demo" not found
            stderr: Error from server (NotFound): error when deleting "demo.yaml": deployments.apps "demo" not found
            exit 1
        "#]],
    )
    .await;
    world.write("demo.yaml", &manifest("demo", "ClusterIP1"));
    check(
        &world,
        "apply -f @demo.yaml",
        expect![[r#"
            deployment.apps/demo created
            stderr: The Service "demo" is invalid: spec.type: Unsupported value: "ClusterIP1": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "delete -f @demo.yaml",
        expect![[r#"
            deployment.apps/demo deleted
            stderr: Error from server (NotFound): error when deleting "demo.yaml": services "demo" not found
            exit 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_bad_document_stands_in_nobodys_way() {
    let world = World::new().await;
    let config_map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    world.write("mixed.yaml", &format!(
        "{}---\na: [1\n---\n{}---\nkind: ConfigMap\n---\napiVersion: acme.example/v1\nkind: Widget\nmetadata: {{name: w}}\n",
        config_map("first"),
        config_map("last"),
    ));
    check(&world, "apply -f @mixed.yaml -f @missing.yaml", expect![[r#"
        configmap/first created
        configmap/last created
        stderr: error: error parsing mixed.yaml: document 2, line 6: did not find expected ',' or ']'
        stderr: error: unable to decode "mixed.yaml": the object at line 11 has no apiVersion
        stderr: error: resource mapping not found for name: "w" namespace: "" from "mixed.yaml": no matches for kind "Widget" in version "acme.example/v1"
        stderr: ensure CRDs are installed first
        stderr: error: the path "missing.yaml" does not exist
        exit 1
    "#]]).await;
}

#[tokio::test]
async fn directories_and_standard_input_are_read() {
    let world = World::new().await;
    world
        .write("all/b.yml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
        .write("all/a.json", r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}"#)
        .write("all/notes.txt", "not a manifest")
        .write("all/deeper/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: kube-system}\n")
        .write("nothing/notes.txt", "not a manifest");
    check(
        &world,
        "create -f @all -R",
        expect![[r#"
        configmap/a created
        configmap/b created
        configmap/c created
    "#]],
    )
    .await;
    check(&world, "create -f @all", expect![[r#"
        stderr: Error from server (AlreadyExists): error when creating "all/a.json": configmaps "a" already exists
        stderr: Error from server (AlreadyExists): error when creating "all/b.yml": configmaps "b" already exists
        exit 1
    "#]]).await;
    check(
        &world,
        "apply -f @nothing",
        expect![[r#"
        stderr: error: error reading [nothing]: recognized file extensions are [.json .yaml .yml]
        exit 1
    "#]],
    )
    .await;
    check(&world, "apply -n shop -f @all/deeper/c.yaml", expect![[r#"
        stderr: error: the namespace from the provided object "kube-system" does not match the namespace "shop". You must pass '--namespace=kube-system' to perform this operation.
        exit 1
    "#]]).await;
    let piped = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    expect![[r#"
        namespace/shop created
    "#]]
    .assert_eq(&world.run_with("apply -f -", piped).await);
    check(
        &world,
        "delete configmaps a b -l app=web",
        expect![[r#"
        stderr: error: name objects or select them, not both
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "delete configmaps a b",
        expect![[r#"
        configmap/a deleted
        configmap/b deleted
    "#]],
    )
    .await;
    check(
        &world,
        "delete configmaps -n kube-system --all",
        expect![[r#"
        configmap/c deleted
    "#]],
    )
    .await;
    check(
        &world,
        "delete namespace/shop --wait=false",
        expect![[r#"
        namespace/shop deleted
    "#]],
    )
    .await;
}

#[tokio::test]
async fn an_empty_input_is_no_success() {
    let world = World::new().await;
    for line in ["apply -f -", "create -f -", "delete -f -"] {
        expect![[r#"
            stderr: error: no objects passed: the input is empty
            exit 1
        "#]]
        .assert_eq(&world.run_with(line, "# nothing\n---\n").await);
    }
}

#[test]
fn a_command_without_files_says_so_before_it_looks_for_a_cluster() {
    for (verb, expected) in [
        ("apply", "error: required flag(s) \"filename\" not set\n"),
        (
            "create",
            "error: required flag(s) \"filename\" not set; or name a kind",
        ),
        ("delete", "error: name what to delete"),
    ] {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_watchkeeper"));
        let ran = program
            .arg(verb)
            .env_clear()
            .env("HOME", "/nowhere")
            .output()
            .unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(said.starts_with(expected), "{verb}: {said}");
        assert_eq!(ran.status.code(), Some(1));
    }
}

#[tokio::test]
async fn words_that_make_no_sense_are_answered_with_the_nearest_that_do() {
    let world = World::new().await;
    check(
        &world,
        "apply",
        expect![[r#"
        stderr: error: required flag(s) "filename" not set
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "delete",
        expect![[r#"
            stderr: error: name what to delete: `watchkeeper delete pod/web`, `watchkeeper delete pods -l app=web` or `watchkeeper delete -f FILE`
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "aply",
        expect![[r#"
        stderr: error: unknown command "aply" for "watchkeeper"
        stderr: 
        stderr: Did you mean this?
        stderr: 	apply
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "abc",
        expect![[r#"
            stderr: error: unknown command "abc" for "watchkeeper"
            stderr: 'watchkeeper help' lists the commands.
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "get pods --chunksize 3",
        expect![[r#"
            stderr: error: unknown flag: --chunksize
            stderr: 
            stderr: Did you mean this?
            stderr: 	--chunk-size
            stderr: See 'watchkeeper get --help' for usage.
            exit 1
        "#]],
    )
    .await;
    check(&world, "get widgets", expect![[r#"
        stderr: error: the server doesn't have a resource type "widgets"; `watchkeeper api-resources` lists those it has
        exit 1
    "#]]).await;
    check(&world, "get", expect![[r#"
        stderr: error: name a kind of resource, as in `pods` or `pod/web`; `watchkeeper api-resources` lists them
        exit 1
    "#]]).await;
    check(&world, "get pods -o xml", expect![[r#"
        stderr: error: unable to match a printer suitable for the output format "xml", allowed formats are: custom-columns,json,jsonpath,name,wide,yaml
        exit 1
    "#]]).await;
    check(
        &world,
        "get pods -l a=b=c",
        expect![[r#"
        stderr: error: found '=', expected: ',' or 'end of string'
        exit 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn flags_that_make_no_sense_say_where_to_read_on() {
    let world = World::new().await;
    for (line, expected) in [
        (
            "apply -Z",
            expect![[r#"
            stderr: error: unknown shorthand flag: 'Z' in -Z
            stderr: See 'watchkeeper apply --help' for usage.
            exit 1
        "#]],
        ),
        (
            "get pods --output",
            expect![[r#"
            stderr: error: flag needs an argument: --output
            stderr: See 'watchkeeper get --help' for usage.
            exit 1
        "#]],
        ),
        (
            "get pods -n",
            expect![[r#"
            stderr: error: flag needs an argument: --namespace
            stderr: See 'watchkeeper get --help' for usage.
            exit 1
        "#]],
        ),
        (
            "get pods/a/b",
            expect![[r#"
            stderr: error: arguments in resource/name form may not have more than one slash
            exit 1
        "#]],
        ),
        (
            "get pod a -A",
            expect![[r#"
            stderr: error: a resource cannot be retrieved by name across all namespaces
            exit 1
        "#]],
        ),
        (
            "delete pods --now --force",
            expect![[r#"
                stderr: error: the argument '--now' cannot be used with '--force'
                stderr: 
                stderr: Usage: watchkeeper delete --now <RESOURCE>...
                stderr: See 'watchkeeper delete --help' for usage.
                exit 1
            "#]],
        ),
        (
            "scale deployment/web",
            expect![[r#"
                stderr: error: required flag(s) "replicas" not set
                stderr: See 'watchkeeper scale --help' for usage.
                exit 1
            "#]],
        ),
        (
            "--nosuch",
            expect![[r#"
            stderr: error: unknown flag: --nosuch
            stderr: See 'watchkeeper --help' for usage.
            exit 1
        "#]],
        ),
    ] {
        check(&world, line, expected).await;
    }
}
