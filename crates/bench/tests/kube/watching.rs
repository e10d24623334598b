//! Watches, watchers with both ways to start, reflectors, and recovery from lost streams.

use std::pin::{Pin, pin};

use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use watchkeeper_server::{Flow, Handle, RequestMatch, Verb};

use crate::{object, soon, start};

/// Excludes the default objects of every namespace.
const OURS: &str = "team=ours";

fn api(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

async fn create(client: &Client, name: &str) -> ConfigMap {
    let map = object(json!({"metadata": {"name": name, "labels": {"team": "ours"}}}));
    api(client).create(&PostParams::default(), &map).await.unwrap()
}

async fn label(client: &Client, name: &str, team: &str) -> ConfigMap {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"team": team}}}));
    api(client)
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap()
}

async fn write(client: &Client, name: &str, colour: &str) -> ConfigMap {
    let patch = Patch::Merge(json!({"data": {"colour": colour}}));
    api(client)
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap()
}

async fn delete(client: &Client, name: &str) {
    api(client).delete(name, &DeleteParams::default()).await.unwrap();
}

fn watches() -> RequestMatch {
    RequestMatch::new(Verb::Watch, "configmaps")
}

#[tokio::test]
async fn a_watch_delivers_changes_after_its_version() {
    let (server, client) = start().await;
    let first = create(&client, "a").await;
    create(&client, "b").await;
    let params = WatchParams::default().labels(OURS).timeout(60);
    let version = first.resource_version().unwrap();
    let mut events = pin!(api(&client).watch(&params, &version).await.unwrap());
    write(&client, "a", "red").await;
    label(&client, "b", "theirs").await;
    label(&client, "b", "ours").await;
    delete(&client, "a").await;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let (word, map) = match soon(events.try_next()).await.unwrap().unwrap() {
            WatchEvent::Added(map) => ("added", map),
            WatchEvent::Modified(map) => ("modified", map),
            WatchEvent::Deleted(map) => ("deleted", map),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status}"),
        };
        seen.push(format!("{word} {}", map.name_any()));
    }
    assert_eq!(
        seen,
        ["added b", "modified a", "deleted b", "added b", "deleted a"]
    );
    server.shutdown().await;
}

#[tokio::test]
async fn an_old_version_is_expired() {
    let (server, client) = start().await;
    let old = create(&client, "a").await.resource_version().unwrap();
    write(&client, "a", "red").await;
    compact(&server).await;
    let mut events = pin!(api(&client).watch(&WatchParams::default(), &old).await.unwrap());
    match soon(events.try_next()).await.unwrap().unwrap() {
        WatchEvent::Error(status) => assert_eq!((status.code, &*status.reason), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    server.shutdown().await;
}

/// Compacts all history.
async fn compact(server: &Handle) {
    let store = server.registry().store();
    store.compact(store.current_revision()).await.unwrap();
}

type Events = Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<ConfigMap>>> + Send>>;

/// A watcher without backoff, so that no time needs to pass.
fn watch(client: &Client, config: watcher::Config) -> Events {
    Box::pin(watcher(api(client), config.labels(OURS)))
}

/// The next events as texts.
async fn next(events: &mut Events, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        seen.push(soon(events.next()).await.unwrap().unwrap().to_string());
    }
    seen
}

async fn a_watcher_sees_all(config: watcher::Config) {
    let (server, client) = start().await;
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let mut events = watch(&client, config);
    let seen = next(&mut events, 5).await;
    assert_eq!(
        seen,
        ["Init", "InitApply(a)", "InitApply(b)", "InitApply(c)", "InitDone"]
    );
    create(&client, "d").await;
    write(&client, "a", "red").await;
    label(&client, "c", "theirs").await;
    delete(&client, "b").await;
    let seen = next(&mut events, 4).await;
    assert_eq!(seen, ["Apply(d)", "Apply(a)", "Delete(c)", "Delete(b)"]);
    server.shutdown().await;
}

#[tokio::test]
async fn a_watcher_starts_with_a_list() {
    a_watcher_sees_all(watcher::Config::default()).await;
}

#[tokio::test]
async fn a_watcher_starts_with_a_paged_list() {
    a_watcher_sees_all(watcher::Config::default().page_size(1)).await;
}

#[tokio::test]
async fn a_watcher_starts_with_a_list_from_the_cache() {
    a_watcher_sees_all(watcher::Config {
        page_size: None,
        ..watcher::Config::default().any_semantic()
    })
    .await;
}

#[tokio::test]
async fn a_watcher_starts_with_a_streaming_list() {
    a_watcher_sees_all(watcher::Config::default().streaming_lists()).await;
}

/// kube treats a broken stream as one that has ended, and does not report it.
async fn a_watcher_resumes_after(flow: Flow) {
    let (server, client) = start().await;
    create(&client, "a").await;
    let mut events = watch(&client, watcher::Config::default());
    let seen = next(&mut events, 3).await;
    assert_eq!(seen, ["Init", "InitApply(a)", "InitDone"]);
    // The watch is established once it delivers an event.
    create(&client, "b").await;
    assert_eq!(next(&mut events, 1).await, ["Apply(b)"]);
    for name in ["c", "d", "e"] {
        assert_eq!(server.faults().set_flow(&watches(), flow), 1);
        create(&client, name).await;
        delete(&client, name).await;
        let seen = next(&mut events, 2).await;
        assert_eq!(
            seen,
            [format!("Apply({name})"), format!("Delete({name})")],
            "nothing lost, nothing twice"
        );
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_watcher_resumes_after_the_server_ends_its_stream() {
    a_watcher_resumes_after(Flow::Ended).await;
}

#[tokio::test]
async fn a_watcher_resumes_after_its_stream_breaks() {
    a_watcher_resumes_after(Flow::Cut).await;
}

#[tokio::test]
async fn a_watcher_of_metadata_sees_metadata() {
    let (server, client) = start().await;
    let whole = create(&client, "a").await;
    let heads = Api::<PartialObjectMeta<ConfigMap>>::default_namespaced(client.clone());
    let events = watcher(heads, watcher::Config::default().labels(OURS));
    let mut heads = pin!(events.applied_objects());
    let head = soon(heads.try_next()).await.unwrap().unwrap();
    assert_eq!(head.metadata, whole.metadata);
    let whole = write(&client, "a", "red").await;
    let head = soon(heads.try_next()).await.unwrap().unwrap();
    assert_eq!(head.metadata, whole.metadata);
    server.shutdown().await;
}

#[tokio::test]
async fn a_store_follows_the_server_through_cuts() {
    let (server, client) = start().await;
    create(&client, "a").await;
    let (store, writer) = reflector::store::<ConfigMap>();
    let config = watcher::Config::default().labels(OURS);
    let mut changes = Box::pin(reflector::reflector(writer, watcher(api(&client), config)));
    let ready = store.clone();
    let initial = async {
        while ready.is_empty() {
            changes.next().await;
        }
    };
    soon(initial).await;
    for round in 0..10 {
        let name = format!("more-{round}");
        create(&client, &name).await;
        write(&client, "a", &name).await;
        server.faults().set_flow(&watches(), Flow::Cut);
        if round % 2 == 0 {
            delete(&client, &name).await;
        }
    }
    let last = create(&client, "z").await;
    while store.get(&ObjectRef::from_obj(&last)).is_none() {
        let _ = soon(changes.next()).await.unwrap();
    }
    let mut kept: Vec<_> = store.state().iter().map(|map| json!(**map)).collect();
    kept.sort_by_key(|map| map["metadata"]["name"].as_str().map(str::to_owned));
    let listed = api(&client)
        .list(&ListParams::default().labels(OURS))
        .await
        .unwrap();
    assert_eq!(json!(kept), json!(listed.items));
    server.shutdown().await;
}
