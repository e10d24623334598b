//! The website operator of `examples/website-operator`, written with kube in the style of its documentation.
//!
//! It has the parts that kube supports: the kind, three children, the claimed domain with its finalizer, the condition
//! and the Events. kube has no leader election, probes, metrics or webhook server, so it lacks those.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const NAME: &str = "website-operator";
/// The label with the uid of the website that owns a domain.
const WEBSITE: &str = "example.com/website";
const RESYNC: Duration = Duration::from_secs(300);

/// Pages that are served under a domain.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus"
)]
#[kube(shortname = "site")]
#[kube(printcolumn = r#"{"name": "Domain", "type": "string", "jsonPath": ".spec.domain"}"#)]
#[kube(
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#
)]
#[kube(validation = Rule::new("self.spec.domain == oldSelf.spec.domain").message("a website keeps its domain"))]
struct WebsiteSpec {
    /// The domain of the pages. It is unique.
    #[schemars(length(max = 200), regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    domain: String,
    /// The HTML by file name.
    pages: BTreeMap<String, String>,
    /// The number of pods that serve them.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    replicas: i32,
}

/// The observed state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct WebsiteStatus {
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
    #[schemars(extend("format" = "date-time"))]
    last_transition_time: String,
}

fn one() -> i32 {
    1
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("a request failed")]
    Kube(#[from] kube::Error),
    #[error("the finalizer")]
    Finalizer(#[source] Box<finalizer::Error<Error>>),
}

/// The context of every reconcile.
struct Context {
    client: Client,
    recorder: Recorder,
}

/// Reconciles a website. Its finalizer releases the domain; its children are garbage collected.
async fn reconcile(site: Arc<Website>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = site.namespace().unwrap_or_default();
    let websites = Api::<Website>::namespaced(context.client.clone(), &namespace);
    let step = finalizer(&websites, "example.com/domain", site, async |phase| match phase {
        finalizer::Event::Apply(site) => {
            let (is_ready, event) = publish(&site, &namespace, &context.client).await?;
            report(&site, is_ready, event, &websites, &context.recorder).await
        }
        finalizer::Event::Cleanup(site) => {
            release(&site, &context.client).await?;
            Ok(Action::await_change())
        }
    });
    step.await.map_err(|error| Error::Finalizer(Box::new(error)))
}

/// Applies the children of the website. Unchanged ones are not written by the server.
async fn publish(site: &Website, namespace: &str, client: &Client) -> Result<(bool, Event), Error> {
    let domain = &site.spec.domain;
    match claim(site, namespace, client).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let why = format!("{domain} belongs to another website");
            return Ok((false, event(EventType::Warning, "DomainTaken", why)));
        }
        claimed => claimed?,
    }
    apply::<ConfigMap>(pages(site), namespace, client).await?;
    apply::<Service>(service(site), namespace, client).await?;
    let pods = apply::<Deployment>(pods(site), namespace, client).await?;
    let available = pods.status.and_then(|status| status.available_replicas);
    Ok(match available >= Some(site.spec.replicas) {
        true => (
            true,
            event(EventType::Normal, "Serving", format!("{domain} is served")),
        ),
        false => (
            false,
            event(
                EventType::Normal,
                "Starting",
                format!("{domain} waits for its pods"),
            ),
        ),
    })
}

/// Claims the domain: applies its ConfigMap under a field manager per website, so that a domain of another is a
/// conflict.
async fn claim(site: &Website, namespace: &str, client: &Client) -> Result<(), kube::Error> {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let (uid, name) = (
        site.uid().unwrap_or_default(),
        format!("domain-{}", site.spec.domain),
    );
    let domain = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {WEBSITE: uid}},
        "data": {"website": format!("{namespace}/{}", site.name_any())},
    });
    maps.patch(&name, &PatchParams::apply(&uid), &Patch::Apply(domain))
        .await?;
    Ok(())
}

/// Releases the claimed domain.
async fn release(site: &Website, client: &Client) -> Result<(), kube::Error> {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let claimed = ListParams::default().labels(&format!("{WEBSITE}={}", site.uid().unwrap_or_default()));
    maps.delete_collection(&DeleteParams::default(), &claimed).await?;
    Ok(())
}

async fn apply<C>(mut child: Value, namespace: &str, client: &Client) -> Result<C, kube::Error>
where
    C: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    C: Clone + DeserializeOwned + std::fmt::Debug,
{
    child["apiVersion"] = C::api_version(&()).into();
    child["kind"] = C::kind(&()).into();
    let name = child["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let children = Api::<C>::namespaced(client.clone(), namespace);
    let params = PatchParams::apply(NAME).force();
    children.patch(&name, &params, &Patch::Apply(child)).await
}

/// Sets the `Ready` condition and publishes an Event, if anything changed.
async fn report(
    site: &Website,
    is_ready: bool,
    event: Event,
    websites: &Api<Website>,
    recorder: &Recorder,
) -> Result<Action, Error> {
    let mut site = site.clone();
    let mut ready = Condition {
        kind: "Ready".into(),
        status: if is_ready { "True" } else { "False" }.into(),
        reason: event.reason.clone(),
        message: event.note.clone().unwrap_or_default(),
        observed_generation: site.metadata.generation,
        last_transition_time: Timestamp::now().strftime("%FT%TZ").to_string(),
    };
    let conditions = &mut site.status.get_or_insert_default().conditions;
    let known = conditions
        .iter()
        .position(|condition| condition.kind == ready.kind);
    if let Some(known) = known {
        let known = conditions.remove(known);
        if known.status == ready.status {
            ready.last_transition_time = known.last_transition_time.clone();
        }
        if known == ready {
            return Ok(follow_up(is_ready));
        }
    }
    conditions.push(ready);
    let reference = site.object_ref(&());
    websites
        .replace_status(&site.name_any(), &PostParams::default(), &site)
        .await?;
    recorder.publish(&event, &reference).await?;
    Ok(follow_up(is_ready))
}

fn follow_up(is_ready: bool) -> Action {
    match is_ready {
        true => Action::await_change(),
        false => Action::requeue(RESYNC),
    }
}

fn event(type_: EventType, reason: &str, note: String) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note),
        action: "Reconcile".to_owned(),
        secondary: None,
    }
}

fn pages(site: &Website) -> Value {
    json!({"metadata": metadata(site), "data": site.spec.pages})
}

fn service(site: &Website) -> Value {
    let spec = json!({"selector": labels(site), "ports": [{"port": 80, "targetPort": 8080}]});
    json!({"metadata": metadata(site), "spec": spec})
}

fn pods(site: &Website) -> Value {
    let server = json!({
        "name": "server",
        "image": "busybox:1.37",
        "command": ["httpd", "-f", "-p", "8080", "-h", "/pages"],
        "ports": [{"containerPort": 8080}],
        "volumeMounts": [{"name": "pages", "mountPath": "/pages"}],
    });
    let pages = json!({"name": "pages", "configMap": {"name": site.name_any()}});
    json!({
        "metadata": metadata(site),
        "spec": {
            "replicas": site.spec.replicas,
            "selector": {"matchLabels": labels(site)},
            "template": {
                "metadata": {"labels": labels(site)},
                "spec": {"containers": [server], "volumes": [pages]},
            },
        },
    })
}

fn metadata(site: &Website) -> Value {
    let owner = site.controller_owner_ref(&());
    json!({"name": site.name_any(), "labels": labels(site), "ownerReferences": [owner]})
}

fn labels(site: &Website) -> Value {
    json!({"app.kubernetes.io/instance": site.name_any(), "app.kubernetes.io/managed-by": NAME})
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let definitions = Api::all(client.clone());
    let params = PatchParams::apply(NAME).force();
    let definition = Website::crd();
    definitions
        .patch(&definition.name_any(), &params, &Patch::Apply(&definition))
        .await?;
    let established = kube::runtime::conditions::is_crd_established();
    kube::runtime::wait::await_condition(definitions, &definition.name_any(), established).await?;
    let owned = watcher::Config::default().labels("app.kubernetes.io/managed-by=website-operator");
    let context = Context {
        recorder: Recorder::new(client.clone(), Reporter::from(NAME)),
        client: client.clone(),
    };
    Controller::new(Api::<Website>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client.clone()), owned.clone())
        .owns(Api::<Deployment>::all(client.clone()), owned.clone())
        .owns(Api::<Service>::all(client), owned)
        .shutdown_on_signal()
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(1)),
            Arc::new(context),
        )
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}
