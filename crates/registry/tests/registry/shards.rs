//! Sharded lists and watches: each object and each event is in exactly one shard.

use std::sync::Arc;

use futures_util::FutureExt as _;
use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Runtime;
use watchkeeper_meta::{
    DeleteOptions, GroupVersionResource, ListOptions, ResourceVersion, ShardField, ShardSelector,
    WatchOptions,
};
use watchkeeper_registry::{
    Body, Definition, FeatureGates, Format, Part, PatchKind, Registry, RegistryOptions, Watch, WatchItem,
    WriteContext,
};
use watchkeeper_storage::{Store, StoreOptions};

#[derive(Clone, Copy, Debug)]
enum Step {
    Create(u8),
    Change(u8),
    Delete(u8),
}

struct Cluster {
    registry: Registry,
    maps: Arc<Definition>,
}

impl Cluster {
    async fn start(sharded_list_and_watch: bool) -> Self {
        let options = RegistryOptions {
            feature_gates: FeatureGates {
                sharded_list_and_watch,
                ..FeatureGates::default()
            },
            ..Default::default()
        };
        let registry = options
            .open(Store::memory(StoreOptions::default()))
            .await
            .unwrap();
        let maps = GroupVersionResource::new("", "v1", "configmaps");
        let maps = registry.definition(&maps).unwrap();
        Self { registry, maps }
    }

    /// Takes a step. A create of an existing object or a change of a missing one has no effect.
    async fn take(&self, step: Step) {
        let (context, namespace) = (WriteContext::default(), "default");
        let name = |number: u8| format!("map-{number}");
        match step {
            Step::Create(number) => {
                let bytes = json!({"metadata": {"name": name(number)}}).to_string();
                let body = Body {
                    format: Format::Json,
                    bytes: bytes.as_bytes(),
                };
                let _ = self.registry.create(&self.maps, namespace, body, &context).await;
            }
            Step::Change(number) => {
                let change = json!({"data": {"k": fastrand::u64(..).to_string()}}).to_string();
                let patch = (PatchKind::Merge, change.as_bytes());
                let name = name(number);
                let patched =
                    self.registry
                        .patch(&self.maps, namespace, &name, Part::Object, patch, &context);
                let _ = patched.await;
            }
            Step::Delete(number) => {
                let options = DeleteOptions::default();
                let name = name(number);
                let _ = self
                    .registry
                    .delete(&self.maps, namespace, &name, &options, &context)
                    .await;
            }
        }
    }

    async fn watch(&self, shard_selector: Option<String>) -> Watch {
        let options = WatchOptions {
            resource_version: ResourceVersion::new("1"),
            shard_selector,
            ..Default::default()
        };
        self.registry
            .watch(&self.maps, "default", &options)
            .await
            .unwrap()
    }

    /// The names in a list, read in pages of a size.
    async fn names(&self, shard_selector: Option<String>, limit: u64) -> Vec<String> {
        let mut options = ListOptions {
            shard_selector: shard_selector.clone(),
            limit: Some(limit),
            ..Default::default()
        };
        let mut names = Vec::new();
        loop {
            let page = self.registry.list(&self.maps, "default", &options).await.unwrap();
            assert_eq!(page.shard_selector, shard_selector);
            let items = page.objects().map(|object| object.to_value(&self.maps).unwrap());
            names.extend(items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()));
            match page.continue_token {
                Some(token) => options.continue_token = token,
                None => return names,
            }
        }
    }
}

/// `ADDED 5 uid`, for every available event.
fn events(watch: &mut Watch) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(Some(WatchItem::Event(event))) = watch.next().now_or_never() {
        let object = event.object.to_value(watch.definition()).unwrap();
        let metadata = &object["metadata"];
        events.push(format!(
            "{} {} {}",
            event.kind, metadata["resourceVersion"], metadata["uid"]
        ));
    }
    events
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u8..3, 0u8..12).prop_map(|(what, number)| match what {
        0 => Step::Create(number),
        1 => Step::Change(number),
        _ => Step::Delete(number),
    });
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn shards_partition_the_objects_and_the_events(steps in steps(), total in 1u32..6, limit in 1u64..5) {
        Runtime::new().unwrap().block_on(async {
            let cluster = Cluster::start(true).await;
            let shards = (0..total).filter_map(|index| ShardSelector::part(ShardField::Uid, index, total));
            let shards: Vec<String> = shards.map(|shard| shard.to_string()).collect();
            let mut whole = cluster.watch(None).await;
            let mut parts = Vec::new();
            for shard in &shards {
                parts.push(cluster.watch(Some(shard.clone())).await);
            }
            for step in steps {
                cluster.take(step).await;
            }
            let mut expected = events(&mut whole);
            let mut seen: Vec<String> = parts.iter_mut().flat_map(events).collect();
            expected.sort_unstable();
            seen.sort_unstable();
            prop_assert_eq!(seen, expected);

            let mut names = Vec::new();
            for shard in shards {
                names.extend(cluster.names(Some(shard), limit).await);
            }
            names.sort_unstable();
            let mut all = cluster.names(None, limit).await;
            all.sort_unstable();
            prop_assert_eq!(names, all);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn while_the_feature_is_off_the_selector_is_ignored() {
    let cluster = Cluster::start(false).await;
    cluster.take(Step::Create(1)).await;
    for selector in [
        "nonsense".to_owned(),
        ShardSelector::part(ShardField::Uid, 0, 2).unwrap().to_string(),
    ] {
        let options = ListOptions {
            shard_selector: Some(selector),
            ..Default::default()
        };
        let list = cluster
            .registry
            .list(&cluster.maps, "default", &options)
            .await
            .unwrap();
        assert_eq!((list.items.len(), list.shard_selector), (1, None));
    }
}

#[tokio::test]
async fn a_namespace_is_in_one_shard_as_a_whole() {
    let cluster = Cluster::start(true).await;
    for number in 0..5 {
        cluster.take(Step::Create(number)).await;
    }
    let mut counts = Vec::new();
    for index in 0..4 {
        let shard = ShardSelector::part(ShardField::Namespace, index, 4).unwrap();
        counts.push(cluster.names(Some(shard.to_string()), 2).await.len());
    }
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 0, 5]);
}
