//! The server the clients share, with its pods, and what it does when told.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{TryStreamExt, stream};
use serde_json::{Value, json};
use watchkeeper_bench_codec::pods;
use watchkeeper_server::{Flow, Handle, RequestMatch, Server, Verb};
use watchkeeper_storage::{Revision, Store};
use watchkeeper_wire::protobuf::{Envelope, encode_message};
use watchkeeper_wire::schema::Schema;

use super::child::{hear, say};
use super::latency::{self, NAMESPACE, WRITERS};

/// Writes under way at once, so that the server is never idle.
const WRITES: usize = 64;

/// Serves until the parent is gone. `change 5` changes five pods; `relist 5` changes five pods while watches are
/// stalled, forgets all history and cuts the watches. Both answer with the version reached.
pub(crate) async fn run(kubeconfig: &Path, pods: usize) -> Result<()> {
    let server = Server::builder()
        .in_memory()
        .listen("127.0.0.1:0".parse()?)
        .start()
        .await?;
    let mut pods = Pods::load(&server, pods).await?;
    server.write_kubeconfig(kubeconfig)?;
    say("ready");
    while let Ok(line) = hear().await {
        let revision = match line.split_once(' ') {
            Some(("change", count)) => pods.change(count.parse()?).await?,
            Some(("relist", count)) => pods.relist(&server, count.parse()?).await?,
            _ => bail!("what is {line:?}?"),
        };
        say(&revision.to_string());
    }
    Ok(())
}

/// The pods as they are stored. They are put there directly: what is measured is how they are read.
struct Pods {
    store: Store,
    pods: Vec<Pod>,
    turn: u64,
}

struct Pod {
    key: String,
    value: Value,
    revision: Revision,
}

impl Pods {
    async fn load(server: &Handle, count: usize) -> Result<Self> {
        let store = server.registry().store().clone();
        let mut pods = Vec::with_capacity(count);
        for value in pods::values(count) {
            let mut value = value?;
            remove_version(&mut value);
            let (key, bytes) = (key(&value)?, encode("Pod", &value)?);
            let revision = store.create(&key, bytes.into(), None).await?;
            pods.push(Pod { key, value, revision });
        }
        let mut pod = pods::values(1).next().context("one pod")??;
        remove_version(&mut pod);
        pod["metadata"]["namespace"] = json!(NAMESPACE);
        for writer in 0..WRITERS {
            pod["metadata"]["name"] = json!(latency::name(writer));
            store
                .create(&key(&pod)?, encode("Pod", &pod)?.into(), None)
                .await?;
        }
        let name = latency::name(0);
        let config_map = json!({
            "metadata": {"namespace": NAMESPACE, "name": name, "uid": "5eed"},
            "data": {"colour": "blue"},
        });
        let key = format!("/registry/configmaps/{NAMESPACE}/{name}");
        store
            .create(&key, encode("ConfigMap", &config_map)?.into(), None)
            .await?;
        Ok(Self { store, pods, turn: 0 })
    }

    /// Gives the first so many pods another annotation.
    async fn change(&mut self, count: usize) -> Result<Revision> {
        self.turn += 1;
        let turn = json!(self.turn.to_string());
        let mut encoded = Vec::with_capacity(count);
        for pod in self.pods.iter_mut().take(count) {
            pod.value["metadata"]["annotations"]["turn"] = turn.clone();
            encoded.push(encode("Pod", &pod.value)?);
        }
        let store = &self.store;
        stream::iter(self.pods.iter_mut().zip(encoded).map(Ok))
            .try_for_each_concurrent(WRITES, |(pod, bytes)| async move {
                pod.revision = store.update(&pod.key, bytes.into(), pod.revision, None).await?;
                anyhow::Ok(())
            })
            .await?;
        Ok(self.store.current_revision())
    }

    async fn relist(&mut self, server: &Handle, count: usize) -> Result<Revision> {
        let watches = RequestMatch::new(Verb::Watch, "pods");
        server.faults().set_flow(&watches, Flow::Stalled);
        // One pod changes in any case: the version the clients know has to become history. The server's cache of
        // changes notices that the store has forgotten with the change after.
        let revision = self.change(count.max(1)).await?;
        self.store.compact(revision).await?;
        self.change(1).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.faults().set_flow(&watches, Flow::Cut);
        Ok(revision)
    }
}

fn remove_version(value: &mut Value) {
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
}

fn key(value: &Value) -> Result<String> {
    let text = |name: &str| value["metadata"][name].as_str().context("a pod without a key");
    Ok(format!("/registry/pods/{}/{}", text("namespace")?, text("name")?))
}

fn encode(kind: &str, value: &Value) -> Result<Vec<u8>> {
    let (schema, api_version) = (Schema::builtin(), "v1");
    let id = schema
        .kind(api_version, kind)
        .context("a kind without a schema")?;
    let raw = &encode_message(schema, id, value)?[..];
    let mut bytes = Vec::with_capacity(raw.len() + 64);
    Envelope {
        api_version,
        kind,
        raw,
    }
    .write(&mut bytes);
    Ok(bytes)
}
