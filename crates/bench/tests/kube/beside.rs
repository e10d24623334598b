//! Kinds derived with kube, used with our clients, informers and controllers; and kube's client and controller on a
//! server in the same process.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action as KubeAction, Controller as KubeController};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use kube::{Api, CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use watchkeeper_client::{ResourceType, install_crds};
use watchkeeper_manager::Manager;
use watchkeeper_meta::Scope;
use watchkeeper_runtime::controller::{Action, Context, Controller};
use watchkeeper_runtime::factory::Factory;
use watchkeeper_testing::TestCluster;

use crate::soon;

#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus"
)]
struct WebsiteSpec {
    domain: String,
    replicas: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct WebsiteStatus {
    ready: bool,
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1alpha1", kind = "Zone")]
struct ZoneSpec {}

/// A kind derived with our macro.
#[derive(watchkeeper_custom::Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", namespaced, crate = watchkeeper_custom)]
struct PageSpec {
    path: String,
}

fn site(name: &str, domain: &str) -> Website {
    let domain = domain.to_owned();
    Website::new(name, WebsiteSpec { domain, replicas: 2 })
}

async fn start() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    let definitions = [serde_json::to_value(Website::crd()).unwrap(), Page::crd()];
    install_crds(cluster.client(), &definitions).await.unwrap();
    cluster
}

#[test]
fn a_kube_kind_has_its_resource() {
    let website = Website::resource();
    let names = [&website.group, &website.version, &website.kind, &website.plural];
    assert_eq!(names, ["example.com", "v1", "Website", "websites"]);
    assert_eq!(website.scope, Scope::Namespaced);
    assert_eq!(Zone::resource().scope, Scope::Cluster);
    assert_eq!(ConfigMap::resource().plural, "configmaps");
    assert_eq!(Page::resource().plural, "pages");
}

#[tokio::test]
async fn our_client_reads_and_writes_kube_kinds() {
    let cluster = start().await;
    let websites = cluster.client().api::<Website>().namespace("default");
    let created = websites.create(&site("home", "example.com")).await.unwrap();
    assert!(created.uid().is_some());
    let by_kube = Api::<Website>::default_namespaced(cluster.kube_client());
    let status = Patch::Merge(json!({"status": {"ready": true}}));
    by_kube
        .patch_status("home", &PatchParams::default(), &status)
        .await
        .unwrap();
    let read = websites.get("home").await.unwrap();
    assert_eq!(read.spec, created.spec);
    assert_eq!(read.status, Some(WebsiteStatus { ready: true }));
    let pages = cluster.client().api::<Page>().namespace("default");
    let page = Page::new("index", PageSpec { path: "/".into() });
    pages.create(&page).await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn our_controller_reconciles_a_kube_kind() {
    let cluster = start().await;
    let factory = Factory::new(cluster.client().clone(), Default::default());
    let (told, mut heard) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let controller =
        Controller::<Website>::of(&factory).reconcile(move |site: Arc<Website>, _: Context<Website>| {
            let _ = told.send(site.spec.domain.clone());
            async { Ok::<_, Infallible>(Action::Done) }
        });
    let running = tokio::spawn(controller.run(async { drop(stopped.await) }));

    let by_kube = Api::<Website>::default_namespaced(cluster.kube_client());
    by_kube
        .create(&PostParams::default(), &site("home", "example.com"))
        .await
        .unwrap();
    assert_eq!(soon(heard.recv()).await.as_deref(), Some("example.com"));
    let other = Patch::Merge(json!({"spec": {"domain": "example.org"}}));
    by_kube
        .patch("home", &PatchParams::default(), &other)
        .await
        .unwrap();
    assert_eq!(soon(heard.recv()).await.as_deref(), Some("example.org"));
    drop(stop);
    soon(running).await.unwrap();
    cluster.stop().await;
}

/// Creates a config map with the domain of each site.
async fn describe(site: Arc<Website>, client: Arc<kube::Client>) -> Result<KubeAction, kube::Error> {
    let name = site.name_any();
    let wish = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [kube::Resource::controller_owner_ref(&*site, &())]},
        "data": {"domain": site.spec.domain},
    });
    let maps = Api::<ConfigMap>::default_namespaced(kube::Client::clone(&client));
    let params = PatchParams::apply("describer").force();
    maps.patch(&name, &params, &Patch::Apply(wish)).await?;
    Ok(KubeAction::await_change())
}

#[tokio::test]
async fn a_kube_controller_runs_in_our_manager_on_an_in_process_server() {
    let cluster = start().await;
    let client = cluster.kube_client();
    let websites = Api::<Website>::default_namespaced(client.clone());
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let owned = maps.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let manager = Manager::new(cluster.client().clone())
        .leader("websites")
        .while_leading("websites", |stop| async move {
            KubeController::new(websites, watcher::Config::default())
                .owns(owned, watcher::Config::default())
                .graceful_shutdown_on(stop.requested())
                .run(describe, |_, error, _| panic!("{error}"), Arc::new(client))
                .for_each(|result| async { drop(result.unwrap()) })
                .await;
            Ok::<_, Infallible>(())
        });
    let signals = stream::once(async { drop(stopped.await) });
    let running = tokio::spawn(manager.run_until(signals));

    // Written with our client, seen by kube.
    let ours = cluster.client().api::<Website>().namespace("default");
    ours.create(&site("home", "example.com")).await.unwrap();
    let described = |map: Option<&ConfigMap>| {
        let data = map.and_then(|map| map.data.as_ref());
        data.and_then(|data| data.get("domain"))
            .is_some_and(|domain| domain == "example.com")
    };
    let map = soon(await_condition(maps, "home", described)).await.unwrap();
    assert_eq!(map.unwrap().owner_references()[0].kind, "Website");
    drop(stop);
    soon(running).await.unwrap().unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn a_dropped_kube_watch_leaves_no_stream_open() {
    let cluster = start().await;
    let websites = Api::<Website>::default_namespaced(cluster.kube_client());
    let mut events = watcher(websites, watcher::Config::default()).boxed();
    let first = soon(events.next()).await;
    assert!(first.is_some_and(|event| event.is_ok()));
    let watches = watchkeeper_server::RequestMatch::new(watchkeeper_server::Verb::Watch, "websites");
    let faults = cluster.server().faults().clone();
    soon(async {
        loop {
            let _ = futures_util::poll!(events.next());
            if faults.open_streams(&watches) == 1 {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(events);
    soon(async {
        while faults.open_streams(&watches) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    cluster.stop().await;
}
