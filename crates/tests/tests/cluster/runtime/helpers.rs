//! Finalizers, waits and Events, on the embedded server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchkeeper_client::ResourceType;
use watchkeeper_meta::{ObjectKey, ObjectMeta, Resource};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::controller::Action;
use watchkeeper_runtime::finalizer::{FinalizerError, Phase, finalizer};
use watchkeeper_runtime::informer::{Informer, InformerOptions};
use watchkeeper_runtime::wait::{Condition, wait_for};

use crate::runtime::support::{Cluster, SOON};

const NAME: &str = "example.com/cleanup";

/// Reconciles `a` once; returns what was done.
async fn reconcile(cluster: &Cluster) -> &'static str {
    let object = cluster.maps().get("a").await.expect("there");
    let mut done = "nothing";
    let maps = cluster.maps();
    let step = finalizer(&maps, NAME, object, async |phase| {
        done = match phase {
            Phase::Apply(object) if object.finalizers() == [NAME] => "applied",
            Phase::Apply(_) => "applied without the finalizer",
            Phase::Cleanup(_) => "cleaned up",
        };
        Ok::<_, Infallible>(Action::Done)
    });
    step.await.expect("succeeds");
    done
}

#[tokio::test(start_paused = true)]
async fn an_object_stays_until_its_cleanup_is_done() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    assert_eq!(
        reconcile(&cluster).await,
        "applied",
        "the finalizer is added first, and no other change is needed"
    );
    assert_eq!(reconcile(&cluster).await, "applied");
    cluster.delete("a").await;
    assert_eq!(reconcile(&cluster).await, "cleaned up");
    let gone = cluster.maps().get("a").await;
    assert!(gone.is_err_and(|error| error.is_not_found()));
}

#[tokio::test(start_paused = true)]
async fn a_failed_cleanup_keeps_the_object() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    reconcile(&cluster).await;
    cluster.delete("a").await;
    let object = cluster.maps().get("a").await.expect("there");
    let failed = finalizer(&cluster.maps(), NAME, object, async |_| Err(std::fmt::Error)).await;
    assert!(matches!(failed, Err(FinalizerError::Cleanup(_))));
    assert!(cluster.maps().get("a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_write_is_detected() {
    let cluster = Cluster::start().await;
    let stale = cluster.create("a").await;
    cluster.change("a", "two").await;
    let apply = async |_| Ok::<_, Infallible>(Action::Done);
    let error = finalizer(&cluster.maps(), NAME, stale, apply).await.unwrap_err();
    assert!(error.is_stale(), "{error:?}");
    let FinalizerError::Add(error) = error else {
        panic!("it was to be added");
    };
    assert_eq!(error.status().map(|status| status.code), Some(422));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_its_condition_holds_or_reports_why_not() {
    let cluster = Cluster::start().await;
    let options = InformerOptions::default();
    let informer = Informer::start(Arc::new(ApiSource::new(cluster.maps())), options);
    let key = ObjectKey::new("default", "a");
    let two = Condition::field("/data/key", "two");
    let error = wait_for(&informer, &key, &two, Duration::from_secs(5))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"default/a is not /data/key="two" after 5s (synced)"#
    );
    let created = cluster.create("a").await;
    let waits = wait_for(&informer, &key, &two, SOON);
    let (waited, _) = tokio::join!(waits, cluster.change("a", "two"));
    assert_eq!(waited.expect("in time").expect("there").name(), "a");
    let gone = Condition::deleted(created.uid());
    let (waited, ()) = tokio::join!(wait_for(&informer, &key, &gone, SOON), cluster.delete("a"));
    assert!(waited.expect("in time").is_none());
}

/// The watch breaks and is refused during a wait, which continues.
#[tokio::test(start_paused = true)]
async fn a_wait_survives_failures_of_the_watch() {
    use watchkeeper_meta::Status;
    use watchkeeper_server::{Flow, RequestMatch, Verb};
    let cluster = Cluster::start().await;
    let options = InformerOptions::default();
    let informer = Informer::start(Arc::new(ApiSource::new(cluster.maps())), options);
    informer.synced(SOON).await.expect("synced");
    let (faults, watches) = (
        cluster.server.faults(),
        RequestMatch::new(Verb::Watch, "configmaps"),
    );
    let broken = Status::internal_error("broken");
    faults.answer_next(watches.clone(), 2, broken).expect("planned");
    faults.set_flow(&watches, Flow::Cut);
    let (key, there) = (ObjectKey::new("default", "a"), Condition::exists());
    let waits = wait_for(&informer, &key, &there, SOON);
    let (waited, _) = tokio::join!(waits, cluster.create("a"));
    assert_eq!(waited.expect("in time").expect("there").name(), "a");
}

#[tokio::test(start_paused = true)]
async fn recorded_notes_become_events_with_counts() {
    use watchkeeper_runtime::recorder::{EventType, Note, Recorder};
    let cluster = Cluster::start().await;
    let object = cluster.create("a").await;
    let (recorder, writer) = Recorder::start(&cluster.client, "tester", None);
    let note = |message: &str| Note {
        event_type: EventType::Warning,
        reason: "Odd".into(),
        message: message.into(),
    };
    for message in ["one", "two", "one", "one"] {
        recorder.record(&object, note(message));
    }
    drop(recorder);
    writer.finish().await;
    let events = cluster
        .client
        .dynamic(crate::runtime::support::events())
        .namespace("default");
    let events = events.list().await.expect("a list");
    let mut told: Vec<_> = events
        .items
        .iter()
        .filter_map(|event| event.to_value().ok())
        .collect();
    told.retain(|event| event["involvedObject"]["name"] == "a");
    told.sort_by_key(|event| event["message"].to_string());
    let told: Vec<_> = told
        .iter()
        .map(|event| (event["message"].as_str(), event["count"].as_i64()))
        .collect();
    assert_eq!(told, [(Some("one"), Some(3)), (Some("two"), Some(1))]);
}

#[derive(Serialize, Deserialize)]
struct Settings {
    metadata: ObjectMeta,
}

impl ResourceType for Settings {
    fn resource() -> Resource {
        Resource::namespaced("", "v1", "ConfigMap", "configmaps")
    }
}

#[tokio::test(start_paused = true)]
async fn a_note_about_a_struct_names_its_object() {
    use watchkeeper_runtime::recorder::{Note, Recorder};
    let cluster = Cluster::start().await;
    let object = cluster.create("a").await;
    let settings: Settings = object.decode().expect("settings");
    let (recorder, writer) = Recorder::start(&cluster.client, "tester", None);
    recorder.record_for(&settings, Note::normal("Seen", "here"));
    drop(recorder);
    writer.finish().await;
    let events = cluster.client.dynamic(crate::runtime::support::events());
    let events = events.namespace("default").list().await.expect("a list");
    let told = events.items.iter().filter_map(|event| event.to_value().ok());
    let told: Vec<_> = told.filter(|event| event["reason"] == "Seen").collect();
    let expected = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "a", "uid": object.uid(),
    });
    let about: Vec<_> = told.iter().map(|event| &event["involvedObject"]).collect();
    assert_eq!(about, [&expected]);
}

#[tokio::test(start_paused = true)]
async fn notes_wait_for_an_unreachable_server_and_excess_ones_are_dropped() {
    use watchkeeper_runtime::recorder::{EventType, Note, QUEUE, RETRY_EVERY, Recorder};
    let cluster = Cluster::start().await;
    let object = cluster.create("a").await;
    let faults = cluster.server.faults();
    faults.refuse_connections(true);
    let client = watchkeeper_testing::client_of(&cluster.server, Default::default()).expect("a client");
    let (recorder, writer) = Recorder::start(&client, "tester", None);
    let note = Note {
        event_type: EventType::Normal,
        reason: "Odd".into(),
        message: "again".into(),
    };
    for _ in 0..QUEUE + 10 {
        recorder.record(&object, note.clone());
    }
    assert_eq!(recorder.dropped(), 10, "nobody has taken one yet");
    drop(recorder);
    tokio::time::sleep(RETRY_EVERY * 3 / 2).await;
    faults.refuse_connections(false);
    writer.finish().await;
    let events = cluster
        .client
        .dynamic(crate::runtime::support::events())
        .namespace("default");
    let events = events.list().await.expect("a list").items;
    let about = |event: &watchkeeper_wire::Object| event.name().starts_with("a.");
    let written: Vec<_> = events.into_iter().filter(about).collect();
    assert_eq!(written.len(), 1, "{written:?}");
}
