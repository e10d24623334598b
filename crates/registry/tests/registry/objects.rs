//! The life cycle of an object in a registry over an in-memory store.

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_meta::{
    DeleteOptions, GetOptions, GroupVersionResource, ListOptions, ResourceVersion, Status, WatchEventKind,
    WatchOptions,
};
use watchkeeper_registry::encode::{self, OutputForm, View};
use watchkeeper_registry::{
    Body, Definition, Format, Part, PatchKind, Registry, StoredObject, Watch, WatchItem, WriteContext,
};
use watchkeeper_storage::{Store, StoreOptions};
use watchkeeper_wire::Encoding;

struct Cluster {
    registry: Registry,
    config_maps: Arc<Definition>,
}

impl Cluster {
    async fn start() -> Self {
        let registry = Registry::open(Store::memory(StoreOptions::default()))
            .await
            .unwrap();
        let config_maps = GroupVersionResource::new("", "v1", "configmaps");
        let config_maps = registry.definition(&config_maps).unwrap();
        Self {
            registry,
            config_maps,
        }
    }

    fn show(&self, object: &StoredObject) -> Value {
        object.to_value(&self.config_maps).unwrap()
    }

    async fn create(&self, body: Value) -> Result<Value, Status> {
        let bytes = serde_json::to_vec(&body).unwrap();
        let body = Body {
            format: Format::Json,
            bytes: &bytes,
        };
        let context = WriteContext {
            manager: "test".into(),
            ..Default::default()
        };
        let created = self
            .registry
            .create(&self.config_maps, "default", body, &context)
            .await?;
        Ok(self.show(&created))
    }

    /// Applies a config map with an entry named after the manager; returns true if it was created.
    async fn apply(&self, manager: &str, name: &str) -> bool {
        let context = WriteContext {
            manager: manager.into(),
            ..Default::default()
        };
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {manager: "yes"},
        });
        let (kind, config) = (PatchKind::Apply, config.to_string());
        let (part, config) = (Part::Object, config.as_bytes());
        let applied = self
            .registry
            .patch(&self.config_maps, "default", name, part, (kind, config), &context);
        applied.await.unwrap().created
    }

    async fn update(&self, body: Value) -> Result<Value, Status> {
        let bytes = serde_json::to_vec(&body).unwrap();
        let name = body["metadata"]["name"].as_str().unwrap();
        let body = Body {
            format: Format::Json,
            bytes: &bytes,
        };
        let context = WriteContext {
            manager: "test".into(),
            ..Default::default()
        };
        let part = Part::Object;
        let written = self
            .registry
            .update(&self.config_maps, "default", name, part, body, &context)
            .await?;
        Ok(self.show(&written.object))
    }

    async fn patch(&self, name: &str, kind: PatchKind, patch: Value) -> Result<Value, Status> {
        let context = WriteContext {
            manager: "test".into(),
            ..Default::default()
        };
        let patch = serde_json::to_vec(&patch).unwrap();
        let part = Part::Object;
        let written = self
            .registry
            .patch(&self.config_maps, "default", name, part, (kind, &patch), &context)
            .await?;
        Ok(self.show(&written.object))
    }

    async fn delete(&self, name: &str) -> Result<(), Status> {
        let (options, context) = (DeleteOptions::default(), WriteContext::default());
        self.registry
            .delete(&self.config_maps, "default", name, &options, &context)
            .await
            .map(drop)
    }

    async fn watch(&self, options: WatchOptions) -> Watch {
        self.registry
            .watch(&self.config_maps, "default", &options)
            .await
            .unwrap()
    }
}

fn config_map(name: &str, data: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": data}})
}

fn version(object: &Value) -> ResourceVersion {
    ResourceVersion::new(object["metadata"]["resourceVersion"].as_str().unwrap())
}

/// `ADDED a 5`, for each of the next items.
async fn next(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(match watch.next().await {
            Some(WatchItem::Event(event)) => {
                let object = event.object.to_value(watch.definition()).unwrap();
                format!("{} {}", event.kind, object["metadata"]["name"].as_str().unwrap())
            }
            Some(WatchItem::Bookmark {
                initial_events_end, ..
            }) => format!("BOOKMARK {initial_events_end}"),
            Some(WatchItem::Error(status)) => format!("ERROR {}", status.message),
            None => "END".to_owned(),
        });
    }
    seen
}

#[tokio::test]
async fn an_object_can_be_created_and_read() {
    let cluster = Cluster::start().await;
    let created = cluster.create(config_map("a", "v")).await.unwrap();
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "test");
    let options = GetOptions::default();
    let read = cluster
        .registry
        .get(&cluster.config_maps, "default", "a", &options)
        .await
        .unwrap();
    assert_eq!(cluster.show(&read), created);
    let taken = cluster.create(config_map("a", "w")).await.unwrap_err();
    assert_eq!(taken.message, "configmaps \"a\" already exists");
}

#[tokio::test]
async fn a_stale_update_is_a_conflict_and_changes_nothing() {
    let cluster = Cluster::start().await;
    let first = cluster.create(config_map("a", "1")).await.unwrap();
    let mut second = first.clone();
    second["data"]["k"] = json!("2");
    let second = cluster.update(second).await.unwrap();
    assert_eq!(
        version(&first).compare(&version(&second)),
        Some(std::cmp::Ordering::Less)
    );
    let stale = cluster.update(first).await.unwrap_err();
    assert_eq!(
        stale.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    assert_eq!(
        cluster.update(second.clone()).await.unwrap(),
        second,
        "a no-op keeps its version"
    );
}

#[tokio::test]
async fn every_kind_of_patch_changes_the_object() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1")).await.unwrap();
    let json_patch = json!([{"op": "add", "path": "/data/j", "value": "1"}]);
    cluster.patch("a", PatchKind::Json, json_patch).await.unwrap();
    cluster
        .patch("a", PatchKind::Merge, json!({"data": {"k": null, "m": "2"}}))
        .await
        .unwrap();
    cluster
        .patch("a", PatchKind::Strategic, json!({"data": {"s": "3"}}))
        .await
        .unwrap();
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "4"}});
    let done = cluster.patch("a", PatchKind::Apply, config).await.unwrap();
    assert_eq!(done["data"], json!({"j": "1", "m": "2", "s": "3", "a": "4"}));
}

#[tokio::test]
async fn pages_show_one_revision() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        cluster.create(config_map(name, "1")).await.unwrap();
    }
    let mut options = ListOptions {
        limit: Some(2),
        ..Default::default()
    };
    let mut names = Vec::new();
    loop {
        let page = cluster
            .registry
            .list(&cluster.config_maps, "default", &options)
            .await
            .unwrap();
        names.extend(
            page.objects()
                .map(|object| cluster.show(&object)["metadata"]["name"].clone()),
        );
        // Changes between two pages are not visible.
        let _ = cluster.delete("e").await;
        match page.continue_token {
            Some(token) => options.continue_token = token,
            None => break,
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn a_watch_starts_with_existing_objects_and_continues() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1")).await.unwrap();
    let mut watch = cluster
        .watch(WatchOptions {
            send_initial_events: Some(true),
            allow_bookmarks: true,
            ..Default::default()
        })
        .await;
    assert_eq!(next(&mut watch, 2).await, ["ADDED a", "BOOKMARK true"]);
    cluster.create(config_map("b", "1")).await.unwrap();
    cluster
        .patch("a", PatchKind::Merge, json!({"data": {"k": "2"}}))
        .await
        .unwrap();
    cluster.delete("b").await.unwrap();
    assert_eq!(next(&mut watch, 3).await, ["ADDED b", "MODIFIED a", "DELETED b"]);
}

/// Initial events are sent in pieces, with the same bytes as one by one; later events follow.
#[tokio::test]
async fn initial_events_in_pieces_equal_those_one_by_one_and_later_events_follow() {
    let cluster = Cluster::start().await;
    let note = "x".repeat(50_000);
    for number in 0..5 {
        cluster
            .create(config_map(&format!("n{number}"), &note))
            .await
            .unwrap();
    }
    let options = WatchOptions {
        send_initial_events: Some(true),
        allow_bookmarks: true,
        field_selector: "metadata.name!=n1".parse().unwrap(),
        ..Default::default()
    };
    for (encoding, view, count) in [
        (Encoding::Protobuf, View::Whole, 2),
        (Encoding::Json, View::Whole, 2),
        (Encoding::Protobuf, View::Metadata, 1),
        (Encoding::Json, View::Metadata, 1),
    ] {
        let form = OutputForm { encoding, view };
        let mut single = cluster.watch(options.clone()).await;
        let mut one_by_one = Vec::new();
        for _ in 0..4 {
            let item = single.next().await.unwrap();
            one_by_one.extend(encode::watch_item(&cluster.config_maps, &item, form).unwrap());
        }
        let mut watch = cluster.watch(options.clone()).await;
        let mut pieces = vec![encode::initial_events(&mut watch, form, |_| {}).unwrap().unwrap()];
        // Between two pieces, or behind the only one.
        cluster.create(config_map("n9", "1")).await.unwrap();
        cluster.delete("n3").await.unwrap();
        while let Some(piece) = encode::initial_events(&mut watch, form, |_| {}) {
            pieces.push(piece.unwrap());
        }
        assert_eq!((pieces.len(), pieces.concat()), (count, one_by_one), "{form:?}");
        assert_eq!(
            next(&mut watch, 3).await,
            ["BOOKMARK true", "ADDED n9", "DELETED n3"]
        );
        cluster.delete("n9").await.unwrap();
        cluster.create(config_map("n3", &note)).await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_from_a_version_delivers_each_event_once() {
    let cluster = Cluster::start().await;
    let first = cluster.create(config_map("a", "1")).await.unwrap();
    cluster.create(config_map("b", "1")).await.unwrap();
    cluster.delete("a").await.unwrap();
    let options = WatchOptions {
        resource_version: version(&first),
        ..Default::default()
    };
    let mut watch = cluster.watch(options).await;
    assert_eq!(next(&mut watch, 2).await, ["ADDED b", "DELETED a"]);
}

#[tokio::test]
async fn objects_that_start_or_stop_matching_are_added_or_deleted() {
    let cluster = Cluster::start().await;
    let labelled = |name: &str, value: &str| json!({"metadata": {"name": name, "labels": {"app": value}}});
    cluster.create(labelled("a", "x")).await.unwrap();
    let mut watch = cluster
        .watch(WatchOptions {
            label_selector: "app=x".parse().unwrap(),
            ..Default::default()
        })
        .await;
    assert_eq!(next(&mut watch, 1).await, ["ADDED a"]);
    cluster.create(labelled("b", "y")).await.unwrap();
    cluster
        .patch("a", PatchKind::Merge, labelled("a", "y"))
        .await
        .unwrap();
    cluster
        .patch("b", PatchKind::Merge, labelled("b", "x"))
        .await
        .unwrap();
    assert_eq!(next(&mut watch, 2).await, ["DELETED a", "ADDED b"]);
}

#[tokio::test]
async fn a_watch_from_before_a_compaction_is_expired() {
    let cluster = Cluster::start().await;
    let first = cluster.create(config_map("a", "1")).await.unwrap();
    cluster.create(config_map("b", "1")).await.unwrap();
    let store = cluster.registry.store();
    store.compact(store.current_revision()).await.unwrap();
    let options = WatchOptions {
        resource_version: version(&first),
        ..Default::default()
    };
    let mut watch = cluster.watch(options).await;
    let Some(WatchItem::Error(status)) = watch.next().await else {
        panic!("no error")
    };
    assert!(status.is_expired(), "{status}");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_quiet_watch_survives_a_compaction() {
    let cluster = Cluster::start().await;
    let first = cluster.create(config_map("a", "1")).await.unwrap();
    let after = |object: &Value| WatchOptions {
        resource_version: version(object),
        ..Default::default()
    };
    let mut watch = cluster.watch(after(&first)).await;
    let second = cluster.create(config_map("b", "1")).await.unwrap();
    assert_eq!(next(&mut watch, 1).await, ["ADDED b"]);
    // Other resources change, and history is compacted.
    let store = cluster.registry.store();
    store
        .create("/registry/others/a", "x".into(), None)
        .await
        .unwrap();
    store.compact(store.current_revision()).await.unwrap();
    cluster.create(config_map("c", "1")).await.unwrap();
    assert_eq!(next(&mut watch, 1).await, ["ADDED c"]);
    let mut resumed = cluster.watch(after(&second)).await;
    assert_eq!(next(&mut resumed, 1).await, ["ADDED c"]);
}

#[tokio::test]
async fn each_version_of_a_resource_is_watched_as_itself() {
    let cluster = Cluster::start().await;
    let definition = |group: &'static str| {
        let events = GroupVersionResource::new(group, "v1", "events");
        cluster.registry.definition(&events).unwrap()
    };
    let served = [definition(""), definition("events.k8s.io")];
    let mut watches = Vec::new();
    for events in &served {
        let options = WatchOptions {
            send_initial_events: Some(false),
            ..Default::default()
        };
        watches.push(cluster.registry.watch(events, "default", &options).await.unwrap());
    }
    let event =
        json!({"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}, "message": "m"});
    let bytes = serde_json::to_vec(&event).unwrap();
    let body = Body {
        format: Format::Json,
        bytes: &bytes,
    };
    let context = WriteContext::default();
    let created = cluster.registry.create(&served[0], "default", body, &context);
    created.await.unwrap();
    let mut sent = Vec::new();
    for (events, watch) in served.iter().zip(&mut watches) {
        let item = watch.next().await.unwrap();
        let form = OutputForm {
            encoding: Encoding::Json,
            view: View::Whole,
        };
        let line = encode::watch_item(events, &item, form).unwrap();
        let event: Value = serde_json::from_slice(&line).unwrap();
        sent.push(event["object"]["apiVersion"].clone());
    }
    assert_eq!(sent, ["v1", "events.k8s.io/v1"]);
}

#[tokio::test]
async fn a_watch_accepts_any_timeout() {
    let cluster = Cluster::start().await;
    cluster.create(config_map("a", "1")).await.unwrap();
    let options = WatchOptions {
        timeout_seconds: Some(u64::MAX),
        ..Default::default()
    };
    let mut watch = cluster.watch(options).await;
    assert_eq!(next(&mut watch, 1).await, ["ADDED a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_a_negative_timeout_ends_at_once() {
    let cluster = Cluster::start().await;
    let first = cluster.create(config_map("a", "1")).await.unwrap();
    let query = format!("watch=1&timeoutSeconds=-1&resourceVersion={}", version(&first));
    let mut watch = cluster.watch(WatchOptions::from_query(&query).unwrap()).await;
    let asked = tokio::time::Instant::now();
    assert_eq!(next(&mut watch, 1).await, ["END"]);
    assert_eq!(asked.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_deadline_after_a_last_bookmark() {
    let cluster = Cluster::start().await;
    let first = cluster.create(config_map("a", "1")).await.unwrap();
    let options = WatchOptions {
        resource_version: version(&first),
        allow_bookmarks: true,
        timeout_seconds: Some(5),
        ..Default::default()
    };
    let mut watch = cluster.watch(options).await;
    assert_eq!(next(&mut watch, 2).await, ["BOOKMARK false", "END"]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_a_quiet_watch_follow_other_resources() {
    let cluster = Cluster::start().await;
    let first = cluster.create(config_map("a", "1")).await.unwrap();
    let options = WatchOptions {
        resource_version: version(&first),
        allow_bookmarks: true,
        ..Default::default()
    };
    let mut watch = cluster.watch(options).await;
    let store = cluster.registry.store();
    let now = store
        .create("/registry/secrets/default/b", Default::default(), None)
        .await;
    let Some(WatchItem::Bookmark { revision, .. }) = watch.next().await else {
        panic!("no bookmark");
    };
    assert_eq!(revision, now.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_busy_watch_ends_at_its_deadline() {
    let cluster = Cluster::start().await;
    let first = cluster.create(config_map("a", "1")).await.unwrap();
    let options = WatchOptions {
        resource_version: version(&first),
        timeout_seconds: Some(5),
        ..Default::default()
    };
    let mut watch = cluster.watch(options).await;
    cluster.create(config_map("b", "1")).await.unwrap();
    assert_eq!(next(&mut watch, 1).await, ["ADDED b"]);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    cluster.create(config_map("c", "1")).await.unwrap();
    assert_eq!(next(&mut watch, 1).await, ["END"]);
}

#[tokio::test]
async fn a_finalizer_keeps_an_object_until_it_is_removed() {
    let cluster = Cluster::start().await;
    let kept = json!({"metadata": {"name": "a", "finalizers": ["example.com/one"]}});
    let created = cluster.create(kept).await.unwrap();
    let options = WatchOptions {
        resource_version: version(&created),
        ..Default::default()
    };
    let mut watch = cluster.watch(options).await;
    cluster.delete("a").await.unwrap();
    cluster
        .patch("a", PatchKind::Merge, json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    assert_eq!(next(&mut watch, 2).await, ["MODIFIED a", "DELETED a"]);
    assert!(cluster.delete("a").await.unwrap_err().is_not_found());
    assert_eq!(WatchEventKind::Deleted.as_str(), "DELETED");
}

#[tokio::test]
async fn creates_in_a_missing_namespace_are_rejected() {
    let cluster = Cluster::start().await;
    let bytes = serde_json::to_vec(&config_map("a", "1")).unwrap();
    let body = Body {
        format: Format::Json,
        bytes: &bytes,
    };
    let context = WriteContext::default();
    let refused = cluster
        .registry
        .create(&cluster.config_maps, "nowhere", body, &context)
        .await;
    assert_eq!(refused.unwrap_err().message, "namespaces \"nowhere\" not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_patches_without_a_version_all_succeed() {
    const WRITERS: usize = 8;
    let cluster = Arc::new(Cluster::start().await);
    cluster.create(config_map("a", "v")).await.unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let key = format!("k{writer}");
            let patch = json!({"data": {key: "v"}});
            cluster.patch("a", PatchKind::Merge, patch).await.unwrap();
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let shown = cluster.patch("a", PatchKind::Merge, json!({})).await.unwrap();
    assert_eq!(shown["data"].as_object().unwrap().len(), WRITERS + 1);
}

#[tokio::test]
async fn a_registry_opens_an_existing_store() {
    let cluster = Cluster::start().await;
    let store = cluster.registry.store().clone();
    let version = store.current_revision();
    Registry::open(store.clone()).await.unwrap();
    assert_eq!(
        store.current_revision(),
        version,
        "existing objects are not created again"
    );
}

/// All find nothing and create; all but the first update the created object.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_applies_of_a_new_object_all_succeed() {
    const MANAGERS: [&str; 4] = ["a", "b", "c", "d"];
    let cluster = Arc::new(Cluster::start().await);
    for round in 0..50 {
        let name = format!("map-{round}");
        let together = Arc::new(tokio::sync::Barrier::new(MANAGERS.len()));
        let mut applying = tokio::task::JoinSet::new();
        for manager in MANAGERS {
            let (cluster, together, name) = (cluster.clone(), together.clone(), name.clone());
            applying.spawn(async move {
                together.wait().await;
                cluster.apply(manager, &name).await
            });
        }
        let created = applying.join_all().await.into_iter().filter(|created| *created);
        assert_eq!(created.count(), 1, "exactly one creates");
        let (registry, maps) = (&cluster.registry, &cluster.config_maps);
        let map = registry.get(maps, "default", &name, &GetOptions::default()).await;
        let data = cluster.show(&map.unwrap())["data"].clone();
        assert_eq!(data, json!({"a": "yes", "b": "yes", "c": "yes", "d": "yes"}));
    }
}

#[tokio::test]
async fn a_namespace_with_a_generated_name_has_its_name_label() {
    let cluster = Cluster::start().await;
    let namespaces = GroupVersionResource::new("", "v1", "namespaces");
    let namespaces = cluster.registry.definition(&namespaces).unwrap();
    let bytes = br#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "team-"}}"#;
    let body = Body {
        format: Format::Json,
        bytes,
    };
    let context = WriteContext::default();
    let created = cluster.registry.create(&namespaces, "", body, &context).await;
    let metadata = created.unwrap().to_value(&namespaces).unwrap()["metadata"].take();
    assert_eq!(
        metadata["labels"]["kubernetes.io/metadata.name"],
        metadata["name"]
    );
}
