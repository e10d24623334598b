//! Help, usage errors and manual pages: what somebody sees who does not know the program.

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
        assert!(text.is_ok_and(|text| text.contains(".TH")), "{page}");
    }
}
