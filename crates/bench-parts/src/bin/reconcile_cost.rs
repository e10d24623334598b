//! The cost of a reconcile that does nothing, with read-your-writes and without.
//!
//! `cargo run --release -p watchkeeper-bench-parts --bin reconcile_cost`
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::sync::Notify;
use watchkeeper_client::{Client, Config};
use watchkeeper_meta::{ListMeta, ResourceVersion};
use watchkeeper_runtime::controller::{
    Action, ControllerOptions, DynamicController, OWN_WRITES_DEADLINE, Reconciler, Request,
};
use watchkeeper_runtime::informer::{Informer, InformerOptions};
use watchkeeper_runtime::watcher::{
    Config as WatchConfig, Input, ListRequest, Opening, Source, WatchRequest,
};
use watchkeeper_wire::{Object, ObjectOptions};

const OBJECTS: usize = 50_000;
const ROUNDS: usize = 7;

/// A list that never changes.
struct Fixed(Vec<Object>);

impl Source for Fixed {
    type Object = Object;

    fn list(&self, _: ListRequest) -> Opening<Object> {
        let end = Input::PageEnd(ListMeta {
            resource_version: ResourceVersion::new("5"),
            ..Default::default()
        });
        let items: Vec<_> = self.0.iter().cloned().map(Input::Item).chain([end]).collect();
        async { Ok(futures_util::stream::iter(items).boxed()) }.boxed()
    }

    fn watch(&self, _: WatchRequest) -> Opening<Object> {
        std::future::pending().boxed()
    }
}

/// Takes the client a `Context` has, and does nothing with it.
struct Idle {
    client: Client,
    left: Arc<AtomicUsize>,
    done: Arc<Notify>,
}

impl Reconciler for Idle {
    type Error = Infallible;

    async fn reconcile(&self, request: Request) -> Result<Action, Infallible> {
        let client = request.writes.client(&self.client);
        std::hint::black_box(&client);
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
        Ok(Action::Done)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects: Vec<Object> = (0..OBJECTS).map(object).collect::<Result<_, _>>()?;
    let client = Client::new(&Config::new("http://localhost".parse()?), Default::default())?;
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        for (case, own_writes) in [None, Some(OWN_WRITES_DEADLINE)].into_iter().enumerate() {
            best[case] = best[case].min(round(&objects, &client, own_writes).await);
        }
    }
    let each = |time: Duration| time.as_nanos() / OBJECTS as u128;
    println!("without read-your-writes: {} ns per reconcile", each(best[0]));
    println!("with read-your-writes:    {} ns per reconcile", each(best[1]));
    Ok(())
}

async fn round(objects: &[Object], client: &Client, own_writes: Option<Duration>) -> Duration {
    let options = InformerOptions::from(WatchConfig::paged());
    let informer = Informer::start(Arc::new(Fixed(objects.to_vec())), options);
    let _ = informer.store().synced().await;
    let (left, done) = (Arc::new(AtomicUsize::new(objects.len())), Arc::new(Notify::new()));
    let options = ControllerOptions {
        workers: 1,
        own_writes,
        ..Default::default()
    };
    let idle = Idle {
        client: client.clone(),
        left,
        done: done.clone(),
    };
    let began = Instant::now();
    let controller = DynamicController::new("idle", informer, options);
    controller.run(idle, async move { done.notified().await }).await;
    began.elapsed()
}

fn object(number: usize) -> Result<Object, watchkeeper_wire::WireError> {
    let metadata = json!({"namespace": "default", "name": format!("object-{number}"), "uid": format!("u{number}"), "resourceVersion": "3"});
    let text = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
    Object::from_json(text.as_bytes(), &ObjectOptions::default())
}
