//! Kinds that are added and removed, and permissions that are revoked, during a recording.

use serde_json::json;
use watchkeeper_meta::{ObjectKey, Resource};
use watchkeeper_recording::{Moment, RecordOptions, Recorded, Recorder, Recording, What};
use watchkeeper_server::{Action, Flow, RequestMatch, Rule, Verb};
use watchkeeper_testing::TestCluster;
use watchkeeper_testing::replay::{Played, ReplayOptions};

use super::{catch_up, config_maps, objects, only};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  names: {plural: boats, singular: boat, kind: Boat}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {sails: {type: integer}}}}
";

fn boats() -> Resource {
    Resource::namespaced("example.com", "v1", "Boat", "boats")
}

/// Records until a matching entry was written.
async fn until(recorder: &mut Recorder, wanted: impl Fn(&Recorded) -> bool) -> Recorded {
    loop {
        let recorded = recorder.next().await.unwrap();
        if wanted(&recorded) {
            return recorded;
        }
    }
}

/// Records a kind that is defined, gets an object, and is removed.
async fn record_boats(path: &std::path::Path) {
    let cluster = TestCluster::start().await.unwrap();
    let mut recorder = Recorder::start(cluster.client(), path, RecordOptions::default())
        .await
        .unwrap();
    catch_up(&mut recorder, &cluster).await;
    cluster.load(DEFINITION).await.unwrap();
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "ark"}, "spec": {"sails": 1}});
    objects(cluster.client(), boats()).create(&boat).await.unwrap();
    let is_boat = |recorded: &Recorded| match recorded {
        Recorded::Event(stream, event) => stream.starts_with("boats") && event.key().is_some(),
        _ => false,
    };
    until(&mut recorder, is_boat).await;
    let definitions = Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    let api = cluster.client().dynamic(definitions);
    api.delete("boats.example.com").await.unwrap();
    let has_ended =
        |recorded: &Recorded| matches!(recorded, Recorded::Ended(stream, _) if stream.starts_with("boats"));
    let ended = until(&mut recorder, has_ended).await;
    let Recorded::Ended(_, reason) = ended else {
        unreachable!()
    };
    assert_eq!(reason, "the server does not serve it any more");
    recorder.finish().unwrap();
    cluster.stop().await;
}

async fn is_served(cluster: &TestCluster) -> bool {
    let discovery = cluster.client().discover().await.unwrap();
    discovery.resources().any(|found| found.resource.kind == "Boat")
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_is_served_while_it_was_defined() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("boats.rec");
    record_boats(&path).await;
    let recording = Recording::open(&path).unwrap();
    let versions = recording
        .versions(&boats(), &ObjectKey::new("default", "ark"))
        .unwrap();
    let there = versions[0].revision.unwrap();

    let options = |at| ReplayOptions {
        at: Moment::Revision(at),
        ..Default::default()
    };
    let cluster = TestCluster::replay(&path, options(there)).await.unwrap();
    let ark = objects(cluster.client(), boats()).get("ark").await.unwrap();
    assert_eq!(ark.to_value().unwrap()["spec"]["sails"], 1);
    assert_eq!(ark.resource_version(), there.to_string());
    // It is writable, with the recorded schema.
    let patch = json!({"spec": {"sails": 2}});
    let api = objects(cluster.client(), boats());
    let written = api.patch("ark", watchkeeper_meta::PatchKind::Merge, &patch).await;
    assert_eq!(written.unwrap().to_value().unwrap()["spec"]["sails"], 2);
    let patch = json!({"spec": {"sails": "many"}});
    let refused = api.patch("ark", watchkeeper_meta::PatchKind::Merge, &patch).await;
    assert!(refused.unwrap_err().is_invalid());
    cluster.stop().await;

    // Replayed from before the definition, the kind is added and removed again.
    let definition = recording
        .entries()
        .map(|entry| entry.unwrap())
        .find(
            |entry| matches!(&entry.what, What::Added(object) if object.kind() == "CustomResourceDefinition"),
        )
        .unwrap();
    let cluster = TestCluster::replay(&path, options(definition.revision.unwrap() - 1))
        .await
        .unwrap();
    let mut served = vec![is_served(&cluster).await];
    while let Played::Step { .. } = cluster.play_step().await.unwrap() {
        let now = is_served(&cluster).await;
        if served.last() != Some(&now) {
            served.push(now);
        }
    }
    assert_eq!(served, [false, true, false]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_right_that_ends_is_noted_and_nothing_is_lost_when_it_returns() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("maps.rec");
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client_as("recorder", &["system:masters"]).unwrap();
    let mut recorder = Recorder::start(&client, &path, only(config_maps()))
        .await
        .unwrap();
    catch_up(&mut recorder, &cluster).await;

    let recorders = |verb| RequestMatch {
        user: Some("recorder".to_owned()),
        ..RequestMatch::new(verb, "configmaps")
    };
    let faults = cluster.faults();
    let rules = [Verb::Watch, Verb::List].map(|verb| {
        faults
            .inject(Rule::always(recorders(verb), Action::Forbid))
            .unwrap()
    });
    assert_eq!(faults.set_flow(&recorders(Verb::Watch), Flow::Cut), 1);
    let failed = until(&mut recorder, |recorded| matches!(recorded, Recorded::Failed(..))).await;
    let Recorded::Failed(_, mut reason) = failed else {
        unreachable!()
    };
    // The connection breaks first, then the request is forbidden.
    while !reason.contains("forbidden") {
        let failed = until(&mut recorder, |recorded| matches!(recorded, Recorded::Failed(..))).await;
        let Recorded::Failed(_, next) = failed else {
            unreachable!()
        };
        reason = next;
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "unseen"}});
    let api = objects(cluster.client(), config_maps());
    api.create(&map).await.unwrap();
    api.delete("unseen").await.unwrap();
    for rule in rules {
        faults.remove(rule);
    }
    catch_up(&mut recorder, &cluster).await;
    recorder.finish().unwrap();
    cluster.stop().await;

    let recording = Recording::open(&path).unwrap();
    let versions = recording.versions(&config_maps(), &ObjectKey::new("default", "unseen"));
    let words: Vec<_> = versions.unwrap().iter().map(|entry| entry.what.word()).collect();
    assert_eq!(
        words,
        ["ADDED", "DELETED"],
        "the server remembered, so there is no gap"
    );
    let failures = recording.entries().map(|entry| entry.unwrap());
    let is_noted = |what: &What| matches!(what, What::Failed(reason) if reason.contains("forbidden"));
    assert!(failures.into_iter().any(|entry| is_noted(&entry.what)));
}
