//! Help, usage errors and manual pages: what somebody sees who does not know the program.

use crate::process::Harbour;
use crate::support::World;
use expect_test::{Expect, expect, expect_file};

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&world.run(line).await);
}

/// The commands of the program, without clap's own `help`.
fn commands() -> impl Iterator<Item = String> {
    let names = watchkeeper_cli::command_names().into_iter();
    names.filter(|name| !name.split(' ').any(|word| word == "help"))
}

#[tokio::test]
async fn every_help_is_narrow_has_examples_and_leaves_out_the_flags_of_all_commands() {
    let world = World::new().await;
    for name in commands() {
        let help = world.run(&format!("{name} -h")).await;
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        assert!(help.contains("Examples:\n  "), "{name} has no examples: {help}");
        assert!(help.contains("watchkeeper options"), "{name}: {help}");
        assert!(
            !help.contains("--vmodule") && !help.contains("--insecure-skip-tls-verify"),
            "{name}: {help}"
        );
    }
}

#[tokio::test]
async fn the_reference_is_what_the_program_says() {
    let world = World::new().await;
    let mut text = format!(
        "# Commands\n\nThe help of every command, as the program prints it. A test keeps this page current: \
         `UPDATE_EXPECT=1 cargo test --test cli reference` writes it.\n\n```text\n{}```\n",
        world.run("--help").await
    );
    for name in commands() {
        let help = world.run(&format!("{name} --help")).await;
        text.push_str(&format!("\n## {name}\n\n```text\n{help}```\n"));
    }
    let options = world.run("options").await;
    text.push_str(&format!("\n## Flags of all commands\n\n```text\n{options}```\n"));
    expect_file!["../../../../docs/commands.md"].assert_eq(&text);
}

#[tokio::test]
async fn help_is_a_command_and_options_lists_the_flags_of_all_commands() {
    let world = World::new().await;
    assert_eq!(world.run("help get").await, world.run("get --help").await);
    assert_eq!(
        world.run("help rollout undo").await,
        world.run("rollout undo --help").await
    );
    let options = world.run("options").await;
    for flag in [
        "--context",
        "--cluster",
        "--user",
        "--namespace",
        "--vmodule",
        "--log-file",
    ] {
        assert!(options.contains(flag), "{flag}: {options}");
    }
}

#[tokio::test]
async fn commands_of_kubectl_alone_point_to_kubectl() {
    let world = World::new().await;
    check(
        &world,
        "exec pod/web",
        expect![[r#"
            stderr: error: "exec" is a command of kubectl that watchkeeper does not have; kubectl works with the same kubeconfig and cluster:
            stderr: 	kubectl exec --help
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "top pods",
        expect![[r#"
            stderr: error: "top" is a command of kubectl that watchkeeper does not have; kubectl works with the same kubeconfig and cluster:
            stderr: 	kubectl top --help
            exit 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn hidden_commands_are_not_suggested() {
    let world = World::new().await;
    check(
        &world,
        "__complet",
        expect![[r#"
            stderr: error: unknown command "__complet" for "watchkeeper"
            stderr: 'watchkeeper help' lists the commands.
            exit 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn what_is_not_supported_says_so_and_what_to_do() {
    let world = World::new().await;
    check(
        &world,
        "apply -f https://example.com/web.yaml",
        expect![[r#"
            stderr: error: "https://example.com/web.yaml" is a URL, and only files are read: pipe `curl -fsSL https://example.com/web.yaml` into -f -
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "apply -k overlays/shop",
        expect![[r#"
            stderr: error: kustomizations are not supported: pipe `kubectl kustomize overlays/shop` into -f -
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "get pods -o go-template={{.kind}}",
        expect![[r#"
            stderr: error: go-template is not supported: use jsonpath=…, custom-columns=… or json, or kubectl
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
    let screen = world.run("scale deployment/web --replicas -1").await;
    assert!(screen.contains("must be 0 or greater"), "{screen}");
}

#[tokio::test]
async fn every_command_has_a_manual_page() {
    let world = World::new().await;
    let screen = world.run("man @pages").await;
    assert!(screen.ends_with("manual pages are in pages\n"), "{screen}");
    for name in commands() {
        let page = format!("watchkeeper-{}.1", name.replace(' ', "-"));
        let text = std::fs::read_to_string(world.directory.path().join("pages").join(&page));
        assert!(
            text.is_ok_and(|text| text.contains(".TH") && text.contains(".SH EXAMPLES\n.nf\n")),
            "{page}"
        );
    }
    let options = world.directory.path().join("pages/watchkeeper-options.1");
    let text = std::fs::read_to_string(options).unwrap();
    assert!(text.contains("kubeconfig") && text.contains("vmodule"), "{text}");
}

#[tokio::test]
async fn an_unknown_generator_points_to_kubectl_or_to_the_help_of_create() {
    let world = World::new().await;
    check(&world, "create cronjob nightly --image a", expect![[r#"
        stderr: error: "create cronjob" is a command of kubectl that watchkeeper does not have; kubectl works with the same kubeconfig and cluster:
        stderr: 	kubectl create cronjob --help
        exit 1
    "#]]).await;
    check(&world, "create secret docker-registry a", expect![[r#"
        stderr: error: "create secret docker-registry" is a command of kubectl that watchkeeper does not have; kubectl works with the same kubeconfig and cluster:
        stderr: 	kubectl create secret docker-registry --help
        exit 1
    "#]]).await;
    check(
        &world,
        "create foo",
        expect![[r#"
        stderr: error: unknown command "foo" for "watchkeeper create"
        stderr: 'watchkeeper create --help' lists what there is.
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "rollout pause deployment/web",
        expect![[r#"
            stderr: error: "rollout pause" is a command of kubectl that watchkeeper does not have; kubectl works with the same kubeconfig and cluster:
            stderr: 	kubectl rollout pause --help
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "rollout forget deployment/web",
        expect![[r#"
            stderr: error: unknown command "forget" for "watchkeeper rollout"
            stderr: 'watchkeeper rollout --help' lists what there is.
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "create deploymnt web",
        expect![[r#"
        stderr: error: unknown command "deploymnt" for "watchkeeper create"
        stderr: 
        stderr: Did you mean this?
        stderr: 	deployment
        exit 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_missing_argument_points_to_the_help() {
    let world = World::new().await;
    check(
        &world,
        "history",
        expect![[r#"
        stderr: error: required argument(s) "OBJECT" not set
        stderr: See 'watchkeeper history --help' for usage.
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "create namespace",
        expect![[r#"
            stderr: error: required argument(s) "NAME" not set
            stderr: See 'watchkeeper create namespace --help' for usage.
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "rollout undo deployment/web --force",
        expect![[r#"
            stderr: error: unknown flag: --force
            stderr: See 'watchkeeper rollout undo --help' for usage.
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "create deployment web --image web --replicas two",
        expect![[r#"
            stderr: error: invalid value 'two' for '--replicas <COUNT>': not a whole number
            stderr: See 'watchkeeper create deployment --help' for usage.
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "get pods/",
        expect![[r#"
        stderr: error: "pods/" is not kind/name; for all of a kind: "pods"
        exit 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_conflict_of_managers_says_how_to_end_it() {
    let world = World::new().await;
    world.write(
        "maps.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {colour: blue}}",
    );
    world.run("apply -f @maps.yaml --field-manager one").await;
    world.write(
        "maps.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {colour: red}}",
    );
    check(
        &world,
        "apply -f @maps.yaml --field-manager two",
        expect![[r#"
            stderr: Error from server (Conflict): error when applying "maps.yaml": Apply failed with 1 conflict: conflict with "one": .data.colour
            stderr: Leave these fields out of the manifest to let the others keep them, or take them with --force-conflicts.
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "diff -f @maps.yaml --field-manager two",
        expect![[r#"
            stderr: Error from server (Conflict): error when comparing "maps.yaml": Apply failed with 1 conflict: conflict with "one": .data.colour
            stderr: Leave these fields out of the manifest to let the others keep them, or take them with --force-conflicts.
            exit 2
        "#]],
    )
    .await;
    assert_eq!(
        world
            .run("apply -f @maps.yaml --field-manager two --force-conflicts")
            .await,
        "configmap/a configured\n"
    );
}

#[tokio::test]
async fn neighbours_of_one_kind_share_a_table() {
    let world = World::new().await;
    world.write(
        "all.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: longer}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
    );
    world.run("create -f @all.yaml").await;
    // Without the ages.
    let names = async |line: &str| {
        let screen = world.run(line).await;
        let names = screen
            .lines()
            .map(|line| line.split(' ').next().unwrap_or_default());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        names("get -f @all.yaml").await,
        ["NAME", "secret/a", "secret/longer", "", "NAME", "configmap/c"]
    );
    assert_eq!(names("get secret/longer secret/a").await, ["NAME", "longer", "a"]);
}

#[tokio::test]
async fn images_are_separated_by_commas() {
    let world = World::new().await;
    let line = "create deployment web --image a:1,b:2 --dry-run=client -o jsonpath={..containers[*].name}";
    assert_eq!(world.run(line).await, "a b");
}

#[tokio::test]
async fn a_misspelt_kind_or_namespace_is_named() {
    let world = World::new().await;
    for (typed, meant) in [
        ("podss", "pods"),
        ("Podd", "pods"),
        ("depolyments", "deployments"),
        ("ingres", "ingresses"),
    ] {
        assert_eq!(
            world.run(&format!("get {typed}")).await,
            format!(
                "stderr: error: the server doesn't have a resource type {typed:?}; did you mean {meant:?}?\nexit 1\n"
            )
        );
    }
    check(
        &world,
        "get zebras",
        expect![[r#"
            stderr: error: the server doesn't have a resource type "zebras"; `watchkeeper api-resources` lists those it has
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "get pods -n defualt",
        expect![[r#"
            stderr: No resources found in defualt namespace.
            stderr: There is no namespace "defualt"; `watchkeeper get namespaces` lists them.
        "#]],
    )
    .await;
    check(
        &world,
        "get pods -n kube-system",
        expect![[r#"
            stderr: No resources found in kube-system namespace.
        "#]],
    )
    .await;
}

#[tokio::test]
async fn what_a_server_takes_and_nobody_can_use_is_refused_as_by_kubectl() {
    let world = World::new().await;
    world.write(
        "web.crt",
        "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
    );
    world.write("web.key", "A=1\n");
    for (line, expected) in [
        (
            "create secret tls web --cert @web.crt --key @web.key",
            "error: web.key has no private key in PEM",
        ),
        (
            "create secret tls web --cert @web.key --key @web.key",
            "error: web.key has no certificate in PEM",
        ),
        (
            "create deployment web --image a,b -- sleep 1",
            "error: cannot specify multiple --image options and command",
        ),
        (
            "events --types Info",
            "error: invalid value 'Info' for '--types <TYPES>': valid --types are Normal or Warning",
        ),
    ] {
        let screen = world.run(line).await;
        assert_eq!(
            screen.lines().next(),
            Some(&*format!("stderr: {expected}")),
            "{line}"
        );
    }
    world.write(
        "web.key",
        "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n",
    );
    let created = world
        .run("create secret tls web --cert @web.crt --key @web.key")
        .await;
    assert_eq!(created, "secret/web created\n");
    let line = "create deployment web --image a,b --port 80 --dry-run=client -o jsonpath={..containerPort}";
    assert_eq!(world.run(line).await, "80", "the first container has the port");
}

#[test]
fn a_server_of_another_kubeconfig_says_so() {
    let (harbour, other) = (Harbour::new(), Harbour::new());
    let server = format!("https://{}", other.server.address().unwrap());
    let output = harbour
        .command(&format!("get pods --server {server}"))
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = err.lines().collect();
    assert!(lines[0].contains("invalid peer certificate"), "{err}");
    assert_eq!(
        lines[1..],
        [
            "This kubeconfig does not trust the certificate of the server: it may be of another server, or of an earlier run \
          of `watchkeeper up`."
        ]
    );
}

#[test]
fn refused_credentials_say_so() {
    let harbour = Harbour::new();
    let output = harbour.command("get pods --token wrong").output().unwrap();
    expect![[r#"
        error: You must be logged in to the server (Unauthorized)
        The server does not accept the credentials of this kubeconfig: they may have expired, or be those of another cluster.
    "#]]
    .assert_eq(&String::from_utf8(output.stderr).unwrap());
}
