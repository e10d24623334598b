//! A bookmark is an event without an object. It states how far the server has come, so that a quiet watch does not
//! resume from an expired version. A streaming list ends with one.
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use watchkeeper::client::{ResourceType, WatchEvent};
use watchkeeper::meta::{FieldSelector, WatchOptions};
use watchkeeper::runtime::api_source::ApiSource;
use watchkeeper::runtime::retry_watcher::RetryWatcher;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let maps = sandbox
        .client()
        .dynamic(ConfigMap::resource())
        .default_namespace();
    let create = async |name: &str| {
        let map = json!({"metadata": {"name": name}});
        maps.create(&map).await
    };
    let first = create("wanted").await?;
    let other = create("not-wanted").await?;

    let mut watch = maps
        .watch()
        .with(&WatchOptions {
            field_selector: FieldSelector::name("wanted"),
            allow_bookmarks: true,
            send_initial_events: Some(true),
            ..Default::default()
        })
        .await?;
    let bookmark = loop {
        match watch.next().await.ok_or("the server ended the watch")?? {
            WatchEvent::Bookmark(bookmark) => break bookmark.version(),
            event => println!(
                "{} {}",
                event.kind(),
                event.object().map_or("", |object| object.name())
            ),
        }
    };
    println!(
        "BOOKMARK, newer than what was wanted: {}",
        bookmark != first.version()
    );
    println!(
        "... and not older than the rest: {}",
        bookmark.compare(&other.version()) != Some(std::cmp::Ordering::Less)
    );

    // From there on nothing is delivered twice.
    let mut watcher = RetryWatcher::new(Arc::new(ApiSource::new(maps.clone())), bookmark)?;
    create("later").await?;
    let next = watcher.next().await.ok_or("the watch has ended")??;
    println!("{} {}", next.kind(), next.object().name());
    sandbox.close().await?;
    Ok(())
}
