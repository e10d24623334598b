//! Recordings of the embedded server, and clusters replayed from them.

mod coming_and_going;
mod incident;
mod playing;

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use watchkeeper_client::{Client, DynamicApi, WatchEvent};
use watchkeeper_meta::{Resource, WatchOptions};
use watchkeeper_recording::{RecordOptions, Recorder, Recording, What};
use watchkeeper_testing::TestCluster;
use watchkeeper_testing::replay::ReplayOptions;

fn config_maps() -> Resource {
    Resource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn objects(client: &Client, resource: Resource) -> DynamicApi {
    client
        .dynamic(resource)
        .json_only()
        .keep_managed_fields()
        .namespace("default")
}

fn only(resource: Resource) -> RecordOptions {
    RecordOptions {
        resources: Some(vec![resource]),
        ..Default::default()
    }
}

/// Records until the recording has reached the cluster's current version.
async fn catch_up(recorder: &mut Recorder, cluster: &TestCluster) {
    let api = cluster.client().dynamic(config_maps()).metadata_only();
    let version: u64 = api
        .list()
        .await
        .unwrap()
        .head
        .resource_version
        .as_str()
        .parse()
        .unwrap();
    let marker =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("marker-{version}")}});
    let api = objects(cluster.client(), config_maps());
    let name = format!("marker-{version}");
    api.create(&marker).await.unwrap();
    let has_marker = |recorder: &Recorder| {
        recorder
            .state()
            .objects()
            .any(|(_, object)| object.name() == name)
    };
    while !has_marker(recorder) || recorder.is_listing() {
        recorder.next().await.unwrap();
    }
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Write(u8, u8),
    Delete(u8),
    /// The recorder catches up.
    Record,
    /// The recorder stops; later changes are not seen.
    Cut,
    /// The server compacts its history.
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..4_u8, any::<u8>()).prop_map(|(name, data)| Step::Write(name, data)),
        2 => (0..4_u8).prop_map(Step::Delete),
        2 => Just(Step::Record),
        1 => Just(Step::Cut),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..25)
}

async fn apply(cluster: &TestCluster, step: &Step) {
    let api = objects(cluster.client(), config_maps());
    match step {
        Step::Write(name, data) => {
            let name = format!("m{name}");
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"d": data.to_string()}});
            if api.find(&name).await.unwrap().is_some() {
                api.update(&name, &map).await.unwrap();
            } else {
                api.create(&map).await.unwrap();
            }
        }
        Step::Delete(name) => {
            let _ = api.delete(&format!("m{name}")).await;
        }
        Step::Compact => {
            let store = cluster.server().registry().store();
            store.compact(store.current_revision()).await.unwrap();
        }
        Step::Record | Step::Cut => {}
    }
}

async fn listed(client: &Client) -> Vec<Value> {
    let list = objects(client, config_maps()).list().await.unwrap();
    list.items
        .iter()
        .map(|object| object.to_value().unwrap())
        .collect()
}

/// Runs a history with a recorder, then replays the recording and compares lists and watches.
async fn check(steps: Vec<Step>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("any.rec");
    let cluster = TestCluster::start().await.unwrap();
    let mut recorder = None;
    for step in steps.iter().chain(&[Step::Record]) {
        apply(&cluster, step).await;
        match step {
            Step::Record => {
                let mut running = match recorder.take() {
                    Some(running) => running,
                    None => Recorder::start(cluster.client(), &path, only(config_maps()))
                        .await
                        .unwrap(),
                };
                catch_up(&mut running, &cluster).await;
                recorder = Some(running);
            }
            Step::Cut => {
                if let Some(running) = recorder.take() {
                    running.finish().unwrap();
                }
            }
            _ => {}
        }
    }
    recorder.unwrap().finish().unwrap();
    let replayed = TestCluster::replay(&path, ReplayOptions::default())
        .await
        .unwrap();
    assert_eq!(
        listed(replayed.client()).await,
        listed(cluster.client()).await,
        "{steps:?}"
    );
    assert_eq!(watched(&replayed, &path).await, recorded(&path), "{steps:?}");
    replayed.stop().await;
    cluster.stop().await;
}

/// Type, name and version of the recorded events after the initial list.
fn recorded(path: &Path) -> Vec<(String, String, String)> {
    let entries = Recording::open(path).unwrap().entries();
    let entries = entries.map(|entry| entry.unwrap());
    let events = entries.skip_while(|entry| !matches!(entry.what, What::Synced(_)));
    let mut events: Vec<_> = events
        .filter(|entry| entry.object().is_some())
        .map(|entry| {
            let (object, revision) = (entry.object().unwrap().clone(), entry.revision.unwrap());
            (revision, (entry.what.word().to_owned(), object.name().to_owned()))
        })
        .collect();
    events.sort_by_key(|(revision, _)| *revision);
    let shown = events
        .into_iter()
        .map(|(revision, (word, name))| (word, name, revision.to_string()));
    shown.collect()
}

/// The same from a watch after the initial list.
async fn watched(cluster: &TestCluster, path: &Path) -> Vec<(String, String, String)> {
    let mut entries = Recording::open(path)
        .unwrap()
        .entries()
        .map(|entry| entry.unwrap());
    let synced = entries
        .find(|entry| matches!(entry.what, What::Synced(_)))
        .unwrap();
    let options = WatchOptions {
        resource_version: synced.revision.unwrap().into(),
        timeout_seconds: Some(1),
        ..Default::default()
    };
    let api = objects(cluster.client(), config_maps());
    let mut events = api.watch().with(&options).await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = events.next().await {
        let (word, object) = match event.unwrap() {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            _ => continue,
        };
        told.push((
            word.to_owned(),
            object.name().to_owned(),
            object.resource_version().to_owned(),
        ));
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_replay_has_the_recorded_lists_and_watches(steps in steps()) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(check(steps));
    }
}
