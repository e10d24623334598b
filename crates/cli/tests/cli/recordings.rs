//! `record` and what reads recordings: `history`, `diff`, `bisect`; and `watch --diff`.

use expect_test::{Expect, expect};

use watchkeeper_cli::{Look, Output};

use crate::support::World;

/// Times, uids and versions, which differ from run to run.
fn steady(screen: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(['"', ',', ':', '{', '}', '[', ']', ';']);
        match bare {
            time if time.len() >= 20 && time.ends_with('Z') && time.contains("T") => {
                word.replace(time, "TIME")
            }
            // A write in the next second changes the time of its managed fields, too.
            count if count.starts_with('(') && count[1..].parse::<u64>().is_ok() => "(N".to_owned(),
            manager if manager.starts_with("cli-") => word.replace(manager, "cli"),
            number if number.len() > 1 && number.parse::<u64>().is_ok() => word.replace(number, "N"),
            _ => word.to_owned(),
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n";
    screen.lines().map(line).collect()
}

async fn check(world: &World, line: &str, expected: Expect) {
    expected.assert_eq(&steady(&world.run(line).await));
}

/// A config map that is created, changed twice and labelled, all of it recorded.
async fn recorded() -> World {
    let world = World::new().await;
    let map = |colour: &str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: sky}}, data: {{colour: {colour}}}}}")
    };
    world
        .write("blue.yaml", &map("blue"))
        .write("red.yaml", &map("red"));
    world.run("apply -f @blue.yaml").await;
    world.run("record cm -n default -o @sky.rec --count 1").await;
    world.run("apply -f @red.yaml").await;
    world.run("label cm sky seen=yes").await;
    world.run("record cm -n default -o @sky.rec --count 2").await;
    world.run("delete cm sky").await;
    world.run("record cm -n default -o @sky.rec --count 1").await;
    world
}

#[tokio::test]
async fn a_recording_goes_on_and_says_what_it_has() {
    let world = World::new().await;
    world.write("a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
    world.run("create -f @a.yaml").await;
    check(
        &world,
        "record configmaps -o @maps.rec --count 1",
        expect![[r#"
            stderr: Recording 1 object of 1 stream into maps.rec; end with Ctrl-C
            stderr: Recorded 1 event into maps.rec; 1 object exists now
        "#]],
    )
    .await;
    world.run("delete cm a").await;
    check(
        &world,
        "record configmaps -o @maps.rec --count 1",
        expect![[r#"
            stderr: Recording 1 object of 1 stream into maps.rec; end with Ctrl-C
            stderr: Recorded 1 event into maps.rec; 0 objects exist now
        "#]],
    )
    .await;
}

#[tokio::test]
async fn all_kinds_but_secrets_are_recorded_by_default() {
    let world = World::new().await;
    let screen = world.run("record -o @all.rec --count 1").await;
    assert!(screen.contains("into all.rec; end with Ctrl-C"), "{screen}");
    let recording = watchkeeper_recording::Recording::open(world.directory.path().join("all.rec")).unwrap();
    let resources = recording.resources().unwrap();
    let names: Vec<_> = resources
        .iter()
        .map(|found| found.group_resource().to_string())
        .collect();
    for kind in [
        "pods",
        "deployments.apps",
        "customresourcedefinitions.apiextensions.k8s.io",
        "events",
    ] {
        assert!(names.iter().any(|name| name == kind), "{names:?}");
    }
    assert!(
        !names
            .iter()
            .any(|name| name == "secrets" || name == "events.events.k8s.io"),
        "{names:?}"
    );
    assert!(recording.header().cluster.id.is_some());
    check(
        &world,
        "record secrets -o @none.rec",
        expect![[r#"
        stderr: error: there is nothing to record: Secrets are recorded only if asked for
        exit 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn secrets_are_masked_on_demand() {
    let world = World::new().await;
    world.write(
        "secret.yaml",
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: hunter2}}",
    );
    world.run("apply -f @secret.yaml").await;
    world
        .run("record secrets --secrets --redact -o @secrets.rec --count 1")
        .await;
    let path = world.directory.path().join("secrets.rec");
    let recording = watchkeeper_recording::Recording::open(path).unwrap();
    let state = recording.state_at(&watchkeeper_recording::Moment::End).unwrap();
    let (_, secret) = state.objects().next().unwrap();
    let text = String::from_utf8(secret.bytes().to_vec()).unwrap();
    assert!(
        !text.contains("hunter2") && !text.contains("aHVudGVyMg"),
        "{text}"
    );
    assert!(text.contains("cmVkYWN0ZWQ="), "{text}");
}

#[tokio::test]
async fn history_tells_when_who_and_what() {
    let world = recorded().await;
    check(
        &world,
        "history cm sky --recording @sky.rec",
        expect![[r#"
            TIME  LISTED    configmap/sky in default  version N  by watchkeeper (Apply)
            TIME  MODIFIED  configmap/sky in default  version N  by watchkeeper (Apply)
                data.colour: "blue" → "red"
                (N more: managed fields, versions, heartbeats)
            TIME  MODIFIED  configmap/sky in default  version N  by cli (Update)
                + metadata.labels: {"seen":"yes"}
                (N more: managed fields, versions, heartbeats)
            TIME  DELETED   configmap/sky in default  version N
        "#]],
    )
    .await;
    let screen = world.run("history cm/sky --recording @sky.rec -o json").await;
    let line = screen.lines().nth(1).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["type"], "MODIFIED");
    assert_eq!(line["changes"][0]["path"], "data.colour");
    assert_eq!(line["changes"][0]["old"], "blue");
    assert!(line["by"][0]["manager"].is_string(), "{line}");
    check(
        &world,
        "history cm other --recording @sky.rec",
        expect![[r#"
        stderr: error: the recording has no configmap/other in default
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "history cm sky -n shop --recording @sky.rec",
        expect![[r#"
        stderr: error: the recording has no configmap/sky in shop; there is one in default: -n default
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "history pods x --recording @sky.rec",
        expect![[r#"
        stderr: error: the recording has no "pods"; it has configmaps
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        "history cm sky --recording @missing.rec",
        expect![[r#"
            stderr: error: cannot read recording missing.rec: No such file or directory (os error 2)
            exit 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn two_moments_are_compared() {
    let world = recorded().await;
    let path = world.directory.path().join("sky.rec");
    let recording = watchkeeper_recording::Recording::open(path).unwrap();
    let objects = recording.entries().map(|entry| entry.unwrap());
    let versions = objects.filter(|entry| entry.object().is_some());
    let versions: Vec<u64> = versions.filter_map(|entry| entry.revision).collect();
    let (first, last) = (versions[0], versions[2]);
    check(
        &world,
        &format!("diff @sky.rec --from {first} --to {last}"),
        expect![[r#"
            MODIFIED  configmap/sky in default  version N  by watchkeeper (Apply), cli (Update)
                data.colour: "blue" → "red"
                + metadata.labels: {"seen":"yes"}
                (N more: managed fields, versions, heartbeats)
        "#]],
    )
    .await;
    check(
        &world,
        &format!("diff @sky.rec configmaps -n default --from {last}"),
        expect![[r#"
            DELETED   configmap/sky in default  version N
        "#]],
    )
    .await;
    check(&world, "diff @sky.rec --from yesterday", expect![[r#"
        stderr: error: invalid value 'yesterday' for '--from <MOMENT>': "yesterday" is no moment: type TIME, a version such as N, or end
        stderr: See 'watchkeeper diff --help' for usage.
        exit 1
    "#]]).await;
}

#[tokio::test]
async fn without_moments_the_start_of_a_recording_is_compared_with_its_end() {
    let world = World::new().await;
    let map = |name: &str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{a: b}}}}")
    };
    world
        .write("old.yaml", &map("old"))
        .write("new.yaml", &map("new"));
    world.run("apply -f @old.yaml").await;
    world.run("record cm -n default -o @maps.rec --count 1").await;
    world.run("apply -f @new.yaml").await;
    world.run("record cm -n default -o @maps.rec --count 1").await;
    check(
        &world,
        "diff @maps.rec",
        expect![[r#"
            ADDED     configmap/new in default  version N  by watchkeeper (Apply)
        "#]],
    )
    .await;
    check(
        &world,
        "diff @new.yaml",
        expect![[r#"
            stderr: error: new.yaml is not a recording; manifests are compared with -f new.yaml
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "diff @maps.rec --from 1",
        expect![[r#"
            stderr: error: version 1 is before the recording, which is complete from version N on
            exit 1
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_moment_after_the_end_is_the_end_with_a_warning() {
    let world = World::new().await;
    world.write(
        "sky.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: sky}}",
    );
    world.run("apply -f @sky.yaml").await;
    world.run("record cm -n default -o @sky.rec --count 1").await;
    check(
        &world,
        "get cm --recording @sky.rec -o name --at 2999-12-31T00:00:00Z",
        expect![[r#"
            configmap/sky
            stderr: Warning: TIME is after the end of the recording, version N at TIME; this is the end
        "#]],
    )
    .await;
    check(
        &world,
        "get cm --recording @sky.rec -o name --at 999999",
        expect![[r#"
            configmap/sky
            stderr: Warning: version N is after the end of the recording, version N at TIME; this is the end
        "#]],
    )
    .await;
    for line in [
        "diff @sky.rec --to 999999",
        "replay @sky.rec --at 999999 --dry-run",
    ] {
        let screen = world.run(line).await;
        assert!(
            screen.contains("Warning: version 999999 is after the end"),
            "{screen}"
        );
        assert!(!screen.contains("exit"), "{screen}");
    }
}

#[tokio::test]
async fn a_recording_without_entries_is_named_as_such() {
    let world = recorded().await;
    let path = world.directory.path().join("sky.rec");
    let whole = std::fs::read(&path).unwrap();
    let is_header = |length: &usize| {
        std::fs::write(&path, &whole[..*length]).unwrap();
        watchkeeper_recording::Recording::open(&path).is_ok()
    };
    let header = (0..whole.len()).find(is_header).unwrap();
    assert!(header > 0 && header < whole.len());
    for line in [
        "get cm --recording @sky.rec",
        "get cm --recording @sky.rec --at 100",
        "get cm --recording @sky.rec --at 2026-01-31T12:00:00Z",
        "diff @sky.rec",
        "diff @sky.rec --from 100",
        "history cm sky --recording @sky.rec",
        "bisect cm sky --check .data.colour --recording @sky.rec",
        "replay @sky.rec --listen 127.0.0.1:0 --dry-run",
    ] {
        check(
            &world,
            line,
            expect![[r#"
                stderr: error: recording sky.rec has no entries yet
                exit 1
            "#]],
        )
        .await;
    }
}

#[tokio::test]
async fn the_event_at_which_a_condition_came_true_is_found() {
    let world = recorded().await;
    check(
        &world,
        "bisect cm sky --check {.data.colour}=red --recording @sky.rec",
        expect![[r#"
            TIME  MODIFIED  configmap/sky in default  version N  by watchkeeper (Apply)
                data.colour: "blue" → "red"
                (N more: managed fields, versions, heartbeats)
        "#]],
    )
    .await;
    let braces = world
        .run("bisect cm sky --check {.data.colour}=red --recording @sky.rec")
        .await;
    let none = world
        .run("bisect cm sky --check .data.colour=red --recording @sky.rec")
        .await;
    assert_eq!(none, braces, "braces are optional");
    check(
        &world,
        "bisect cm --check {.metadata.labels.seen} --recording @sky.rec",
        expect![[r#"
            TIME  MODIFIED  configmap/sky in default  version N  by cli (Update)
                + metadata.labels: {"seen":"yes"}
                (N more: managed fields, versions, heartbeats)
        "#]],
    )
    .await;
    check(
        &world,
        "bisect cm sky --check {.data.colour}=green --recording @sky.rec",
        expect![[r#"
            stderr: The condition was never true.
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "bisect cm sky --check color=green --recording @sky.rec",
        expect![[r#"
            stderr: The condition was never true: no version has the field {color}.
            exit 1
        "#]],
    )
    .await;
    check(
        &world,
        "bisect cm --check {.a --recording @sky.rec",
        expect![[r#"
            stderr: error: invalid value '{.a' for '--check <CONDITION>': "{.a" has a brace that is not closed
            stderr: See 'watchkeeper bisect --help' for usage.
            exit 1
        "#]],
    )
    .await;
}

/// Runs `watch` on a config map, changes and deletes it once the watch has told of it; returns what is on the screen.
async fn watched(options: &str) -> String {
    watched_as(Look::Plain, options).await
}

async fn watched_as(look: Look, options: &str) -> String {
    let world = World::new().await;
    let map = |colour: &str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: sky}}, data: {{colour: {colour}}}}}")
    };
    world
        .write("blue.yaml", &map("blue"))
        .write("red.yaml", &map("red"));
    world.run("apply -f @blue.yaml").await;
    let (out, kept) = Output::kept();
    let text = || String::from_utf8(kept.lock().unwrap().clone()).unwrap();
    let mut session = world.session(out, Output::kept().0, "");
    session.look = look;
    let words = world.words(&format!("watch cm --diff --count 3 {options}"));
    let changes = async {
        while !text().contains("ADDED") {
            tokio::task::yield_now().await;
        }
        world.run("apply -f @red.yaml").await;
        world.run("delete cm sky").await;
    };
    tokio::join!(watchkeeper_cli::run(words, &mut session), changes);
    text()
}

#[tokio::test]
async fn watched_changes_are_told_field_by_field() {
    expect![[r#"
        ADDED     configmap/sky in default  version N  by watchkeeper (Apply)
        MODIFIED  configmap/sky in default  version N  by watchkeeper (Apply)
            data.colour: "blue" → "red"
            (N more: managed fields, versions, heartbeats)
        DELETED   configmap/sky in default  version N
    "#]]
    .assert_eq(&steady(&watched("").await));
    let screen = watched("-o json").await;
    let mut lines = screen
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let modified = lines.find(|line| line["type"] == "MODIFIED").unwrap();
    assert_eq!(
        modified["changes"],
        serde_json::json!([{"path": "data.colour", "old": "blue", "new": "red"}])
    );
    assert!(modified["by"][0]["manager"].is_string(), "{modified}");
}

#[tokio::test]
async fn watched_changes_have_colours_and_all_their_fields_if_asked_for() {
    let screen = watched_as(Look::Colour, "--all-fields").await;
    for text in [
        "\x1b[32mADDED   \x1b[0m",
        "\x1b[33mMODIFIED\x1b[0m",
        "data.colour: \x1b[31m\"blue\"\x1b[0m → \x1b[32m\"red\"\x1b[0m\n",
        "    metadata.resourceVersion: ",
        "  by \x1b[36mwatchkeeper (Apply)\x1b[0m\n",
        "\x1b[31mDELETED \x1b[0m",
    ] {
        assert!(screen.contains(text), "{text:?} is not in\n{screen}");
    }
    assert!(!screen.contains(" more: "), "{screen}");
}

#[tokio::test]
async fn gaps_are_among_the_watched_changes_of_several_kinds() {
    let world = World::new().await;
    let map = |name: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
    let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}";
    world.write("a.yaml", &map("a")).write("b.yaml", &map("b"));
    world.write("robot.yaml", account);
    world.run("create -f @a.yaml").await;
    let watch =
        "watch cm,serviceaccounts --field-selector metadata.name!=default --diff --position @position";
    world.run(&format!("{watch} --count 1")).await;
    for line in ["delete cm a", "create -f @b.yaml", "create -f @robot.yaml"] {
        world.run(line).await;
    }
    world.compact().await;
    let screen = world.run(&format!("{watch} --count 3")).await;
    let changes = screen.lines().filter(|line| !line.starts_with("stderr: "));
    // The reason ends with versions, which differ from run to run.
    let changes = changes.map(|line| line.split(" resource version: ").next().unwrap_or(line));
    let mut lines: Vec<_> = changes.collect();
    lines.sort_unstable();
    expect![[r#"
        ADDED     configmap/b in default  version N
        ADDED     serviceaccount/robot in default  version N
        DELETED   configmap/a in default  version N  found by comparison; its end was not seen
        GAP       configmaps  version N  events are missing here: too old
        GAP       serviceaccounts  version N  events are missing here: too old
    "#]]
    .assert_eq(&steady(&(lines.join("\n") + "\n")));
}

#[tokio::test]
async fn namespaces_and_labels_narrow_what_is_recorded() {
    let world = World::new().await;
    let map = |name: &str, namespace: &str, app: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {app}}}}}}}\n---\n"
        )
    };
    let maps = [
        map("a", "default", "web"),
        map("b", "kube-public", "web"),
        map("c", "kube-system", "web"),
        map("d", "default", "other"),
    ];
    world.write("maps.yaml", &maps.concat());
    world.run("create -f @maps.yaml").await;
    world
        .run("record cm -n default,kube-public -l app=web -o @maps.rec --count 2")
        .await;
    let recording = watchkeeper_recording::Recording::open(world.directory.path().join("maps.rec")).unwrap();
    let state = recording.state_at(&watchkeeper_recording::Moment::End).unwrap();
    let names: Vec<_> = state
        .objects()
        .map(|(_, object)| object.name().to_owned())
        .collect();
    assert_eq!(names, ["a", "b"]);
    // Without a name, a namespace narrows what is searched.
    let found = "bisect cm --check {.metadata.labels.app}=web --all --recording @maps.rec";
    for (namespace, expected) in [("", vec!["a", "b"]), (" -n kube-public", vec!["b"])] {
        let screen = world.run(&format!("{found} -o json{namespace}")).await;
        let lines = screen
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut names: Vec<_> = lines
            .map(|line| line["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{screen}");
    }
}

#[tokio::test]
async fn the_past_is_shown_from_a_recording_and_from_a_cluster() {
    let world = recorded().await;
    let path = world.directory.path().join("sky.rec");
    let recording = watchkeeper_recording::Recording::open(path).unwrap();
    let objects = recording.entries().map(|entry| entry.unwrap());
    let versions = objects.filter(|entry| entry.object().is_some());
    let versions: Vec<u64> = versions.filter_map(|entry| entry.revision).collect();
    let colour = "-o jsonpath={.items[*].data.colour}@{.items[*].metadata.resourceVersion}";
    for source in ["", "--recording @sky.rec"] {
        for (at, expected) in [
            (versions[1] - 1, format!("blue@{}", versions[0])),
            (versions[1], format!("red@{}", versions[1])),
            (versions[3], "@".to_owned()),
        ] {
            let line = format!("get cm -n default --at {at} {source} {colour}");
            assert_eq!(world.run(&line).await, expected, "{line}");
        }
    }
    check(
        &world,
        &format!(
            "get cm sky --recording @sky.rec --at {} -o custom-columns=NAME:.metadata.name,SEEN:.metadata.labels.seen",
            versions[2]
        ),
        expect![[r#"
            NAME   SEEN
            sky    yes
        "#]],
    )
    .await;
    check(&world, "get cm --at 2026-01-01T00:00:00Z", expect![[r#"
        stderr: error: the history of a cluster has versions, not times: name a version, or a recording with --recording
        exit 1
    "#]]).await;
    check(&world, "get cm sky --at 3", expect![[r#"
        stderr: error: --at shows lists: use --field-selector metadata.name=NAME for one object, or --recording
        exit 1
    "#]]).await;
    check(
        &world,
        "get cm --recording @sky.rec --at 1",
        expect![[r#"
        stderr: error: version 1 is before the recording, which is complete from version N on
        exit 1
    "#]],
    )
    .await;
    check(
        &world,
        &format!("replay @sky.rec --at {} --dry-run", versions[2]),
        expect![[r#"
            sky.rec at version N, TIME: N objects
        "#]],
    )
    .await;
    check(&world, "replay @sky.rec --speed fast", expect![[r#"
        stderr: error: invalid value 'fast' for '--speed <SPEED>': "fast" is no speed: type 10x, 0.5x, max or step
        stderr: See 'watchkeeper replay --help' for usage.
        exit 1
    "#]]).await;
}
