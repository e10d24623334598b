//! Sends the same requests to this server and to a reference API server, and compares the answers.
//!
//! The reference is any server of `apiextensions.k8s.io` with a kubeconfig: a kube-apiserver, or the
//! `apiextensions-apiserver` alone. Without one, the comparison is skipped with a message.
//!
//! ```text
//! WATCHKEEPER_REFERENCE=kubeconfig cargo test -p watchkeeper-tests --test differential
//! WATCHKEEPER_REFERENCE=kubeconfig cargo test -p watchkeeper-tests --test differential -- scale    # steps with this
//! in their name
//! ```
//!
//! The requests are data: `definitions.json` has definitions of custom kinds, which are created in a dry run;
//! `objects.json` and `rules.json` define kinds, then write, patch, apply, list and delete their objects. `known.txt`
//! has the steps that differ, with the reasons. Objects are left behind in the reference, so give it its own store.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod answer;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use answer::{Answer, differences, send};
use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_client::config::{Environment, Kubeconfig, Overrides};
use watchkeeper_client::{Client, Config};
use watchkeeper_server::Server;
use watchkeeper_testing::{client_of, unlimited};

/// The variable with the kubeconfig of the reference.
const REFERENCE: &str = "WATCHKEEPER_REFERENCE";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The number of polls until both servers serve a kind.
const TRIES: usize = 300;
/// The number of differences printed per step.
const SHOWN: usize = 4;

/// A request from the files.
#[derive(Deserialize)]
pub(crate) struct Step {
    name: String,
    #[serde(default)]
    method: String,
    #[serde(default)]
    path: String,
    #[serde(default, rename = "type")]
    content_type: Option<String>,
    #[serde(default)]
    accept: Option<String>,
    #[serde(default)]
    body: Option<Value>,
    /// The answer depends on timing and is not compared.
    #[serde(default)]
    unchecked: bool,
    /// The collection that must be served before the next step.
    #[serde(default)]
    served: Option<String>,
    /// In `definitions.json`: the schema of the only version, or the whole spec.
    #[serde(default)]
    schema: Option<Value>,
    #[serde(default)]
    spec: Option<Value>,
}

fn main() -> anyhow::Result<ExitCode> {
    let Some(kubeconfig) = std::env::var_os(REFERENCE) else {
        println!("differential: skipped, {REFERENCE} names no kubeconfig of a reference API server");
        return Ok(ExitCode::SUCCESS);
    };
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|it| !it.starts_with('-'))
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(compare(Path::new(&kubeconfig), &wanted))
}

async fn compare(kubeconfig: &Path, wanted: &[String]) -> anyhow::Result<ExitCode> {
    let config = Config::from_kubeconfig(
        &Kubeconfig::read(kubeconfig)?,
        &Overrides::default(),
        &Environment::default(),
    )?;
    let reference = Client::new(&config, unlimited())?;
    let server = Server::builder().in_memory().start().await?;
    let ours = client_of(&server, unlimited())?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential");
    let known = known(&folder)?;
    let (mut steps, mut wrong) = (0, Vec::new());
    for file in ["definitions", "objects", "rules"] {
        for step in read(&folder.join(file).with_extension("json"))? {
            let name = format!("{file} {}", step.name);
            let (theirs, own) = (send(&reference, &step).await?, send(&ours, &step).await?);
            if let Some(path) = &step.served {
                await_served(&reference, path).await?;
                await_served(&ours, path).await?;
            }
            if step.unchecked || !wanted.iter().all(|part| name.contains(part)) {
                continue;
            }
            steps += 1;
            wrong.extend(judge(&name, &theirs, &own, known.get(&name)));
        }
    }
    server.shutdown().await;
    wrong.iter().for_each(|line| println!("{line}"));
    println!("differential: {steps} steps, {} known to differ", known.len());
    Ok(ExitCode::from(u8::from(!wrong.is_empty())))
}

/// The error of a step: an unexpected difference, or an expected one that is missing.
fn judge(name: &str, theirs: &Answer, own: &Answer, known: Option<&String>) -> Option<String> {
    let found = differences(theirs, own);
    match (found.is_empty(), known) {
        (true, None) | (false, Some(_)) => None,
        (true, Some(_)) => Some(format!("{name}: is in known.txt, but does not differ")),
        (false, None) => {
            let shown: Vec<String> = found.into_iter().take(SHOWN).collect();
            Some(format!("{name}\n    {}", shown.join("\n    ")))
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<Step>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let steps: Vec<Step> = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(steps.into_iter().map(completed).collect())
}

/// Completes a step of `definitions.json` to a request.
fn completed(mut step: Step) -> Step {
    let version = |schema: &Value| json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let spec = step.spec.take().or_else(|| {
        let names = json!({"plural": "bads", "kind": "Bad", "singular": "bad", "listKind": "BadList"});
        let versions = [version(step.schema.as_ref()?)];
        Some(json!({"group": "d.example.com", "scope": "Namespaced", "names": names, "versions": versions}))
    });
    if let Some(spec) = spec {
        step.method = "POST".to_owned();
        step.path = format!("{DEFINITIONS}?dryRun=All");
        step.body = Some(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "bads.d.example.com"},
            "spec": spec,
        }));
    }
    step
}

async fn await_served(client: &Client, path: &str) -> anyhow::Result<()> {
    for _ in 0..TRIES {
        if client.get_raw(path, usize::MAX).await.is_ok() {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
    anyhow::bail!("{path} is not served")
}

/// The known differences by step: `file step: why`.
fn known(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(folder.join("known.txt"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(": "));
    Ok(pairs
        .map(|(name, why)| (name.to_owned(), why.to_owned()))
        .collect())
}
