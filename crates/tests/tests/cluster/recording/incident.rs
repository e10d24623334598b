//! Turns an incident into a test: two controllers fight over a field. One test records it, others replay the file.
//!
//! `incident.rec` was written by the first test, run with `WATCHKEEPER_KEEP_INCIDENT=1`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use watchkeeper_client::{DynamicApi, WatchEvent};
use watchkeeper_meta::{ObjectKey, PatchKind, PatchOptions, Resource, WatchOptions};
use watchkeeper_recording::{Author, Moment, Recorder, Recording, Update, What};
use watchkeeper_testing::TestCluster;
use watchkeeper_testing::replay::{Played, ReplayOptions, Speed};
use watchkeeper_wire::Object;

use super::{objects, only};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
";

fn deployments() -> Resource {
    Resource::namespaced("apps", "v1", "Deployment", "deployments")
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/recording/incident.rec")
}

/// A controller that wants a number of replicas.
struct Wanted {
    name: &'static str,
    replicas: u32,
    /// True if it leaves the field to another manager that owns it.
    gives_way: bool,
}

const AUTOSCALER: Wanted = Wanted {
    name: "autoscaler",
    replicas: 5,
    gives_way: false,
};
const GITOPS: Wanted = Wanted {
    name: "gitops",
    replicas: 1,
    gives_way: false,
};
const GITOPS_MENDED: Wanted = Wanted {
    gives_way: true,
    ..GITOPS
};

impl Wanted {
    /// Reconciles every version of the deployment.
    async fn run(&self, api: &DynamicApi) {
        let options = WatchOptions::default();
        let mut events = api.watch().with(&options).await.unwrap();
        while let Some(event) = events.next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event.unwrap() {
                self.reconcile(api, &object).await;
            }
        }
    }

    async fn reconcile(&self, api: &DynamicApi, object: &Object) {
        let value = object.to_value().unwrap();
        let is_others = || owner_of_replicas(&value).is_some_and(|owner| owner != self.name);
        if value["spec"]["replicas"] == self.replicas || (self.gives_way && is_others()) {
            return;
        }
        let options = PatchOptions {
            field_manager: Some(self.name.to_owned()),
            ..Default::default()
        };
        let patch = json!({"spec": {"replicas": self.replicas}});
        let patched = api.patch(object.name(), PatchKind::Merge, &patch);
        patched.with(&options).await.unwrap();
    }
}

fn owner_of_replicas(deployment: &Value) -> Option<&str> {
    let managers = deployment["metadata"]["managedFields"].as_array()?;
    let owner = managers
        .iter()
        .find(|manager| manager.pointer("/fieldsV1/f:spec/f:replicas").is_some())?;
    owner["manager"].as_str()
}

#[tokio::test(start_paused = true)]
async fn a_fight_over_a_field_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("incident.rec");
    let cluster = TestCluster::start().await.unwrap();
    cluster.load(DEPLOYMENT).await.unwrap();
    let mut recorder = Recorder::start(cluster.client(), &path, only(deployments()))
        .await
        .unwrap();
    let api = objects(cluster.client(), deployments());
    let record = async {
        let generation = |recorder: &Recorder| {
            let objects = recorder.state().objects_of(&deployments());
            objects.values().map(|object| object.generation()).max()
        };
        while generation(&recorder).unwrap_or_default() < 7 {
            recorder.next().await.unwrap();
        }
    };
    tokio::select! {
        () = record => {}
        () = AUTOSCALER.run(&api) => {}
        () = GITOPS.run(&api) => {}
    }
    recorder.finish().unwrap();
    cluster.stop().await;

    let authors = writers(&path);
    assert!(authors.len() >= 6, "{authors:?}");
    assert!(
        authors.windows(2).all(|pair| pair[0] != pair[1]),
        "they take turns: {authors:?}"
    );
    if std::env::var_os("WATCHKEEPER_KEEP_INCIDENT").is_some() {
        std::fs::copy(&path, fixture()).unwrap();
    }
}

/// The authors of each version after the first.
fn writers(path: &Path) -> Vec<String> {
    let recording = Recording::open(path).unwrap();
    let versions = recording.versions(&deployments(), &ObjectKey::new("default", "web"));
    let updates = versions
        .unwrap()
        .into_iter()
        .filter_map(|entry| match entry.what {
            What::Modified { object, previous } => Some(Update::between(Some(&previous), &object).unwrap()),
            _ => None,
        });
    updates
        .flat_map(|update| update.authors)
        .map(|Author { manager, .. }| manager)
        .collect()
}

/// The cluster right after the first write of the autoscaler.
async fn replayed() -> TestCluster {
    let recording = Recording::open(fixture()).unwrap();
    let versions = recording.versions(&deployments(), &ObjectKey::new("default", "web"));
    let scaled = versions.unwrap().into_iter().find(|entry| {
        let object = entry.object().unwrap().to_value().unwrap();
        object["spec"]["replicas"] == AUTOSCALER.replicas
    });
    let options = ReplayOptions {
        at: Moment::Revision(scaled.unwrap().revision.unwrap()),
        ..Default::default()
    };
    TestCluster::replay(fixture(), options).await.unwrap()
}

/// The write of a controller on the cluster of the incident.
async fn written_by(controller: &Wanted) -> String {
    let cluster = replayed().await;
    let api = objects(cluster.client(), deployments());
    let found = api.get("web").await.unwrap();
    assert_eq!(found.to_value().unwrap()["spec"]["replicas"], 5);
    controller.reconcile(&api, &found).await;
    let writes = cluster.take_writes().effective().to_string();
    cluster.stop().await;
    writes
}

#[tokio::test(start_paused = true)]
async fn the_recorded_fight_goes_on_with_the_old_controller_and_ends_with_the_mended_one() {
    assert_eq!(
        written_by(&GITOPS).await,
        "admin patch Deployment default/web: metadata.generation 2 → 3, spec.replicas 5 → 1\n"
    );
    assert_eq!(written_by(&GITOPS_MENDED).await, "");
}

#[tokio::test(start_paused = true)]
async fn what_was_recorded_happens_again_until_somebody_writes() {
    let cluster = replayed().await;
    let api = objects(cluster.client(), deployments());
    let mut replicas = Vec::new();
    for _ in 0..2 {
        assert!(matches!(cluster.play_step().await.unwrap(), Played::Step { .. }));
        replicas.push(api.get("web").await.unwrap().to_value().unwrap()["spec"]["replicas"].clone());
    }
    assert_eq!(replicas, [json!(1), json!(5)]);
    let patch = json!({"metadata": {"annotations": {"owner": "autoscaler"}}});
    let (fork, written) = (
        cluster.revision(),
        api.patch("web", PatchKind::Merge, &patch).await,
    );
    assert!(written.unwrap().resource_version().parse::<u64>().unwrap() > fork);
    assert_eq!(cluster.play(Speed::Max).await.unwrap(), Played::Forked);
    let now = api.get("web").await.unwrap().to_value().unwrap();
    assert_eq!(
        (&now["spec"]["replicas"], &now["metadata"]["annotations"]["owner"]),
        (&json!(5), &json!("autoscaler"))
    );
    cluster.stop().await;
}
