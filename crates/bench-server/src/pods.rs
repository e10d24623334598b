//! The pods of the server, and the commands that change them.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{TryStreamExt, stream};
use serde_json::{Value, json};
use watchkeeper_bench_codec::{pods, written};
use watchkeeper_server::{Flow, Handle, RequestMatch, Verb};
use watchkeeper_storage::{Revision, Store};
use watchkeeper_wire::protobuf::{Envelope, encode_message};
use watchkeeper_wire::schema::Schema;

/// Concurrent writes, so that the server is never idle.
const WRITES: usize = 64;

/// The stored pods. They are written to the store directly: the benchmarks measure reads.
pub(crate) struct Pods<'s> {
    server: &'s Handle,
    store: Store,
    pods: Vec<Pod>,
    turn: u64,
}

struct Pod {
    key: String,
    value: Value,
    revision: Revision,
}

impl<'s> Pods<'s> {
    /// No pods yet.
    pub(crate) fn new(server: &'s Handle) -> Self {
        Self {
            server,
            store: server.registry().store().clone(),
            pods: Vec::new(),
            turn: 0,
        }
    }

    /// Runs a command; returns the revision reached.
    pub(crate) async fn run(&mut self, line: &str) -> Result<Revision> {
        match line.split_once(' ') {
            Some(("load", count)) => self.load(count.parse()?).await,
            Some(("change", count)) => self.change(count.parse()?).await,
            Some(("relist", count)) => self.relist(count.parse()?).await,
            _ => bail!("unknown command {line:?}"),
        }
    }

    async fn load(&mut self, count: usize) -> Result<Revision> {
        for value in pods::values(count) {
            let mut value = value?;
            remove_version(&mut value);
            let key = key(&value)?;
            let revision = self.create(&key, "Pod", &value).await?;
            self.pods.push(Pod { key, value, revision });
        }
        let mut pod = pods::values(1).next().context("one pod")??;
        remove_version(&mut pod);
        pod["metadata"]["namespace"] = json!(written::NAMESPACE);
        for writer in 0..written::WRITERS {
            pod["metadata"]["name"] = json!(written::name(writer));
            self.create(&key(&pod)?, "Pod", &pod).await?;
        }
        let (namespace, name) = (written::NAMESPACE, written::name(0));
        let config_map = json!({
            "metadata": {"namespace": namespace, "name": name, "uid": "5eed"},
            "data": {"colour": "blue"},
        });
        let key = format!("/registry/configmaps/{namespace}/{name}");
        self.create(&key, "ConfigMap", &config_map).await
    }

    async fn create(&self, key: &str, kind: &str, value: &Value) -> Result<Revision> {
        let bytes = encode(kind, value)?.into();
        Ok(self.store.create(key, bytes, None).await?)
    }

    /// Changes an annotation of the first pods.
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

    /// Changes pods while watches are stalled, compacts all history and cuts the watches.
    async fn relist(&mut self, count: usize) -> Result<Revision> {
        let watches = RequestMatch::new(Verb::Watch, "pods");
        self.server.faults().set_flow(&watches, Flow::Stalled);
        // At least one pod changes, so that the version clients know is compacted. The server's watch cache notices the
        // compaction with the change after it.
        let revision = self.change(count.max(1)).await?;
        self.store.compact(revision).await?;
        self.change(1).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.server.faults().set_flow(&watches, Flow::Cut);
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
