//! Completion: `__complete` with a cluster, and the bash script in a real bash.

use crate::support::World;
use expect_test::{Expect, expect};

async fn world() -> World {
    let world = World::new().await;
    world.write(
        "objects.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: alpha}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: beta}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: hidden, namespace: kube-public}}
",
    );
    world.run("create -f @objects.yaml").await;
    world
}

/// `_` is an empty last word: the cursor is after a space.
async fn check(world: &World, line: &str, expected: Expect) {
    let mut words: Vec<_> = ["watchkeeper", "__complete", "--"].map(Into::into).into();
    words.extend(
        line.split_whitespace()
            .map(|word| if word == "_" { "" } else { word }.into()),
    );
    expected.assert_eq(&world.run_words(words, "").await);
}

#[tokio::test]
async fn commands_and_flags_come_with_what_they_do() {
    let world = world().await;
    check(
        &world,
        "api-",
        expect![[r#"
        api-resources	Print the resources of the server
        api-versions	Print the API versions of the server, as "group/version"
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "get pods --sh",
        expect![[r#"
            --show-kind	Prefix names with their kind
            --show-labels	Show all labels in the last column
            --show-managed-fields	Keep metadata.managedFields in json and yaml
            :4
        "#]],
    )
    .await;
    check(
        &world,
        "__compl",
        expect![[r#"
        :4
    "#]],
    )
    .await;
}

#[tokio::test]
async fn kinds_and_names_come_from_the_cluster() {
    let world = world().await;
    check(
        &world,
        "get conf",
        expect![[r#"
        configmaps
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "get pods,conf",
        expect![[r#"
        pods,configmaps
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "get cm _",
        expect![[r#"
        alpha
        beta
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "get configmaps alpha _",
        expect![[r#"
        beta
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "delete cm/be",
        expect![[r#"
        cm/beta
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "describe cm/alpha conf",
        expect![[r#"
        configmaps/
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "get cm -n kube-public _",
        expect![[r#"
        hidden
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "-nkube-public get cm _",
        expect![[r#"
        hidden
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "watch pods repl",
        expect![[r#"
        replicasets
        replicationcontrollers
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "get widgets _",
        expect![[r#"
        :4
    "#]],
    )
    .await;
}

#[tokio::test]
async fn values_fit_their_flag() {
    let world = world().await;
    check(
        &world,
        "get pods -n kube-",
        expect![[r#"
        kube-node-lease
        kube-public
        kube-system
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "watch pods --namespace default,kube-p",
        expect![[r#"
        default,kube-public
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "get pods -o j",
        expect![[r#"
        json
        jsonpath
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "get pods --output=y",
        expect![[r#"
        --output=yaml
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "delete pods --cascade f",
        expect![[r#"
        foreground
        :4
    "#]],
    )
    .await;
    check(
        &world,
        "apply -f _",
        expect![[r#"
        :0
    "#]],
    )
    .await;
    check(
        &world,
        "completion _",
        expect![[r#"
            bash
            zsh
            fish
            powershell
            :4
        "#]],
    )
    .await;
}

#[tokio::test]
async fn contexts_come_from_the_kubeconfig() {
    let world = world().await;
    world.write(
        "kubeconfig",
        "contexts: [{name: home, context: {cluster: c}}, {name: harbour, context: {cluster: c}}]\n",
    );
    let file = world.directory.path().join("kubeconfig");
    let line = format!("--kubeconfig {} --context h", file.display());
    check(
        &world,
        &line,
        expect![[r#"
        home
        harbour
        :4
    "#]],
    )
    .await;
}

#[cfg(unix)]
mod in_bash {
    use super::*;
    use std::io::Write as _;
    use std::process::Command;

    /// Presses Tab at the end of a line; `|` marks where bash splits words.
    fn check(typed: &str, expected: Expect) {
        let program = env!("CARGO_BIN_EXE_watchkeeper");
        let words: Vec<String> = typed.split('|').map(|word| format!("'{word}'")).collect();
        let script = format!(
            "source <({program} completion bash)
             COMP_WORDS=({program} {}) COMP_CWORD={}
             _watchkeeper {program}
             for reply in \"${{COMPREPLY[@]}}\"; do echo \"$reply\"; done",
            words.join(" "),
            words.len(),
        );
        let ran = Command::new("bash")
            .args(["-c", &script])
            .env("KUBECONFIG", "/nowhere")
            .output();
        let Ok(ran) = ran else {
            // Not `eprintln!`: its output is hidden in a passing test.
            let _ = writeln!(std::io::stderr(), "skipped: there is no bash");
            return;
        };
        expected.assert_eq(&String::from_utf8(ran.stdout).unwrap());
        assert_eq!(String::from_utf8(ran.stderr).unwrap(), "");
    }

    #[test]
    fn words_are_completed() {
        check(
            "vers",
            expect![[r#"
            version
        "#]],
        );
        check(
            "get|pods|--output-",
            expect![[r#"
            --output-watch-events
        "#]],
        );
        check(
            "completion|",
            expect![[r#"
                bash
                zsh
                fish
                powershell
            "#]],
        );
    }

    #[test]
    fn only_the_part_behind_the_equals_sign_is_replaced() {
        check(
            "get|pods|--output|=|ya",
            expect![[r#"
            yaml
        "#]],
        );
        check(
            "get|pods|--output|=",
            expect![[r#"
            custom-columns
            json
            jsonpath
            name
            wide
            yaml
        "#]],
        );
    }

    #[test]
    fn without_a_cluster_nothing_is_offered_and_nothing_said() {
        check("get|", expect![""]);
    }
}
